package remote

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bperf/bperf/test/require"
)

func TestFrames(t *testing.T) {
	require.NoKernel(t)
	frame := func(s Stream, payload string) string { return string(appendFrame(nil, s, []byte(payload))) }
	full := strings.Repeat("x", maxFrame)
	for _, test := range []struct {
		name, in    string
		out, errOut string
		end         End
		fault       string // empty for none
	}{
		{"only the end", frame(Final, `{"status":3}`), "", "", End{Status: 3}, ""},
		{"a reason", frame(Final, `{"status":0,"reason":"a limit"}`), "", "", End{Reason: "a limit"}, ""},
		{"both streams", frame(Stdout, "a") + frame(Stderr, "b") + frame(Stdout, "c") + frame(Final, `{}`), "ac", "b", End{}, ""},
		{"an empty frame", frame(Stdout, "") + frame(Final, `{}`), "", "", End{}, ""},
		{"the largest frame", frame(Stdout, full) + frame(Final, `{}`), full, "", End{}, ""},
		{"a frame that is too large", "\x01\x00\x01\x00\x01", "", "", End{}, "65537 bytes for stream 1"},
		{"an unknown stream", frame(3, "a"), "", "", End{}, "for stream 3"},
		{"nothing", "", "", "", End{}, errCut.Error()},
		{"without an end", frame(Stdout, "a"), "a", "", End{}, errCut.Error()},
		{"half a header", "\x01\x00", "", "", End{}, errCut.Error()},
		{"half a frame", "\x01\x00\x00\x00\x02a", "", "", End{}, errCut.Error()},
		{"an end that is no JSON", frame(Final, "a"), "", "", End{}, "the last frame"},
		{"a status that is none", frame(Final, `{"status":256}`), "", "", End{}, "exit status 256"},
	} {
		var out, errOut bytes.Buffer
		end, err := copyFrames(strings.NewReader(test.in), &out, &errOut)
		if end != test.end || out.String() != test.out || errOut.String() != test.errOut {
			t.Errorf("%s: %v %.80q %q", test.name, end, out.String(), errOut.String())
		}
		if (err == nil) != (test.fault == "") || err != nil && !strings.Contains(err.Error(), test.fault) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errGone }

func TestFramesToNobody(t *testing.T) {
	require.NoKernel(t)
	if _, err := copyFrames(bytes.NewReader(appendFrame(nil, Stdout, []byte("a"))), failingWriter{}, nil); !errors.Is(err, errGone) {
		t.Error(err)
	}
}

// FuzzFrames checks that no stream makes a client fail in another way than with an error, and that the payloads come out as they are.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x01a\x00\x00\x00\x00\x02{}"))
	f.Add([]byte("\x02\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var out, errOut bytes.Buffer
		end, err := copyFrames(bytes.NewReader(in), &out, &errOut)
		if out.Len()+errOut.Len() > len(in) || err == nil && (end.Status < 0 || end.Status > maxStatus) {
			t.Errorf("%d and %d bytes of %d, %v", out.Len(), errOut.Len(), len(in), end)
		}
		if len(in) > maxFrame {
			return
		}
		written := appendFrame(nil, Stdout, in)
		written = appendFrame(written, Final, []byte("{}"))
		out.Reset()
		if _, err := copyFrames(bytes.NewReader(written), &out, &errOut); err != nil || !bytes.Equal(out.Bytes(), in) {
			t.Errorf("%q came out as %q, %v", in, out.Bytes(), err)
		}
	})
}

