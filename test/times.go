package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// printTimes prints the longest phases, packages and tests, most of each.
func printTimes(w io.Writer, runs []*run, most int, all time.Duration) {
	out := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight|tabwriter.StripEscape)
	fmt.Fprintf(w, "\nTime, in seconds: %.0f in all\n\n", all.Seconds())
	var phases, packages, tests []took
	for _, r := range runs {
		for _, p := range r.phases {
			phases = add(phases, took{where: r.where.String(), test: p.name, wall: p.took})
		}
		packages = append(packages, r.packages...)
		tests = append(tests, r.tests...)
	}
	fmt.Fprintln(out, "wall\tCPU\t kernel\tpackage, test or phase\t")
	for _, list := range [][]took{phases, packages, tests} {
		slices.SortStableFunc(list, func(a, b took) int { return cmp.Compare(b.wall, a.wall) })
		for _, t := range list[:min(most, len(list))] {
			cpu := ""
			if t.cpu > 0 {
				cpu = fmt.Sprintf("%.1f", t.cpu.Seconds())
			}
			fmt.Fprintf(out, "%.1f\t%s\t %s\t%s %s\t\n", t.wall.Seconds(), cpu, t.where, t.pkg, t.test)
		}
		fmt.Fprintln(out, "\t\t\t\t")
	}
	out.Flush()
}

// add adds t to the element of list with the same phase and kernel, or appends it.
func add(list []took, t took) []took {
	for i := range list {
		if list[i].where == t.where && list[i].test == t.test {
			list[i].wall += t.wall
			return list
		}
	}
	return append(list, t)
}
