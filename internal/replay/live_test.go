package replay

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestOwnerIs(t *testing.T) {
	file, deleted, anonymous := owner{1, 0x1800, "/bin/x"}, owner{1, 0x1800, "/bin/x (deleted)"}, owner{1, 0x1800, ""}
	for _, tt := range []struct {
		line string
		file bool
		anon bool
	}{
		{"1000-2000 r-xp 00000000 08:01 5    /bin/x", true, false},
		{"1000-2000 r-xp 00000000 08:01 5    /srv/container/bin/x", true, false},
		{"1000-2000 r-xp 00000000 08:01 5    /bin/x (deleted)", true, false},
		{"1000-2000 r-xp 00000000 08:01 5    /usr/sbin/x", false, false},
		{"1000-1800 r-xp 00000000 08:01 5    /bin/x", false, false},
		{"1900-2000 r-xp 00000000 08:01 5    /bin/x", false, false},
		{"1000-2000 r--p 00000000 08:01 5    /bin/x", false, false},
		{"1000-2000 rwxp 00000000 00:00 0 ", false, true},
		{"1000-2000 rwxp 00000000 00:00 0    [anon:v8]", false, true},
		{"1000-2000", false, false},
		{"", false, false},
	} {
		var m codeMapping
		code := parseMaps(strings.NewReader(tt.line + "\n"))
		ok := len(code) == 1
		if ok {
			m = code[0]
		}
		for _, o := range []owner{file, deleted} {
			if is := ok && o.is(&m); is != tt.file || is && (m.start != 0x1000 || m.end != 0x2000) {
				t.Errorf("%q: is %s: %v, %+v", tt.line, o.path, is, m)
			}
		}
		if is := ok && anonymous.is(&m); is != tt.anon {
			t.Errorf("%q: is anonymous: %v", tt.line, is)
		}
	}
}

// TestLiveMaps looks up the files of a process: its mappings are read once for several files, and again some time later.
func TestLiveMaps(t *testing.T) {
	self := int32(os.Getpid())
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	code := parseMaps(f)
	i := slices.IndexFunc(code, func(m codeMapping) bool { return m.path == path })
	if i < 0 {
		t.Fatalf("%s is not in %+v", path, code)
	}
	var l liveMaps
	own, other := owner{self, code[i].start, path}, owner{self, 0x1000, "/a"}
	if p, lives := l.find(own); !lives || p.root != fmt.Sprintf("/proc/%d/root", self) || !l.kept[self].until.After(time.Time{}) {
		t.Errorf("%+v, %v; kept %+v", p, lives, l.kept)
	}
	l.kept[self] = liveMap{[]codeMapping{{start: 0x1000, end: 0x2000, path: "/a"}}, time.Now().Add(time.Hour)}
	if _, lives := l.find(own); lives {
		t.Error("the mappings were read again at once")
	}
	if p, lives := l.find(other); !lives || p.mapped != fmt.Sprintf("/proc/%d/map_files/1000-2000", self) {
		t.Errorf("%+v, %v", p, lives)
	}
	if n := testing.AllocsPerRun(10, func() { l.find(other) }); n > 10 {
		t.Errorf("%v allocations", n)
	}
	l.kept[self] = liveMap{l.kept[self].code, time.Now().Add(-time.Second)}
	if _, lives := l.find(own); !lives {
		t.Error("the mappings were not read again")
	}
	for pid := range int32(maxLive) {
		l.kept[pid] = liveMap{until: time.Now().Add(time.Hour)}
	}
	if l.of(self); len(l.kept) > maxLive+1 {
		t.Errorf("%d processes are kept", len(l.kept))
	}
	if _, lives := l.find(owner{1 << 30, 0x1000, "/a"}); lives {
		t.Error("a process lives that is not there")
	}
}

// TestManyMappings has more mappings than any program, and longer paths.
func TestManyMappings(t *testing.T) {
	for size, want := range map[int]int{1: maxMappings, 4000: maxPaths / 4001} {
		var text strings.Builder
		for n := range 2 * maxMappings {
			fmt.Fprintf(&text, "%x-%x r-xp 00000000 08:01 5 /%s\n", n<<12, (n+1)<<12, strings.Repeat("a", size))
		}
		if n := len(parseMaps(strings.NewReader(text.String()))); n != want {
			t.Errorf("%d mappings are kept, not %d", n, want)
		}
	}
}

func TestStatus(t *testing.T) {
	if got, want := (owner{pid: int32(os.Getpid())}).status(), (status{int32(os.Getpid()), os.Geteuid()}); got != want {
		t.Errorf("%+v, not %+v", got, want)
	}
	if got := (owner{pid: 1 << 30}).status(); got != (status{}) {
		t.Errorf("%+v for a process that is not there", got)
	}
}

func TestShortNames(t *testing.T) {
	for name, want := range map[string]string{
		"/usr/bin/ls": "ls", "//anon": "//anon", "/tmp/perf-12.map": "[JIT] tid 12", "/tmp/perf-x.map": "perf-x.map", "/tmp/perf-12.data": "perf-12.data",
	} {
		if got := shortName(name); got != want {
			t.Errorf("%s: %s, not %s", name, got, want)
		}
	}
}