func TestAllowed(t *testing.T) {
	require.NoKernel(t)
	for _, test := range []struct{ command, args string }{
		{"stat", ""},
		{"stat", "--event=cycles,{instructions,cpu/event=0x1,name=x/u}:S|--all-cpus|--interval-print=1000|--interval-count=3"},
		{"stat", "--event=sched:sched_switch|--filter=prev_prio < 100 && comm == \"a@b\"|--timeout=60000|--no-aggr"},
		{"stat", "--cgroup=a/b,c|--for-each-cgroup=^kube|--detailed|--detailed|--big-num=false|--field-separator=,|--delay=0"},
		{"stat", "--bpf-prog=name:cil_*,17|--per-func"},
		{"record", "--event=cycles/freq=99/|--freq=10000|--g|--call-graph=dwarf,8192|--pid=1,2|--off-cpu|--off-cpu=1s"},
		{"record", "--cpu=0-3,8|--compression-level|--intr-regs=ax,ip"},
		{"profile", "--format=json|--by=comm,cpu|--interval=0.5|--off-cpu"},
		{"top", "--by=process|--once|type:xdp,name:x"},
		{"top", "--by=function|--event=cycles/freq=99/|--freq=10000|--pid=1,2|--g|--delay=0.5"}, {"top", "--event=page-faults|--count=1|--cgroup=a/b|--all-cpus"},
		{"top", "--tid=7|--cpu=0-3,8|--iterations=2"}, {"profile", "--json|--interval=1"}, {"prog stats", "--json"},
		{"prog list", "--json|name:cil_*"}, {"prog show", "17"}, {"prog stats", "--interval=1000|--count=3|all"}, {"prog watch", "--json"},
	} {
		if err := request(test.command, test.args).check(time.Minute); err != nil {
			t.Errorf("%v: %v", test, err)
		}
	}
}

func request(command, args string) *Request {
	r := &Request{Command: command}
	if args != "" {
		r.Args = strings.Split(args, "|")
	}
	return r
}

func TestRefused(t *testing.T) {
	require.NoKernel(t)
	for _, test := range []struct{ command, args, want string }{
		{"serve", "", `no sessions of "serve"`}, {"", "", "no sessions"}, {"report", "", "no sessions"}, {"stat record", "", "no sessions"},
		{"stat", "true", `takes no argument "true"`}, {"record", "--freq=1|--|true", "-- is not possible"}, {"profile", "--freq=1|true", "takes no argument"},
		{"stat", "--output=x", "--output is"}, {"stat", "--append", "--append is"}, {"stat", "--log-fd=2", "--log-fd is"},
		{"stat", "--pre=x", "--pre is"},
		{"stat", "--post=x", "--post is"}, {"stat", "--repeat=3", "--repeat is"}, {"stat", "--event-files=/x", "--event-files is"},
		{"stat", "--control=fifo:/x", "--control is"}, {"stat", "--bpf-attr-map=/x", "--bpf-attr-map is"}, {"stat", "--help", "--help is"},
		{"stat", "-e", "-e is"}, {"stat", "-a", "-a is"}, {"stat", "-", "- is"}, {"stat", "--on=x", "--on is"}, {"stat", "-event=x", "-event is"},
		{"record", "--output=x", "--output is"}, {"record", "--prog=x.o", "--prog is"}, {"record", "--set=a=1", "--set is"},
		{"record", "--map-output=x", "--map-output is"}, {"record", "--switch-output", "--switch-output is"}, {"record", "--realtime=1", "--realtime is"},
		{"record", "--mmap-pages=1G", "--mmap-pages is"}, {"record", "--max-size=1G", "--max-size is"},
		{"profile", "--output=x", "--output is"}, {"profile", "--diff=x", "--diff is"}, {"profile", "--symfs=x", "--symfs is"},
		{"profile", "--vmlinux=x", "--vmlinux is"}, {"profile", "--kallsyms=x", "--kallsyms is"}, {"profile", "--symbol-memory=9", "--symbol-memory is"},
		{"record", "--event=x.o", "no files"}, {"record", "--event=/a/x.o/map:m.event=e/", "no files"}, {"stat", "--event=../x/y/", "no files"},
		{"record", "--event=cycles/freq=100000/", "from 1 to 10000"}, {"record", "--event=cycles/freq=0x1000000/", "from 1 to 10000"},
		{"record", "--freq=max", "from 1 to 10000"}, {"record", "--freq=10001", "from 1 to 10000"}, {"record", "--count=0", "from 1"},
		{"stat", "--event", "--event needs a value"}, {"stat", "--timeout|--output=x", "--timeout needs a value"},
		{"stat", "--timeout=60001", "the longest session of this node is 1m0s"}, {"stat", "--timeout=9", "from 10"}, {"stat", "--delay=-1", "from 0"},
		{"stat", "--all-cpus=maybe", "--all-cpus=maybe"}, {"stat", "--pid=1,x", "list of numbers"}, {"stat", "--cpu=-1", "list of numbers"},
		{"stat", "--cgroup=a/../b", `".." is not possible`}, {"stat", "--bpf-prog=1,pinned:/sys/fs/bpf/x", "pinned:"},
		{"record", "--filter=filter f @ /bin/x", "no files"}, {"record", "--filter=filter f @/bin/x", "no files"},
		{"top", "pinned:/x", "pinned:"}, {"top", "cgroup:/x", "cgroup:"}, {"top", "a|b", "takes no argument"},
		{"top", "--freq=10001", "from 1 to 10000"}, {"top", "--freq=max", "from 1 to 10000"}, {"top", "--event=cycles/freq=100000/", "from 1 to 10000"},
		{"top", "--count=0", "from 1"}, {"top", "--cpu=all", "list of numbers"}, {"top", "--cgroup=../x", `".." is not possible`}, {"top", "--event=x.o", "no files"},
		{"top", "--g=dwarf", "--g=dwarf"}, {"top", "--stdio", "--stdio is"}, {"top", "--event-files=/x", "--event-files is"}, {"top", "--pid", "--pid needs a value"},
		{"prog watch", "all", "takes no argument"},
		{"top", "--delay=NaN", "seconds"}, {"prog list", "all|--json", "takes no argument"},
		{"stat", "--compat=a\nb", "control characters"}, {"stat", "--compat=\xff", "control characters"},
		{"stat", "--compat=" + strings.Repeat("x", maxValue+1), "longer than"},
		{"stat", strings.Repeat("--null|", maxArgs) + "--null", "at most 200"},
	} {
		err := request(test.command, test.args).check(time.Minute)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %.80s: %v, want %s", test.command, test.args, err, test.want)
		}
	}
}

