package page

import (
	"bytes"
	"fmt"
	"time"

	"github.com/bperf/bperf/internal/serve/remote"
)

// remote writes the section of the sessions from afar.
func (v *view) remote(b *bytes.Buffer) {
	heading(b, "sessions", "Sessions from afar")
	s := &v.sessions
	var started uint64
	var ended [remote.Outcomes]uint64
	for command, n := range s.Started {
		started += n
		for outcome, n := range s.Ended[command] {
			ended[outcome] += n
		}
	}
	fmt.Fprintf(b, `<p class="dim">%d began since the start: %d run, %d succeeded, %d failed, %d were ended by this node, %d were left by their clients. `+
		"%d requests were refused. They took %.1f s of CPU time.</p>\n", started, len(s.Running), ended[remote.Succeeded], ended[remote.Failed], ended[remote.Limited],
		ended[remote.Gone], s.Refused, s.CPUTime.Seconds())
	if len(s.Running) == 0 {
		return
	}
	b.WriteString(`<table class="cards"><thead><tr><th>Command</th><th>Client</th><th class="n">Since</th><th class="n">Runs for</th><th class="n">Sent</th>` +
		"</tr></thead>\n<tbody>\n")
	for i := range s.Running {
		r := &s.Running[i]
		fmt.Fprintf(b, `<tr><td class="name">%s <small><bdi>%s</bdi></small></td><td class="name"><bdi>%s</bdi></td><td class="n" data-l="Since">%s</td>`+
			`<td class="n" data-l="Runs for">%v of at most %v</td><td class="n" data-l="Sent">%s of at most %s</td></tr>`+"\n", text(r.Command), text(r.Args),
			text(r.Client), clock(r.Begin), max(0, v.step.now.Time.Sub(r.Begin)).Round(time.Second), s.Longest, mebibytes(uint64(r.Sent)), mebibytes(uint64(s.Bytes)))
	}
	b.WriteString("</tbody></table>\n")
}
