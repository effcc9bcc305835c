package page

import (
	"bytes"
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/bperf/bperf/internal/kernel"
	"github.com/bperf/bperf/internal/serve/budget"
	"github.com/bperf/bperf/internal/serve/container"
	"github.com/bperf/bperf/internal/serve/node"
	"github.com/bperf/bperf/internal/serve/profiles"
	"github.com/bperf/bperf/internal/serve/push"
	"github.com/bperf/bperf/internal/serve/remote"
)

// The most rows of tables. A row for more is said to be left out.
const (
	mostContainers = mostTracks
	mostPrograms   = 100
	mostCPUs       = 256
)

// view is what one page shows.
type view struct {
	*Config
	budget   *budget.Status // nil if it is not known
	doctor   *kernel.Report // nil if it is not known
	noNames  error          // why the kubelet gives no names
	sessions remote.Stats
	pushes   []push.Stats
	window   *profiles.Window // nil for none
	before   *profiles.Window // the one to compare it with; nil for none
	noWindow error            // why there is no profile at the moment
	past     *history
	step     *step // nil if there are no counts yet
	failure  error
}

// write writes the page.
func (v *view) write(b *bytes.Buffer) {
	title := "bperf"
	if v.Host != "" {
		title += " on " + v.Host
	}
	fmt.Fprintf(b, `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<noscript><meta http-equiv="refresh" content="%d"></noscript>
<title>%s</title>
<style>%s</style>
</head>
<body>
<header>
<h1>%s</h1>
<p><button id="pause" hidden>Pause</button> <span id="state" class="bad" role="status"></span></p>
</header>
<main>
`, int(every.Seconds()), text(title), style, text(title))
	v.content(b)
	fmt.Fprintf(b, "</main>\n<script>%s</script>\n</body>\n</html>\n", script)
}

// content writes everything that changes.
func (v *view) content(b *bytes.Buffer) {
	if v.failure != nil {
		fmt.Fprintf(b, `<p class="bad">The counts could not be read: %s</p>`+"\n", text(v.failure.Error()))
	}
	if v.step == nil {
		b.WriteString("<p>bperf has not begun to count yet.</p>\n")
		return
	}
	s := v.step.now
	problems := v.problems()
	fmt.Fprintf(b, `<p class="dim">Values are of the %d s up to <time datetime="%s">%s</time>; lines begin at most %d minutes earlier, and at 0. `+
		`A value with ≈ is scaled up: its event was multiplexed.</p>`+"\n<nav>", int(every.Seconds()), s.Time.UTC().Format(time.RFC3339),
		s.Time.UTC().Format("15:04:05 UTC"), int((points * every).Minutes()))
	for _, link := range [][2]string{{"self", "bperf itself"}, {"containers", "Containers"}, {"programs", "BPF programs"}, {"cpus", "Events by CPU"},
		{"missing", fmt.Sprintf("What does not work here (%d)", len(problems))}, {"sessions", fmt.Sprintf("Sessions (%d)", len(v.sessions.Running))}, {"pushes", "Pushes"}} {
		fmt.Fprintf(b, `<a id="to-%s" href="#%s">%s</a> `, link[0], link[0], link[1])
	}
	b.WriteString("</nav>\n")
	v.self(b)
	v.containers(b)
	v.programs(b)
	v.cpus(b)
	v.missing(b, problems)
	v.remote(b)
	v.servers(b)
	b.WriteString(`<h2>More</h2>
<p><a id="metrics" href="/metrics">/metrics</a>: counts, for Prometheus. <a id="pprof" href="/debug/pprof/">/debug/pprof/</a>: profiles, for <code>go tool ` +
		`pprof</code> and others. <a id="ready" href="/-/ready">/-/ready</a>: whether bperf counts.</p>` + "\n")
}

// heading writes the heading of a section.
func heading(b *bytes.Buffer, id, title string) {
	fmt.Fprintf(b, `<h2 id="%s">%s</h2>`+"\n", id, title)
}

// columns are the columns of the table of containers.
var columns = [measures]struct{ title, unit, format string }{
	cpuTime:  {"CPU", " %", "%.1f"},
	runnable: {"Waits for a CPU", " %", ""},
	blocked:  {"Blocked", " %", ""},
	sleeping: {"Sleeping", " %", ""},
	ipc:      {"IPC", "", "%.2f"},
	misses:   {"Misses per 1000 instr.", "", "%.2f"},
	switches: {"Switches/s", "", ""},
	faults:   {"Faults/s", "", ""},
}

