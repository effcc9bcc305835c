package report

import (
	"bufio"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bperf/bperf/internal/profile"
)

// readScript makes a profile from the output of `perf script -F comm,pid,tid,time,event,period,ip,sym,symoff,dso`.
func readScript(t testing.TB, text string, keep profile.Keys, events ...profile.Event) *profile.Profile {
	t.Helper()
	p := profile.New(keep)
	p.Events = events
	r := scriptReader{p: p}
	p.Modules.ID(profile.Module{Path: p.Strings.ID("[kernel.kallsyms]"), Name: p.Strings.ID("[kernel.kallsyms]")}) // is always the first module
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if err := r.line(lines.Text()); err != nil {
			t.Fatal(err)
		}
	}
	r.flush()
	return p
}

type scriptReader struct {
	p      *profile.Profile
	sample *profile.Sample
	frames []profile.FrameID
}

var (
	headLine  = regexp.MustCompile(`^(.*?)\s+(\d+)/(\d+)\s+(?:\[(\d+)\]\s+)?(\d+)\.(\d+):\s+(\d+)\s+(\S+):\s*$`)
	frameLine = regexp.MustCompile(`^\s*([0-9a-f]+) (.*) \((.*)\)$`)
)

func (r *scriptReader) line(line string) error {
	if line == "" {
		r.flush()
		return nil
	}
	if m := headLine.FindStringSubmatch(line); m != nil {
		r.flush()
		return r.head(m)
	}
	m := frameLine.FindStringSubmatch(line)
	if m == nil || r.sample == nil {
		return fmt.Errorf("cannot read the line %q", line)
	}
	r.frame(m)
	return nil
}

func (r *scriptReader) head(m []string) error {
	pid, err1 := strconv.Atoi(m[2])
	tid, err2 := strconv.Atoi(m[3])
	cpu, _ := strconv.Atoi(m[4])
	seconds, err3 := strconv.ParseInt(m[5], 10, 64)
	micros, err4 := strconv.ParseInt(m[6], 10, 64)
	period, err5 := strconv.ParseUint(m[7], 10, 64)
	for _, err := range []error{err1, err2, err3, err4, err5} {
		if err != nil {
			return err
		}
	}
	event := slices.IndexFunc(r.p.Events, func(e profile.Event) bool { return e.Name == m[8] })
	if event < 0 {
		return fmt.Errorf("there is no event %s", m[8])
	}
	r.sample = &profile.Sample{
		Event:  uint32(event),
		Labels: r.p.Label(profile.Labels{Comm: r.p.Strings.ID(m[1]), PID: int32(pid), TID: int32(tid), CPU: int32(cpu)}),
		Time:   seconds*1e9 + micros*1e3, Thread: int32(tid), Count: 1, Value: period,
	}
	return nil
}

func (r *scriptReader) frame(m []string) {
	p := r.p
	address, _ := strconv.ParseUint(m[1], 16, 64)
	f := profile.Frame{Address: address, IP: address, Kind: profile.User}
	path := m[3]
	if path != "[unknown]" && path != "" {
		name := path
		if path[0] == '/' {
			name = path[strings.LastIndexByte(path, '/')+1:]
		}
		f.Module = p.Modules.ID(profile.Module{Path: p.Strings.ID(path), Name: p.Strings.ID(name)})
	}
	if address >= 1<<63 {
		f.Kind = profile.Kernel
	}
	if strings.HasPrefix(path, "bpf_prog_") {
		f.Kind = profile.BPF
	}
	if m[2] != "[unknown]" {
		symbol := m[2]
		start := address
		if at := strings.LastIndex(symbol, "+0x"); at > 0 {
			offset, _ := strconv.ParseUint(symbol[at+3:], 16, 64)
			symbol, start = symbol[:at], address-offset
		}
		symbol, f.Inlined = strings.CutSuffix(symbol, " (inlined)")
		f.Function = p.Functions.ID(profile.Function{Name: p.Strings.ID(symbol), Module: f.Module, Start: start, End: start + 1})
	}
	r.frames = append(r.frames, p.Frame(f))
}

func (r *scriptReader) flush() {
	if r.sample == nil {
		return
	}
	if len(r.frames) > 0 {
		r.sample.Leaf = r.frames[0]
		r.sample.Stack = r.p.Stacks.ID(r.frames)
	}
	r.p.Add(*r.sample)
	r.sample, r.frames = nil, nil
}
