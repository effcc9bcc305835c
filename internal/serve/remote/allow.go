package remote

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/bperf/bperf/internal/pattern"
	"github.com/bperf/bperf/internal/printable"
)

// Request is what a client asks for.
type Request struct {
	Command string   `json:"command"` // such as "stat" or "prog list"
	Args    []string `json:"args"`    // flags as --NAME or --NAME=VALUE, then further arguments
}

// Limits of requests.
const (
	maxRequest = 16 << 10 // bytes of JSON
	maxArgs    = 200
	maxValue   = 4 << 10 // bytes of a flag's value
)

// parseRequest parses the JSON of a request.
func parseRequest(text []byte) (*Request, error) {
	var r Request
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return nil, fmt.Errorf("the request is not as described in docs/serve-sessions.md: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the request on its line")
	}
	return &r, nil
}

// check returns nil if a node may run the request. The longest session is a limit of --timeout.
func (r *Request) check(longest time.Duration) error {
	c, known := commands()[r.Command]
	if !known {
		return fmt.Errorf("there are no sessions of %q: there are those of %s", clean(r.Command), strings.Join(slices.Sorted(maps.Keys(commands())), ", "))
	}
	if len(r.Args) > maxArgs {
		return fmt.Errorf("there are %d arguments: at most %d are possible", len(r.Args), maxArgs)
	}
	args := r.Args
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		if err := c.checkFlag(args[0], longest); err != nil {
			return err
		}
		args = args[1:]
	}
	switch {
	case len(args) == 0:
		return nil
	case !c.selector || len(args) > 1:
		return fmt.Errorf("%s takes no argument %q: a session from afar starts no command", r.Command, clean(args[len(args)-1]))
	}
	if err := selector(args[0]); err != nil {
		return fmt.Errorf("%q: %w", clean(args[0]), err)
	}
	return nil
}

// clean returns what a client sent for a message.
func clean(s string) string { return printable.Text(s[:min(len(s), 100)]) }

// command is what clients may ask of a subcommand.
type command struct {
	flags    map[string]flag
	selector bool     // a selector of BPF programs may follow the flags
	own      []string // arguments that the node adds
}

// checkFlag checks an argument that begins with a hyphen.
func (c *command) checkFlag(arg string, longest time.Duration) error {
	name, value, hasValue := strings.Cut(arg, "=")
	f, allowed := c.flags[strings.TrimPrefix(name, "--")]
	if !allowed || !strings.HasPrefix(name, "--") {
		return fmt.Errorf("%s is not possible in a session from afar", clean(name))
	}
	if !hasValue {
		if !f.bare {
			return fmt.Errorf("%s needs a value, as %s=VALUE", name, name)
		}
		return nil
	}
	if err := text(value); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := f.check(value); err != nil {
		return fmt.Errorf("%s=%s: %w", name, clean(value), err)
	}
	if ms, err := strconv.Atoi(value); name == "--timeout" && (err != nil || ms > int(longest.Milliseconds())) {
		return fmt.Errorf("%s=%s: the longest session of this node is %v", name, clean(value), longest)
	}
	return nil
}

// flag is a flag that clients may give.
type flag struct {
	bare  bool // it may be without a value
	check func(value string) error
}

// The kinds of flags.
func onOff() flag                           { return flag{true, boolean} }
func takes(check func(string) error) flag   { return flag{false, check} }
func mayTake(check func(string) error) flag { return flag{true, check} }

func boolean(value string) error {
	_, err := strconv.ParseBool(value)
	return err
}

// text refuses what no flag needs.
func text(value string) error {
	if len(value) > maxValue || !utf8.ValidString(value) || strings.ContainsFunc(value, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }) {
		return fmt.Errorf("the value is longer than %d bytes, or has control characters", maxValue)
	}
	return nil
}

// number allows whole numbers from low to high.
func number(low, high int) func(string) error {
	return func(value string) error {
		if n, err := strconv.Atoi(value); err != nil || n < low || n > high {
			return fmt.Errorf("it must be a number from %d to %d", low, high)
		}
		return nil
	}
}

// seconds allows seconds with a fraction.
func seconds(value string) error {
	if s, err := strconv.ParseFloat(value, 64); err != nil || !(s >= 0.1 && s <= 3600) {
		return errors.New("it must be a number of seconds from 0.1 to 3600")
	}
	return nil
}

// maxFrequency is the highest sampling frequency, in samples per second and CPU: the default of record is 4000.
const maxFrequency = 10_000

var frequency = number(1, maxFrequency)

// freqTerm matches the term of an event that sets its frequency.
var freqTerm = pattern.Lazy(`freq\s*=\s*([^,/}\s]*)`)

// events allows lists of events, without BPF programs in files and without high frequencies.
func events(value string) error {
	if strings.Contains(value, "/map:") || strings.HasSuffix(strings.TrimSpace(value), ".o") || strings.Contains(value, "..") {
		return errors.New("events name no files of the node")
	}
	for _, term := range freqTerm().FindAllStringSubmatch(value, -1) {
		if err := frequency(term[1]); err != nil {
			return fmt.Errorf("freq: %w", err)
		}
	}
	return nil
}

// idList matches lists of CPUs, processes and threads.
var idList = pattern.Lazy(`^[0-9][0-9,-]*$`)

func ids(value string) error {
	if !idList().MatchString(value) {
		return errors.New("it must be a list of numbers")
	}
	return nil
}

// cgroups allows names of cgroups, below the root of their file system only.
func cgroups(value string) error {
	for name := range strings.SplitSeq(value, ",") {
		if slices.Contains(strings.Split(name, "/"), "..") {
			return errors.New(`".." is not possible in the path of a cgroup`)
		}
	}
	return nil
}

