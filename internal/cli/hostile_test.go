package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/bperf/bperf/internal/perfdata"
)

// hostile moves the cursor, rings, begins a line that looks like bperf's, and has DEL and a control character of ISO 6429 beyond ASCII.
const hostile = "x\x1b[2J\a\r\nrow\u009b31m\x7f"

// writeHostile makes a recording in which every name is hostile.
func writeHostile(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "perf.data")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w, err := perfdata.NewWriter(file, perfdata.Options{Events: []*perfdata.Event{{Name: "cycles" + hostile, IDs: []uint64{7}, Attr: perfdata.Attr{
		SamplePeriod: 1000, Flags: perfdata.AttrSampleIDAll, SampleType: perfdata.SampleIdentifier | perfdata.SampleIP | perfdata.SampleTID |
			perfdata.SampleTime | perfdata.SampleCallchain | perfdata.SamplePeriod | perfdata.SampleCgroup}}}})
	if err != nil {
		t.Fatal(err)
	}
	const user, kernel, program = 0x7f0000000000, 0xffffffff81000000, 0xffffffffc0001000
	id := perfdata.SampleID{PID: 100, TID: 100, Time: 1e9, ID: 7}
	w.Write(perfdata.MiscUser, &perfdata.Comm{SampleID: id, PID: 100, TID: 100, Comm: hostile})
	w.Write(perfdata.MiscUser, &perfdata.Cgroup{SampleID: id, ID: 5, Path: "/" + hostile})
	w.Write(perfdata.MiscUser, &perfdata.Mmap2{SampleID: id, PID: 100, TID: 100, Start: user, Length: 1 << 20, Protection: 5, Flags: 2,
		Filename: "/nowhere/" + hostile})
	w.Write(perfdata.MiscKernel, &perfdata.KSymbol{SampleID: id, Addr: program, Size: 4096, Type: 1, Name: "bpf_prog_0123456789abcdef_" + hostile})
	w.Write(perfdata.MiscKernel, &perfdata.BPFEvent{SampleID: id, Type: 1, ID: 1})
	for range 4 {
		id.Time += 1000
		w.Write(perfdata.MiscUser, &perfdata.Sample{SampleID: id, IP: user + 16, Period: 1000, Cgroup: 5, Callchain: []uint64{perfdata.ContextUser, user + 16}})
		w.Write(perfdata.MiscKernel, &perfdata.Sample{SampleID: id, IP: program + 8, Period: 1000, Cgroup: 5,
			Callchain: []uint64{perfdata.ContextKernel, program + 8, kernel, perfdata.ContextUser, user + 16}})
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestHostileNames prints a recording with hostile names in every text format of every command that reads recordings.
func TestHostileNames(t *testing.T) {
	recording := writeHostile(t)
	commands := [][]string{
		{"script"}, {"script", "-G", "-F", "+cgroup,+srcline"}, {"script", "--json"}, {"script", "--header"},
		{"script", "--show-mmap-events", "--show-task-events", "--show-bpf-events", "--show-cgroup-events"},
		{"annotate", "--format", "text"}, {"annotate", "--format", "json"}, {"annotate", "--format", "html"},
		{"report", "--header-only"}, {"report", "--stats"}, {"report", "--sort", "comm,dso,sym,cgroup"}, {"report", "--children", "-g", "graph"},
	}
	for _, f := range reportFormats {
		if !f.binary {
			commands = append(commands, []string{"report", "--format", f.name})
		}
	}
	for _, args := range commands {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			var out, stderr bytes.Buffer
			root := newRootCommand("bperf")
			root.SetArgs(append(slices.Clone(args), "-i", recording))
			root.SetOut(&out)
			root.SetErr(&stderr)
			if err := root.Execute(); err != nil && args[0] != "annotate" { // the program's code is not in the recording
				t.Fatal(err)
			}
			for name, text := range map[string]string{"output": out.String(), "standard error": stderr.String()} {
				i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && unicode.IsControl(r) })
				if i >= 0 {
					t.Errorf("%s has a control character: %q", name, text[max(i-40, 0):min(i+10, len(text))])
				}
				if !slices.Contains(args, "html") && strings.Contains(text, "\nrow") { // a line break means nothing in HTML
					t.Errorf("in %s a name begins a line:\n%s", name, text)
				}
			}
			if slices.Contains(args, "--json") {
				var sample struct{ Comm string }
				if err := json.NewDecoder(&out).Decode(&sample); err != nil || sample.Comm != hostile {
					t.Errorf("the comm is %q, want %q (%v)", sample.Comm, hostile, err)
				}
			}
		})
	}
}
