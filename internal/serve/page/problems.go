package page

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/bperf/bperf/internal/kernel"
	"github.com/bperf/bperf/internal/serve/push"
)

// problem is something that does not work.
type problem struct{ what, why, remedy string }

// problems returns what does not work on this node, or not completely.
func (v *view) problems() []problem {
	s := v.step.now
	var all []problem
	for _, e := range s.Events {
		if e.Reason != "" {
			all = append(all, problem{"The event " + e.Name + " is not counted", strings.TrimPrefix(e.Reason, e.Name+": "), ""})
		}
	}
	for _, p := range []problem{{"Containers are missing", s.NoContainers, ""}, {"BPF programs are missing", s.NoPrograms, ""},
		{"Counting inside BPF programs", s.NoInside, ""}, {"Counters are not shared with other sessions of bperf", s.NotShared, ""}} {
		if p.why != "" {
			all = append(all, p)
		}
	}
	if v.noNames != nil {
		all = append(all, problem{"New containers may have no names", v.noNames.Error(), ""})
	}
	for _, l := range s.Losses {
		if l.Count > 0 {
			all = append(all, problem{"Not counted", fmt.Sprintf("%s: %d since the start", l.What, l.Count), ""})
		}
	}
	if v.doctor == nil {
		return all
	}
	for _, f := range v.doctor.Findings {
		if f.State != kernel.Works {
			all = append(all, problem{fmt.Sprintf("This machine: %s (%s)", f.Feature, f.State), f.Detail, f.Remedy})
		}
	}
	return all
}

// missing writes the section of problems.
func (v *view) missing(b *bytes.Buffer, all []problem) {
	heading(b, "missing", "What does not work here")
	if len(all) == 0 {
		b.WriteString("<p>Everything works that the configuration asks for.</p>\n")
		return
	}
	b.WriteString("<ul>\n")
	for _, p := range all {
		fmt.Fprintf(b, "<li>%s: %s", text(p.what), text(p.why))
		if p.remedy != "" {
			fmt.Fprintf(b, "<br><small>→ %s</small>", text(p.remedy))
		}
		b.WriteString("</li>\n")
	}
	b.WriteString("</ul>\n")
	if v.doctor != nil {
		b.WriteString("<p class=\"dim\">What concerns this machine is as bperf found it at its start; <code>bperf doctor</code> looks again.</p>\n")
	}
}

// servers writes the section of the servers that get profiles or metrics.
func (v *view) servers(b *bytes.Buffer) {
	heading(b, "pushes", "Pushes")
	if len(v.pushes) == 0 {
		b.WriteString("<p>Profiles and metrics are pushed to no server.</p>\n")
		return
	}
	b.WriteString(`<table class="cards"><thead><tr><th>Server</th><th class="n">Accepted</th><th class="n">Dropped</th><th class="n">Waiting</th>` +
		"<th>Last answer</th></tr></thead>\n<tbody>\n")
	for i := range v.pushes {
		v.server(b, &v.pushes[i])
	}
	b.WriteString("</tbody></table>\n")
}

func (v *view) server(b *bytes.Buffer, s *push.Stats) {
	dropped := ""
	for why, d := range s.Dropped {
		if d.Items > 0 {
			dropped += fmt.Sprintf(`<br><span class="bad">%s %d</span>`, push.Reason(why), d.Items)
		}
	}
	if dropped == "" {
		dropped = "<br>none"
	}
	answer := "none yet"
	if !s.LastSuccess.IsZero() {
		answer = "success at " + clock(s.LastSuccess)
	}
	if s.LastError != "" {
		answer = fmt.Sprintf(`<span class="bad">%s: %s</span><br>last success: %s`, clock(s.LastFailure), text(s.LastError), answerTime(s.LastSuccess))
	}
	fmt.Fprintf(b, `<tr><td class="name">%s <small>%s</small></td><td class="n" data-l="Accepted">%d %s, %s</td><td class="n" data-l="Dropped">%s</td>`+
		`<td class="n" data-l="Waiting">%d requests, %s of %s</td><td class="name">%s</td></tr>`+"\n", text(s.Kind), text(s.URL), s.Accepted, s.Items(), mebibytes(s.Bytes),
		"<span>"+dropped[len("<br>"):]+"</span>", s.Waiting, mebibytes(uint64(s.WaitingBytes)), mebibytes(uint64(s.Limit)), answer)
}

func answerTime(t time.Time) string {
	if t.IsZero() {
		return "none"
	}
	return clock(t)
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