// containers writes the table of containers.
func (v *view) containers(b *bytes.Buffer) {
	heading(b, "containers", "Containers and units")
	if why := v.step.now.NoContainers; why != "" {
		fmt.Fprintf(b, `<p class="bad">%s</p>`+"\n", text(why))
	}
	v.flameGraphs(b)
	if len(v.step.rows) == 0 {
		b.WriteString("<p>There are none.</p>\n")
		return
	}
	b.WriteString("<p class=\"dim\">Percentages are of the time that passed: 200 % is two CPUs, or two threads. A thread waits for a CPU, is blocked " +
		"(uninterruptible: for disks, and locks in the kernel) or sleeps; this counts when it has run again. IPC is instructions per cycle.</p>\n")
	b.WriteString(`<table class="cards"><thead><tr><th>Name</th>`)
	for m := range measure(measures) {
		if v.step.uses.has(m) {
			fmt.Fprintf(b, `<th class="n">%s</th>`, columns[m].title)
		}
	}
	b.WriteString("<th>Profile</th></tr></thead>\n<tbody>\n")
	now, before := sampled(v.window), sampled(v.before)
	for i := range min(len(v.step.rows), mostContainers) {
		r := &v.step.rows[i]
		v.container(b, r, now[r.Cgroup], before[r.Cgroup])
	}
	b.WriteString("</tbody></table>\n")
	leftOut(b, len(v.step.rows)-mostContainers, "containers and units that took less CPU time")
}

// flameGraphs writes the link to the flame graph of the node, or says why there is none.
func (v *view) flameGraphs(b *bytes.Buffer) {
	switch {
	case v.Windows == nil:
		b.WriteString("<p class=\"dim\">There are no flame graphs, because no profile is taken: see <code>profile</code> in the configuration.</p>\n")
	case v.noWindow != nil:
		fmt.Fprintf(b, `<p class="bad">There is no profile at the moment: %s</p>`+"\n", text(v.noWindow.Error()))
	case v.window == nil:
		b.WriteString("<p class=\"dim\">The first profile is being taken.</p>\n")
	}
	if v.window == nil {
		return
	}
	fmt.Fprintf(b, `<p><a id="flames" href="/flamegraph">Flame graph of the node</a>, %s`, timeOf(v.window))
	if v.before != nil {
		fmt.Fprintf(b, `; <a id="flames-diff" href="/flamegraph?diff">compared</a> with %s`, timeOf(v.before))
	}
	b.WriteString("</p>\n")
}

// sampled returns the cgroups that have samples in a window.
func sampled(w *profiles.Window) map[uint64]bool {
	all := map[uint64]bool{}
	if w != nil {
		for i := range w.Parts {
			all[w.Parts[i].Cgroup] = true
		}
	}
	return all
}

// container writes the row of a container. now and before say whether it has samples in the last window, and in the one to compare with.
func (v *view) container(b *bytes.Buffer, r *row, now, before bool) {
	fmt.Fprintf(b, `<tr><td class="name">%s</td>`, nameOf(&r.Name, r.ended))
	track := v.past.tracks[r.Cgroup]
	for m := range measure(measures) {
		if !v.step.uses.has(m) {
			continue
		}
		var l *line
		if track != nil {
			l = &track[m]
		}
		fmt.Fprintf(b, `<td class="n" data-l="%s">%s</td>`, columns[m].title, v.formatted(r.rates[m], l, columns[m].format, columns[m].unit))
	}
	b.WriteString(`<td class="links">`)
	if now {
		fmt.Fprintf(b, `<a id="f%d" href="/flamegraph?cgroup=%d">flame graph</a> `, r.Cgroup, r.Cgroup)
	}
	if now && before {
		fmt.Fprintf(b, `<a id="d%d" href="/flamegraph?cgroup=%d&amp;diff">compared</a> `, r.Cgroup, r.Cgroup)
	}
	if r.ID != "" && !r.ended {
		fmt.Fprintf(b, `<a id="p%d" href="/debug/pprof/profile?container=%s">pprof, 10 s</a>`, r.Cgroup, text(url.QueryEscape(r.ID)))
	}
	b.WriteString("</td></tr>\n")
}

