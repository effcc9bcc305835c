package eventfile

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/bperf/bperf/internal/event/vendor"
)

// files writes the test's files and returns their directory.
func files(t testing.TB) string {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("testdata", "files.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, f := range archive.Files {
		path := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// lines returns a line for each event and metric of a table.
func lines(table *vendor.Table) []string {
	var all []string
	text := func(t *vendor.Text) string {
		if t == nil {
			return ""
		}
		return fmt.Sprintf(" %q %q", t.Brief, t.Long)
	}
	for _, pmu := range table.PMUs() {
		for e := range table.Events(pmu) {
			line := fmt.Sprintf("%s/%s/ %s", pmu, e.Name, e.Terms)
			if e.Period != 0 {
				line += fmt.Sprintf(" period=%d", e.Period)
			}
			if e.Scale != 1 || e.Unit != "" {
				line += fmt.Sprintf(" ×%g %s", e.Scale, e.Unit)
			}
			for word, set := range map[string]bool{" per-pkg": e.PerPkg, " deprecated": e.Deprecated} {
				if set {
					line += word
				}
			}
			if e.Errata != "" {
				line += " errata " + e.Errata
			}
			all = append(all, line+text(e.Text))
		}
	}
	for m := range table.Metrics() {
		all = append(all, fmt.Sprintf("%s = %s %v %s %s %s%s", m.Name, m.Expr, m.Groups, m.ScaleUnit, m.Threshold, m.PMU, text(m.Text)))
	}
	return all
}

func TestLoad(t *testing.T) {
	root := files(t)
	for _, test := range []struct {
		dir, cpu       string
		want, warnings []string
	}{
		{"kernel", "GenuineIntel-6-FE-1", []string{
			"/inst_retired.any/ event=0xc0 period=2000003",
			`/new_cache.miss/ event=0x24,umask=0x3f period=2003 errata NEW12 "Misses of the new cache" "Misses of the new cache. Prefetches do not count"`,
			"/new_cache.old/ event=0x24 deprecated",
			"/offcore.any/ event=0xb7,cmask=0x2,umask=0x1,offcore_rsp=0x10001",
			"uncore_cha/unc_cha_reads/ event=0x50,umask=0x3,config1=0x1 ×64 Bytes per-pkg",
			`new_miss_ratio = NEW_CACHE.MISS / INST_RETIRED.ANY [Cache New] 100% new_miss_ratio > 0.1 cpu_core "Misses for each instruction" ""`,
		}, nil},
		{"kernel", "0x00000000991fd0c2", []string{
			`/std_cycles/ event=0x11 "Cycles" ""`,
			`/std_reads/ event=0x20 "Reads of this core" "Reads of memory"`,
		}, nil},
		{"kernel", "GenuineIntel-6-97-2", nil, []string{"the event files in DIR/kernel have nothing for this CPU, GenuineIntel-6-97-2"}},
		{"kernel", "AuthenticAMD-25-1-1", nil, []string{"the event files in DIR/kernel have nothing for this CPU, AuthenticAMD-25-1-1"}},
		{"tools", "GenuineIntel-6-55-4", []string{
			`/offcore_requests_outstanding.x/ event=0x60,cmask=0x1,edge=0x1,umask=0x8 period=2000003 "Requests" ""`,
			`/offcore_response.reads.hit/ event=0xb7,umask=0x1,offcore_rsp=0x10001 "Reads that hit" ""`,
			"uncore_cbox/unc_c_lookup/ event=0x34,umask=0x11,config1=0x10 per-pkg",
			"uncore_iio/unc_iio_data.part1/ event=0x83,ch_mask=0x2,fc_mask=0x7,umask=0x1 per-pkg",
			"uncore_imc/unc_m_clockticks_f/ event=0xff per-pkg",
			"uncore_pcu/unc_p_freq_band/ event=0xb per-pkg",
			"uncore_upi/unc_upi_tx.x/ event=0x2,umask=0x10f per-pkg",
		}, nil},
		{"tools", "GenuineIntel-6-97-2", []string{"cpu_atom/topdown.all/ event=0x73", "cpu_core/topdown.all/ event=0xa4"}, nil},
		{"tools", "GenuineIntel-6-8F-8", nil, []string{"the event files in DIR/tools have nothing for this CPU, GenuineIntel-6-8F-8"}},
		{"model", "GenuineIntel-6-1-1", []string{"/last/ event=0x4 \"\\x1b[31mred\" \"\"", "/one/ event=0x1"}, []string{
			`4 of 6 entries of DIR/model/a.json are ignored; the first: event "TWO WORDS": a name has at most 255 letters, digits and characters of "_.-"`}},
		{"fetched", "GenuineIntel-6-8F-8", []string{"/spr/ event=0x1"}, nil},
		{"fetched", "GenuineIntel-6-97-8", []string{"cpu_atom/atom/ event=0x1"}, nil},
		{"fetched", "GenuineIntel-6-1-1", nil, []string{"the event files in DIR/fetched have nothing for this CPU, GenuineIntel-6-1-1"}},
		{"old", "GenuineIntel-6-1-1", []string{"/old.core/ event=0x9,umask=0x1", `uncore_sbox/unc_s_old/ event=0x1,umask=0x2 per-pkg "Of an old file" ""`}, nil},
		{"empty", "GenuineIntel-6-1-1", nil,
			[]string{"DIR/empty has neither event files (*.json) nor mapfile.csv: name the directory of a CPU model, or the one with mapfile.csv"}},
	} {
		for _, named := range []bool{true, false} {
			s := &Source{Dir: filepath.Join(root, test.dir), Named: named}
			table, warnings, err := s.Load(test.cpu)
			if err != nil {
				t.Errorf("%s for %s: %v", test.dir, test.cpu, err)
				continue
			}
			if diff := cmp.Diff(test.want, lines(table)); diff != "" {
				t.Errorf("%s for %s: (-want +got)\n%s", test.dir, test.cpu, diff)
			}
			for i, w := range warnings {
				warnings[i] = strings.ReplaceAll(w, root, "DIR")
			}
			want := test.warnings
			if !named && test.want == nil {
				want = nil // nobody asked for files for this CPU
			}
			if !slices.Equal(warnings, want) {
				t.Errorf("%s for %s: got warnings %q, want %q", test.dir, test.cpu, warnings, want)
			}
		}
	}
}

// A file that cannot be used is an error in a directory that the user named, and a warning in another.
func TestLoadBroken(t *testing.T) {
	root := files(t)
	if err := os.Mkdir(filepath.Join(root, "pipe"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(root, "pipe", "a.json"), 0o644); err != nil {
		t.Fatal(err)
	}
	large, err := os.Create(filepath.Join(root, "empty", "large.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer large.Close()
	if err := large.Truncate(maxFile + 1); err != nil { // a hole
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		"cut":     "cut/a.json: it ends in the middle of its JSON, after 21 bytes",
		"text":    "text/a.json: it is no JSON: invalid character 'h' in literal true (expecting 'r') after 0 bytes",
		"number":  "number/a.json: its list has 1 before byte 2, where the object of an event should be",
		"nested":  "nested/a.json: EventName before byte 23: the value is neither text nor a number",
		"object":  `object/a.json: its "Events" are an object, not a list`,
		"badmap":  "badmap/mapfile.csv: a row has 2 columns, not 4 or more: \"one,two\"",
		"outside": "outside/mapfile.csv names the directory \"../model\", which is outside of ",
		"away":    "away/mapfile.csv names the file \"/../model/a.json\", which is outside of ",
		"pipe":    "pipe/a.json is not a regular file",
		"empty":   "empty/large.json has more than 67108864 bytes",
	} {
		path := filepath.Join(root, dir)
		_, _, err := (&Source{Dir: path, Named: true}).Load("GenuineIntel-6-97-2")
		if err == nil || !strings.HasPrefix(err.Error(), "event files: "+root+"/"+want) || !strings.Contains(err.Error(), "correct or remove the file") {
			t.Errorf("%s: got %v, want %q", dir, err, want)
		}
		table, warnings, err := (&Source{Dir: path}).Load("GenuineIntel-6-97-2")
		if table != nil || err != nil || len(warnings) != 1 || !strings.HasPrefix(warnings[0], "event files are not used: "+root+"/"+want) {
			t.Errorf("%s: got %v, %q, %v; want a warning %q", dir, table, warnings, err, want)
		}
	}
	missing := filepath.Join(root, "missing")
	if _, _, err := (&Source{Dir: missing, Named: true}).Load("x"); err == nil || !strings.Contains(err.Error(), missing+": no such file or directory; name their") {
		t.Errorf("a directory that does not exist: %v", err)
	}
	for _, dir := range []string{missing, "/dev/null/.cache/pmu-events"} {
		if table, warnings, err := (&Source{Dir: dir}).Load("x"); table != nil || warnings != nil || err != nil {
			t.Errorf("the default directory %s that does not exist: got %v, %q, %v", dir, table, warnings, err)
		}
	}
}

// Root does not use files of other users that it finds.
func TestLoadForeign(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to another user")
	}
	root := files(t)
	dir := filepath.Join(root, "model")
	if err := os.Chown(filepath.Join(dir, "a.json"), 12345, -1); err != nil {
		t.Fatal(err)
	}
	table, warnings, err := (&Source{Dir: dir}).Load("GenuineIntel-6-1-1")
	if table != nil || err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "they belong to another user") {
		t.Errorf("got %v, %q, %v", table, warnings, err)
	}
	if table, _, err := (&Source{Dir: dir, Named: true}).Load("GenuineIntel-6-1-1"); table == nil || err != nil {
		t.Errorf("a named directory: got %v, %v", table, err)
	}
}

// pmu-tools links its files under a second name.
func TestLoadLinks(t *testing.T) {
	root := files(t)
	dir := filepath.Join(root, "model")
	for from, to := range map[string]string{"b.json": "a.json", "c.json": "nothing"} {
		if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
			t.Fatal(err)
		}
	}
	table, warnings, err := (&Source{Dir: dir, Named: true}).Load("GenuineIntel-6-1-1")
	if err != nil || len(warnings) != 1 || len(lines(table)) != 2 {
		t.Errorf("got %v, %q, %v", lines(table), warnings, err)
	}
}

func TestFind(t *testing.T) {
	for _, test := range []struct {
		named string
		env   map[string]string
		want  *Source
	}{
		{"/a", map[string]string{Variable: "/b", "HOME": "/h"}, &Source{"/a", true}},
		{"", map[string]string{Variable: "/b", "HOME": "/h"}, &Source{"/b", true}},
		{"", map[string]string{"XDG_CACHE_HOME": "/c", "HOME": "/h"}, &Source{"/c/pmu-events", false}},
		{"", map[string]string{"HOME": "/h"}, &Source{"/h/.cache/pmu-events", false}},
		{"", nil, nil},
	} {
		if diff := cmp.Diff(test.want, Find(test.named, func(name string) string { return test.env[name] })); diff != "" {
			t.Errorf("%q, %v: (-want +got)\n%s", test.named, test.env, diff)
		}
	}
}

func TestLimits(t *testing.T) {
	many := "[" + strings.Repeat("{},", maxEntries) + "{}]"
	if _, err := Decode([]byte(many)); err == nil || !strings.Contains(err.Error(), "more than 131072 entries") {
		t.Errorf("many entries: %v", err)
	}
	long := `[{"EventName": "` + strings.Repeat("x", maxValue) + `"}]`
	if _, err := Decode([]byte(long)); err == nil || !strings.Contains(err.Error(), "more than 65536 bytes") {
		t.Errorf("a long value: %v", err)
	}
	rows := strings.Repeat("A-1-1,v1,x,core\n", maxRows+1)
	if _, err := ReadMap(strings.NewReader(rows)); err == nil || !strings.Contains(err.Error(), "more than 4096 rows") {
		t.Errorf("a long map: %v", err)
	}
	if _, err := ReadMap(strings.NewReader("A-" + strings.Repeat("1", maxPattern) + ",v1,x,core\n")); err == nil {
		t.Error("a long pattern is no error")
	}
	dir := t.TempDir()
	for i := range maxNames + 1 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := (&Source{Dir: dir, Named: true}).Load("x"); err == nil || !strings.Contains(err.Error(), "more than 4096 files") {
		t.Errorf("a large directory: %v", err)
	}
}
