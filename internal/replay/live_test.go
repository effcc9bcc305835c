package replay

import (
	"os"
	"testing"
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
		for _, o := range []owner{file, deleted} {
			if start, end, is := o.is(tt.line); is != tt.file || is && (start != 0x1000 || end != 0x2000) {
				t.Errorf("%q: is %s: %v, from %#x to %#x", tt.line, o.path, is, start, end)
			}
		}
		if _, _, is := anonymous.is(tt.line); is != tt.anon {
			t.Errorf("%q: is anonymous: %v", tt.line, is)
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