// nameOf returns a container's name, with the beginning of its ID, and whether it has ended.
func nameOf(n *container.Name, ended bool) string {
	title, more := titleOf(n), n.ID[:min(len(n.ID), 12)]
	if more == title {
		more = ""
	}
	if ended {
		more = strings.TrimSpace(more + " ended")
	}
	html := "<bdi>" + text(title) + "</bdi>"
	if more != "" {
		html += " <small><bdi>" + text(more) + "</bdi></small>"
	}
	return html
}

// titleOf returns the best name that a container has.
func titleOf(n *container.Name) string {
	if n.Pod != "" || n.Container != "" {
		var parts []string
		for _, part := range []string{n.Namespace, n.Pod, n.Container} {
			if part != "" {
				parts = append(parts, part)
			}
		}
		return strings.Join(parts, "/")
	}
	return cmp.Or(n.Path, n.ID)
}

// programs writes the table of BPF programs.
func (v *view) programs(b *bytes.Buffer) {
	heading(b, "programs", "BPF programs")
	s := v.step.now
	if s.NoPrograms != "" {
		fmt.Fprintf(b, `<p class="bad">%s</p>`+"\n", text(s.NoPrograms))
	}
	var ran []*node.Program
	for i := range s.Programs {
		if p := &s.Programs[i]; p.Runs > 0 && p.Window > 0 {
			ran = append(ran, p)
		}
	}
	slices.SortStableFunc(ran, func(a, b *node.Program) int { return cmp.Compare(percent(b.Time, b.Window), percent(a.Time, a.Window)) })
	if s.NoPrograms == "" {
		fmt.Fprintf(b, `<p class="dim">Measured for %v in total, because measuring makes each run slower. Of %d loaded programs, %d ran in that time.</p>`+"\n",
			s.Self.Window.Round(time.Millisecond), len(s.Programs), len(ran))
	}
	if len(ran) == 0 {
		return
	}
	b.WriteString(`<table class="cards"><thead><tr><th>Name</th><th class="n">CPU</th><th class="n">Runs/s</th><th class="n">Time per run</th>` +
		"</tr></thead>\n<tbody>\n")
	for _, p := range ran[:min(len(ran), mostPrograms)] {
		fmt.Fprintf(b, `<tr><td class="name"><bdi>%s</bdi> <small>%s %d, tag %s</small></td><td class="n" data-l="CPU">%.3f %%</td>`+
			`<td class="n" data-l="Runs/s">%s</td><td class="n" data-l="Time per run">%.0f ns</td></tr>`+"\n", text(cmp.Or(p.Name, "(no name)")), text(p.Type), p.ID,
			text(p.Tag), percent(p.Time, p.Window), short(float64(p.Runs)/p.Window.Seconds()), float64(p.Time)/float64(p.Runs))
	}
	b.WriteString("</tbody></table>\n")
	leftOut(b, len(ran)-mostPrograms, "programs that took less time")
}

// cpus writes the table of events.
func (v *view) cpus(b *bytes.Buffer) {
	heading(b, "cpus", "Events per second by CPU")
	s := v.step.now
	var counted []int
	for i, e := range s.Events {
		if e.Reason == "" {
			counted = append(counted, i)
		}
	}
	if len(counted) == 0 {
		b.WriteString("<p>No event is counted.</p>\n")
		return
	}
	b.WriteString(`<div class="wide" tabindex="0" id="cpu-table" role="region" aria-label="Events by CPU"><table><thead><tr><th>CPU</th>`)
	for _, i := range counted {
		fmt.Fprintf(b, `<th class="n">%s</th>`, text(s.Events[i].Name))
	}
	b.WriteString("</tr></thead>\n<tbody>\n<tr><td>all</td>")
	for _, i := range counted {
		fmt.Fprintf(b, `<td class="n">%s</td>`, v.formatted(v.step.events[i], v.past.events[i], "", ""))
	}
	b.WriteString("</tr>\n")
	for c := range min(len(v.step.cpus), mostCPUs) {
		fmt.Fprintf(b, "<tr><td>%d</td>", s.CPUs[c].Number)
		for _, i := range counted {
			fmt.Fprintf(b, `<td class="n">%s</td>`, v.formatted(v.step.cpus[c][i], nil, "", ""))
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("</tbody></table></div>\n")
	leftOut(b, len(v.step.cpus)-mostCPUs, "CPUs")
}

// leftOut says that rows are left out, if there are any.
func leftOut(b *bytes.Buffer, n int, what string) {
	if n > 0 {
		fmt.Fprintf(b, `<p class="dim">Left out: %d %s.</p>`+"\n", n, what)
	}
}
