package stat

import (
	"fmt"
	"strings"
)

// runWidth is that of a column of runTable.
const runWidth = 13

// runTable prints what single runs of BPF programs counted, a line for each row that has any.
func (t *text) runTable(b *strings.Builder, rows []Row) {
	headed := false
	cgroups := hasCgroups(rows)
	for i := range rows {
		r := &rows[i]
		values := r.runValues()
		if values[0] == "" || t.o.hidden(r) {
			continue
		}
		if !headed {
			headed = true
			fmt.Fprintf(b, "\n%*s", len(t.place(Place{})), "")
			for _, c := range runColumns {
				fmt.Fprintf(b, "%*s ", runWidth, c)
			}
			b.WriteString("per run\n")
		}
		b.WriteString(t.place(r.Place))
		for _, v := range values {
			fmt.Fprintf(b, "%*s ", runWidth, v)
		}
		_, unit := r.runUnit()
		fmt.Fprintf(b, "%-*s %-*s", unitWidth, printable(unit), eventWidth, printable(r.Name))
		if cgroups {
			fmt.Fprintf(b, " %-*s", cgroupWidth, printable(r.Cgroup))
		}
		b.WriteByte('\n')
	}
}
