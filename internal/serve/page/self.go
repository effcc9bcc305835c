package page

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bperf/bperf/internal/serve/budget"
)

// self writes the cost of the daemon, its budget, and what it gives up to keep it.
func (v *view) self(b *bytes.Buffer) {
	heading(b, "self", "What bperf itself takes")
	self := &v.step.now.Self
	b.WriteString("<dl>\n")
	term := func(name, html string) { fmt.Fprintf(b, "<dt>%s</dt><dd>%s</dd>\n", name, html) }
	if v.budget != nil {
		v.kept(term)
	}
	term("CPU time", v.value(v.step.own, v.past.own, " % of a CPU")+fmt.Sprintf(" <small>%.1f s since the start</small>", self.CPUTime.Seconds()))
	term("Memory", mebibytes(self.Memory)+fmt.Sprintf(" <small>with %s of files, and %.1f KiB for the lines of this page</small>",
		mebibytes(self.Memory-min(self.Unfiled, self.Memory)), float64(v.past.bytes())/1024))
	if self.Window > 0 {
		var all time.Duration
		var names []string
		for name, t := range self.Programs {
			all += t
			names = append(names, fmt.Sprintf("%s %.3f %%", text(name), percent(t, self.Window)))
		}
		slices.Sort(names)
		term("Its BPF programs", fmt.Sprintf("%.3f %% of a CPU while measured <small>%s</small>", percent(all, self.Window), strings.Join(names, ", ")))
	}
	if v.step.now.NotShared == "" {
		term("Counters", "shared with other sessions of bperf")
	}
	term("Version", text(v.Version))
	b.WriteString("</dl>\n")
}

// kept writes the budget: what is used of it, and what is given up.
func (v *view) kept(term func(name, html string)) {
	s := v.budget
	cpu, memory := s.CPU(), s.Memory
	var parts []string
	for _, part := range []struct {
		name string
		of   budget.Value
	}{{"the process", s.Process}, {"its BPF programs about", s.Programs}, {"sessions", s.Sessions}} {
		if part.of.Known {
			parts = append(parts, fmt.Sprintf("%s %.2f %%", part.name, 100*part.of.Of))
		}
	}
	term("CPU budget", used(100*cpu.Of, 100*s.Limits.CPU, cpu.Known, "%.2f", " % of all CPUs")+" <small>"+strings.Join(parts, ", ")+"</small>")
	term("Memory budget", used(memory.Of/(1<<20), float64(s.Limits.Memory>>20), memory.Known, "%.1f", " MiB")+" <small>without files, which the kernel can drop</small>")
	givenUp := "nothing"
	if s.Level > 0 {
		givenUp = fmt.Sprintf(`<strong class="bad">%s</strong> <small>level %d: %s</small>`, strings.Join(givesUp(s), "; "), s.Level, text(s.Why))
	}
	term("Given up for it", givenUp)
}

// used returns a value beside its limit, which is 0 without one, and a bar.
func used(value, limit float64, known bool, format, unit string) string {
	of := "no limit"
	if limit > 0 {
		of = fmt.Sprintf("of %.4g%s", limit, unit)
	}
	if !known {
		return "not measured yet, " + of
	}
	number := fmt.Sprintf(format, value)
	if limit <= 0 {
		return number + unit + ", " + of
	}
	class := "bar"
	if value > limit {
		class = "bar over"
	}
	return fmt.Sprintf(`<svg class="%s" viewBox="0 0 100 10" preserveAspectRatio="none" role="img"><title>%.0f %%</title>`+
		`<rect width="%.1f" height="10"/></svg>%s %s`, class, 100*value/limit, 100*min(value/limit, 1), number, of)
}

// givesUp returns what a level above 0 gives up.
func givesUp(s *budget.Status) (all []string) {
	if s.All.Profile && !s.Plan.Profile {
		all = append(all, "the profile")
	} else if s.Plan.Frequency < s.All.Frequency {
		all = append(all, fmt.Sprintf("samples: %d Hz of %d Hz", s.Plan.Frequency, s.All.Frequency))
	}
	if s.All.Inside && !s.Plan.Inside {
		all = append(all, "counts inside BPF programs")
	}
	if s.All.Switches && !s.Plan.Switches {
		all = append(all, "counts of containers")
	}
	if s.Plan.Events < s.All.Events {
		all = append(all, fmt.Sprintf("events: the first %d of %d are counted", s.Plan.Events, s.All.Events))
	}
	return all
}
