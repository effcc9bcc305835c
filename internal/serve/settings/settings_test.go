package settings

import (
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/internal/serve/budget"
	"github.com/bperf/bperf/test/require"
)

// TestText checks that the printed configuration has each key, and that it parses to the defaults.
func TestText(t *testing.T) {
	require.NoKernel(t)
	s, err := Parse([]byte(Text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default(), s); diff != "" {
		t.Error(diff)
	}
	checkKeys(t, reflect.TypeFor[Settings](), "")
}

func checkKeys(t *testing.T, of reflect.Type, indent string) {
	for i := range of.NumField() {
		f := of.Field(i)
		key := f.Tag.Get("yaml")
		if key == "-" {
			continue
		}
		if !regexp.MustCompile(`(?m)^` + indent + key + `:`).MatchString(Text) {
			t.Errorf("the defaults have no key %s", key)
		}
		if f.Type.Kind() == reflect.Struct {
			checkKeys(t, f.Type, "  ")
		}
	}
}

func TestParse(t *testing.T) {
	require.NoKernel(t)
	s, err := Parse([]byte(`
listen: ["unix:/run/bperf.sock", "[::1]:0"]
roles:
  loopback: []
  users: {alice: [read, metrics]}
bpf_statistics: {every: 90s}
budget: {cpu: 0.5%, memory: 1G}
log: {level: debug}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Listen = []string{"unix:/run/bperf.sock", "[::1]:0"}
	want.Roles.Loopback = 0
	want.Roles.Users = map[string]RoleSet{"alice": Read | Metrics}
	want.Statistics.Every = 90 * time.Second
	want.Budget = Budget{"0.5%", "1G", budget.Limits{CPU: 0.005, Memory: 1 << 30}}
	want.Log = Log{Level: slog.LevelDebug, Format: "logfmt", LevelName: "debug"}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Error(diff)
	}
}

func TestParseErrors(t *testing.T) {
	require.NoKernel(t)
	for _, test := range []struct{ text, want string }{
		{"listen: [127.0.0.1:1]\nnosuch: 1", "line 2: unknown key nosuch: bperf serve --print-config shows all keys"},
		{"log:\n  colour: red", "line 2: unknown key colour: bperf serve --print-config shows all keys"},
		{"insecure: false\ninsecure: true", "line 2: key insecure is set twice"},
		{"log: loud", "line 1: cannot unmarshal !!str `loud` into a section"},
		{"listen: [", "line 1: did not find expected node content"},
		{"series_limit: many", "line 1: cannot unmarshal !!str `many` into int"},
		{"listen: []", "listen: there is no address: name at least one, such as 127.0.0.1:9465"},
		{"listen: [localhost]", `listen: "localhost" is not HOST:PORT or unix:PATH: address localhost: missing port in address`},
		{"listen: [\"localhost:http\"]", `listen: "localhost:http": the port is not a number from 0 to 65535`},
		{"listen: [\"unix:bperf.sock\"]", `listen: "unix:bperf.sock": the path of a socket begins with / and has at most 107 bytes`},
		{"events: ['']", "events: a name is empty"},
		{"events: [" + strings.Repeat("cycles,", 65) + "]", "events: there are 65: at most 64 are possible"},
		{"series_limit: 0", "series_limit: 0 is not between 1 and 1000000"},
		{"bpf_statistics: {on: 2m}", "bpf_statistics: on must be at least 1ms, and at most every: on is 2m0s, every is 1m0s"},
		{"budget: {cpu: 1}", `budget: cpu: "1" is not a percentage of all CPUs, such as 1%, or 0 for no limit`},
		{"budget: {cpu: NaN%}", `budget: cpu: "NaN%" is not a percentage of all CPUs, such as 1%, or 0 for no limit`},
		{"budget: {cpu: 101%}", `budget: cpu: "101%" is not a percentage of all CPUs, such as 1%, or 0 for no limit`},
		{"budget: {cpu: -1%}", `budget: cpu: "-1%" is not a percentage of all CPUs, such as 1%, or 0 for no limit`},
		{"budget: {memory: 64}", `budget: memory: "64" is not a size of at least 32M, such as 64M or 1G, or 0 for no limit`},
		{"budget: {memory: 31M}", `budget: memory: "31M" is not a size of at least 32M, such as 64M or 1G, or 0 for no limit`},
		{"budget: {memory: 99999G}", `budget: memory: "99999G" is not a size of at least 32M, such as 64M or 1G, or 0 for no limit`},
		{"sessions: {at_once: 0}", "sessions: at_once is 0, and must be from 1 to 32"},
		{"sessions: {longest: 25h}", "sessions: longest is 25h0m0s, and must be from 1s to 24h"},
		{"sessions: {bytes: 0}", "sessions: bytes is 0, and must be at least 1"},
		{"profile: {event: ''}\npush: [{kind: otlp, url: 'http://a'}]", "push: there is no profile to push: set profile.event or profile.offcpu"},
		{"debuginfod: [ftp://a]", `debuginfod: "ftp://a" is no URL of http or https`},
		{"log: {level: loud}", `log: unknown level "loud": debug, info, warn and error are possible`},
		{"log: {format: xml}", `log: unknown format "xml": logfmt and json are possible`},
		{"roles: {users: {a: [root]}}", `unknown role "root": the roles are metrics, read and record`},
	} {
		if _, err := Parse([]byte(test.text)); err == nil || err.Error() != test.want {
			t.Errorf("%q:\n got %v\nwant %s", test.text, err, test.want)
		}
	}
}

// TestNoBudget checks the values without limit.
func TestNoBudget(t *testing.T) {
	require.NoKernel(t)
	if l := Default().Budget.Limits; l != (budget.Limits{CPU: 0.01, Memory: 64 << 20}) {
		t.Errorf("by default %+v", l)
	}
	s, err := Parse([]byte("budget: {cpu: 0, memory: 0}"))
	if err != nil || s.Budget.Limits != (budget.Limits{}) {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestLoad(t *testing.T) {
	require.NoKernel(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "bperf.yml")
	if err := os.WriteFile(path, []byte("web_config: web.yml"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(dir, "web.yml"); s.WebConfig != want {
		t.Errorf("web_config is %s, want %s", s.WebConfig, want)
	}
	if err := os.WriteFile(path, []byte("nosuch: 1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.HasPrefix(err.Error(), path+": line 1: unknown key") {
		t.Errorf("error %v", err)
	}
	if _, err := Load(filepath.Join(dir, "nosuch")); err == nil || !strings.HasPrefix(err.Error(), "read the configuration: open ") {
		t.Errorf("error %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(Text))
	f.Add([]byte("listen: [a:1]\nroles: {users: {a: [read]}}"))
	f.Add([]byte("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse(data)
		if err != nil {
			if text := err.Error(); strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
				t.Errorf("control characters in the message %q", text)
			}
			return
		}
		if err := s.Check(); err != nil {
			t.Errorf("what Parse accepted is refused: %v", err)
		}
	})
}