// FuzzRequest checks that what is allowed has only flags of the list, each in the form that has one meaning.
func FuzzRequest(f *testing.F) {
	for _, r := range []*Request{request("stat", "--event=cycles|--all-cpus"), request("top", "--once|name:x"), request("record", "--output=x")} {
		text, err := json.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parseRequest(text)
		if err != nil || r.check(time.Minute) != nil {
			return
		}
		flags := Flags(r.Command)
		for i, arg := range r.Args {
			name, _, hasValue := strings.Cut(arg, "=")
			bare, allowed := flags[strings.TrimPrefix(name, "--")]
			last := i == len(r.Args)-1 && !strings.HasPrefix(arg, "-")
			if !last && (!allowed || !strings.HasPrefix(name, "--") || !hasValue && !bare) {
				t.Errorf("%q is allowed in %q", arg, r.Args)
			}
		}
	})
}

func TestParseNode(t *testing.T) {
	require.NoKernel(t)
	for _, test := range []struct{ in, name, url string }{
		{"https://node:1", "node:1", "https://node:1/session"}, {"https://node:9465/", "node", "https://node:9465/session"},
		{"node", "node", "https://node:9465/session"}, {"node:443", "node:443", "https://node:443/session"},
		{"http://127.0.0.1:9465", "127.0.0.1", "http://127.0.0.1:9465/session"}, {"http://[::1]:1", "[::1]:1", "http://[::1]:1/session"},
		{"http://localhost", "localhost", "http://localhost:9465/session"}, {"unix:/run/x", "/run/x", "http://localhost/session"},
		{"https://u:secret@node", "node", "https://u:secret@node:9465/session"},
	} {
		n, err := ParseNode(test.in)
		if err != nil || n.Name != test.name || n.url.String() != test.url {
			t.Errorf("%s: %v, %v", test.in, n, err)
		}
	}
	for _, in := range []string{"", "unix:", "http://node", "http://u:secret@10.1.2.3", "ftp://node",
		"https://", "https://node/x", "https://node?a", "https://u:secret@%zz", ":1"} {
		if n, err := ParseNode(in); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, %v", in, n, err)
		}
	}
}