// selector allows selectors of BPF programs that name no files.
func selector(value string) error {
	for _, kind := range []string{"pinned:", "cgroup:"} {
		if strings.Contains(value, kind) {
			return fmt.Errorf("%s names a file of the node, which is not possible in a session from afar", kind)
		}
	}
	return text(value)
}

// fileFilter matches filters that name a file, as those of address ranges do.
var fileFilter = pattern.Lazy(`@\s*/`)

func filter(value string) error {
	if fileFilter().MatchString(value) {
		return errors.New("filters name no files of the node")
	}
	return nil
}

const maxMS = 24 * 60 * 60 * 1000 // a day

// commands are the subcommands that clients may run. What is not listed is refused: everything that starts a command, reads or writes a
// file, or changes how the node's own bperf works. They are made at the first use: most runs of bperf have no sessions.
var commands = sync.OnceValue(func() map[string]*command {
	// the flags that stat, record, profile and top share
	targets := map[string]flag{
		"event": takes(events), "cgroup": takes(cgroups), "all-cpus": onOff(), "cpu": takes(ids), "pid": takes(ids), "tid": takes(ids),
	}
	// those that stat, record and profile share besides
	measuring := union(targets, map[string]flag{
		"filter": takes(filter), "no-inherit": onOff(), "delay": takes(number(0, maxMS)), "timeout": takes(number(10, maxMS)), "verbose": onOff(),
	})
	// those that record, profile and top share
	rate := map[string]flag{"freq": takes(frequency), "count": takes(number(1, 1<<40))}
	return map[string]*command{
		"stat": {own: []string{"--log-fd=1"}, flags: union(measuring, switches("topdown", "transaction", "per-func", "follow", "calibrate", "histogram",
			"sum", "bpf-counters", "all-user", "all-kernel", "summary", "no-csv-summary", "null", "no-aggr", "per-core", "percore-show-thread",
			"per-cluster", "per-die", "per-socket", "per-node", "per-thread", "no-merge", "metric-no-group", "metric-no-threshold", "metric-no-merge",
			"json-output", "big-num", "metric-only", "hide-zero-events", "scale"), map[string]flag{
			"metrics": takes(text), "td-level": takes(number(1, 10)), "detailed": mayTake(number(0, 3)), "for-each-cgroup": takes(cgroups),
			"bpf-prog": takes(selector), "bpf-func": takes(text), "cputype": takes(text), "per-cache": mayTake(text),
			"interval-print": takes(number(10, maxMS)), "interval-count": takes(number(1, 1<<30)),
			"field-separator": takes(text), "compat": takes(text),
		})},
		"record": {own: []string{"--output=-"}, flags: union(measuring, rate, switches("quiet", "exclude-perf", "strict-freq", "per-thread",
			"all-user", "all-kernel",
			"g", "user-callchains", "kernel-callchains", "branch-any", "data", "phys-data", "data-page-size", "code-page-size", "data-mmap",
			"transaction", "weight", "raw-samples", "timestamp", "period", "sample-cpu", "sample-identifier", "running-time", "stat", "no-samples",
			"namespaces", "all-cgroups", "switch-events", "no-bpf-event", "buildid-mmap", "no-buildid"), map[string]flag{
			"uid": takes(text), "call-graph": takes(text), "branch-filter": takes(text), "intr-regs": mayTake(text), "user-regs": mayTake(text),
			"off-cpu": mayTake(text), "off-cpu-thresh": takes(number(0, maxMS)), "clockid": takes(text), "compression-level": mayTake(number(0, 22)),
			"synth": takes(text),
		})},
		"profile": {flags: union(measuring, rate, switches("quiet", "json", "user", "kernel", "no-idle", "off-cpu", "wall", "children",
			"inline", "demangle"), map[string]flag{
			"bpf-prog": takes(selector), "range": takes(text), "by": takes(text), "format": takes(text), "interval": takes(seconds), "show": takes(text),
			"top": takes(number(0, 1<<30)), "call-graph": takes(text), "percent-limit": takes(text),
		})},
		"top": {selector: true, flags: union(targets, rate, switches("once", "g", "json"), map[string]flag{
			"by": takes(text), "delay": takes(seconds), "iterations": takes(number(1, 1<<30)), "sort": takes(text),
		})},
		"prog list": {selector: true, flags: union(switches("json"), map[string]flag{"interval": takes(number(10, maxMS)), "sort": takes(text)})},
		"prog show": {selector: true, flags: union(switches("json"), map[string]flag{"disassembler-style": takes(text)})},
		"prog stats": {selector: true, flags: union(switches("json"), map[string]flag{
			"count": takes(number(1, 1<<30)), "format": takes(text), "interval": takes(number(10, maxMS)),
		})},
		"prog watch": {flags: switches("json")},
	}
})

// Commands returns the subcommands that clients may run.
func Commands() []string { return slices.Sorted(maps.Keys(commands())) }

// Flags returns the flags of a subcommand that clients may give, and whether each may be without a value.
func Flags(name string) map[string]bool {
	bare := make(map[string]bool)
	for flag, f := range commands()[name].flags {
		bare[flag] = f.bare
	}
	return bare
}

func switches(names ...string) map[string]flag {
	all := make(map[string]flag)
	for _, name := range names {
		all[name] = onOff()
	}
	return all
}

func union(parts ...map[string]flag) map[string]flag {
	all := make(map[string]flag)
	for _, part := range parts {
		maps.Copy(all, part)
	}
	return all
}
