package report

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/bperf/bperf/internal/profile"
)

// properties are what keys are computed from. Those of a row come from its first sample.
type properties struct {
	labels *profile.Labels
	time   int64 // start of its interval, in ns
	parent profile.FunctionID
	frame  *profile.Frame
	source *profile.Frame // of a branch
	target *profile.Frame // of a branch

	details *profile.Details
	data    *profile.Frame // what is at the data address
	samples uint64         // of a row: its samples of the first event

	nanoseconds bool // Options.Nanoseconds
}

// scope is the part of a sample that a key depends on.
type scope uint8

const (
	ofLabels scope = iota
	ofFrame
	ofSample
)

// key is a property that distinguishes rows.
type key struct {
	name  string
	title string
	width int // minimum
	scope scope
	needs profile.Keys
	fills bool   // spaces fill the column at the end of a line
	right bool   // the title is aligned to the right, as text does
	event string // only tables of this event have the column; all if it is empty

	// room returns the width that perf reserves for a text. If it is nil, that is the width of the text.
	room func(p *profile.Profile, of *properties) int

	// identity appends bytes that are equal for all samples of a row.
	identity func(p *profile.Profile, b []byte, of *properties) []byte
	text     func(p *profile.Profile, of *properties, width int) string
	branch   bool // there is the key only if samples are branches
	// compare orders rows of equal values. If it is nil, rows are ordered by text.
	compare func(p *profile.Profile, a, b *properties) int
}

// Keys returns the names of the keys that can distinguish rows of recordings.
func Keys() []string {
	var names []string
	for _, k := range slices.Concat(keys, sourceKeys(false), hardwareKeys, branchKeys) {
		names = append(names, k.name)
	}
	return append(names, traceFields)
}

// findKey returns the key with the given name. The labels of the options take precedence.
func (o *Options) findKey(name string) (*key, bool) {
	if slices.Contains(o.Labels, name) {
		return tagKey(name, name), true
	}
	if name == "sym" {
		name = "symbol"
	}
	own := slices.Concat(hardwareKeys, branchKeys)
	if o.tracepoints != nil {
		for i := range o.tracepoints.fields {
			own = append(own, o.tracepoints.fields[i].key)
		}
	}
	if o.Counted {
		own = countedKeys
	}
	for _, list := range [][]*key{keys, own, sourceKeys(o.FullPaths)} {
		if i := slices.IndexFunc(list, func(k *key) bool { return k.name == name }); i >= 0 {
			return list[i], true
		}
	}
	return nil, false
}

// keys are those of all profiles.
var keys = []*key{
	{
		name: "comm", title: "Command", fills: true, needs: profile.Comm,
		identity: func(_ *profile.Profile, b []byte, of *properties) []byte { return number(b, of.labels.Comm) },
		text:     func(p *profile.Profile, of *properties, _ int) string { return p.Strings.At(of.labels.Comm) },
	},
	{
		name: "comm_nodigit", title: "CommandNoDigit", needs: profile.Comm, fills: true,
		identity: func(p *profile.Profile, b []byte, of *properties) []byte {
			return append(b, withoutDigits(p.Strings.At(of.labels.Comm))...)
		},
		text: func(p *profile.Profile, of *properties, _ int) string {
			return withoutDigits(p.Strings.At(of.labels.Comm))
		},
	},
	dsoKey("dso", "Shared Object", ofFrame, func(of *properties) *profile.Frame { return of.frame }),
	symbolKey("symbol", "Symbol", ofFrame, func(of *properties) *profile.Frame { return of.frame }),
	threadKey("pid", "    Pid:Command"),
	threadKey("tid", "    Tid:Command"),
	{
		name: "tgid", title: "   Tgid:Command", needs: profile.PID | profile.Comm,
		identity: func(_ *profile.Profile, b []byte, of *properties) []byte { return number(b, of.labels.PID) },
		text: func(p *profile.Profile, of *properties, _ int) string {
			return fmt.Sprintf("%7d:%s", of.labels.PID, p.Strings.At(of.labels.Comm))
		},
		compare: func(_ *profile.Profile, a, b *properties) int { return cmp.Compare(a.labels.PID, b.labels.PID) },
	},
	{
		name: "cpu", title: "CPU", needs: profile.CPU, width: 3,
		identity: func(_ *profile.Profile, b []byte, of *properties) []byte { return number(b, of.labels.CPU) },
		text: func(_ *profile.Profile, of *properties, width int) string {
			return fmt.Sprintf("%.*d", max(width, 1), of.labels.CPU)
		},
		compare: func(_ *profile.Profile, a, b *properties) int { return cmp.Compare(a.labels.CPU, b.labels.CPU) },
	},
	{
		name: "cgroup", title: "Cgroup", fills: true, needs: profile.Cgroup, width: 6,
		identity: func(_ *profile.Profile, b []byte, of *properties) []byte { return number(b, of.labels.Cgroup) },
		text: func(p *profile.Profile, of *properties, _ int) string {
			return cmp.Or(p.Strings.At(of.labels.Cgroup), "N/A")
		},
	},
	{
		name: "time", title: "Time", needs: profile.Time, scope: ofSample, width: 12,
		identity: func(_ *profile.Profile, b []byte, of *properties) []byte { return number(b, of.time) },
		text:     func(_ *profile.Profile, of *properties, _ int) string { return timeText(of) },
		room: func(_ *profile.Profile, of *properties) int {
			if of.nanoseconds {
				return max(len(timeText(of)), nanosecondsWidth)
			}
			return len(timeText(of))
		},
		compare: func(_ *profile.Profile, a, b *properties) int { return cmp.Compare(a.time, b.time) },
	},
	{
		name: "parent", title: "Parent symbol", fills: true, scope: ofSample,
		identity: func(p *profile.Profile, b []byte, of *properties) []byte {
			return number(b, p.Functions.At(of.parent).Name)
		},
		text: func(p *profile.Profile, of *properties, _ int) string {
			return cmp.Or(p.Strings.At(p.Functions.At(of.parent).Name), "[other]")
		},
	},
	{
		name: "prog", title: "BPF Program", scope: ofFrame,
		identity: func(p *profile.Profile, b []byte, of *properties) []byte {
			return number(b, p.Functions.At(of.frame.Function).Program)
		},
		text: func(p *profile.Profile, of *properties, _ int) string {
			program := p.Programs.At(p.Functions.At(of.frame.Function).Program)
			if program.ID == 0 {
				return "-"
			}
			return fmt.Sprintf("%d %s", program.ID, p.Strings.At(program.Name))
		},
		compare: func(p *profile.Profile, a, b *properties) int {
			return cmp.Compare(p.Programs.At(p.Functions.At(a.frame.Function).Program).ID, p.Programs.At(p.Functions.At(b.frame.Function).Program).ID)
		},
	},
	{
		name: "symoff", title: "Symbol Offset", scope: ofFrame, needs: profile.Address,
		identity: func(p *profile.Profile, b []byte, of *properties) []byte {
			return number(symbolIdentity(p, b, of.frame), of.frame.Address)
		},
		text: func(p *profile.Profile, of *properties, _ int) string {
			if of.frame.Function == 0 {
				return symbolText(p, of.frame)
			}
			return fmt.Sprintf("%s+%#x", symbolText(p, of.frame), of.frame.Address-p.Functions.At(of.frame.Function).Start)
		},
	},
	{
		name: "symbol_size", title: "Symbol size", scope: ofFrame, width: 10,
		identity: func(p *profile.Profile, b []byte, of *properties) []byte { return number(b, symbolSize(p, of.frame)) },
		text: func(p *profile.Profile, of *properties, width int) string {
			return fmt.Sprintf("%*d", width, symbolSize(p, of.frame))
		},
		compare: func(p *profile.Profile, a, b *properties) int {
			return cmp.Compare(symbolSize(p, b.frame), symbolSize(p, a.frame))
		},
	},
}

// countedKeys are the tags of samples that were counted in the kernel.
var countedKeys = []*key{
	tagKey("weight", "Weight"),
	tagKey("addr", "Address"),
	tagKey("phys_addr", "Physical Address"),
	tagKey("data_src", "Data Source"),
	tagKey("state", "State"),
	tagKey("waker", "Waker"),
	tagKey("wall", "On or off CPU"),
	tagKey("priority", "Priority"),
	tagKey("container", "Container"),
}

func dsoKey(name, title string, s scope, frame func(*properties) *profile.Frame) *key {
	text := func(p *profile.Profile, of *properties, _ int) string { return moduleName(p, frame(of)) }
	return &key{
		name: name, title: title, scope: s, fills: true, room: func(p *profile.Profile, of *properties) int {
			return dsoRoom(frame(of), text(p, of, 0))
		},
		identity: func(p *profile.Profile, b []byte, of *properties) []byte {
			return number(b, p.Modules.At(frame(of).Module).Name)
		},
		text: text,
		compare: func(p *profile.Profile, a, b *properties) int {
			return lastWithout(frame(a).Module != 0, frame(b).Module != 0, text(p, a, 0), text(p, b, 0))
		},
	}
}

func symbolKey(name, title string, s scope, frame func(*properties) *profile.Frame) *key {
	return &key{
		name: name, title: title, scope: s, room: func(p *profile.Profile, of *properties) int { return symbolRoom(p, frame(of)) },
		identity: func(p *profile.Profile, b []byte, of *properties) []byte { return symbolIdentity(p, b, frame(of)) },
		text:     func(p *profile.Profile, of *properties, _ int) string { return symbolText(p, frame(of)) },
		compare: func(p *profile.Profile, a, b *properties) int {
			f, g := frame(a), frame(b)
			return lastWithout(f.Function != 0, g.Function != 0,
				p.Strings.At(p.Functions.At(f.Function).Name), p.Strings.At(p.Functions.At(g.Function).Name))
		},
	}
}

// lastWithout orders by text. A side without text comes last.
func lastWithout(hasA, hasB bool, a, b string) int {
	if hasA != hasB {
		if hasA {
			return -1
		}
		return 1
	}
	return cmp.Compare(a, b)
}

// threadKey returns a key for a thread with its name. perf calls it "pid".
func threadKey(name, title string) *key {
	return &key{
		name: name, title: title, fills: true, needs: profile.TID | profile.Comm,
		identity: func(_ *profile.Profile, b []byte, of *properties) []byte { return number(b, of.labels.TID) },
		text: func(p *profile.Profile, of *properties, _ int) string {
			return fmt.Sprintf("%7d:%s", of.labels.TID, p.Strings.At(of.labels.Comm))
		},
		compare: func(_ *profile.Profile, a, b *properties) int { return cmp.Compare(a.labels.TID, b.labels.TID) },
	}
}

func tagKey(name, title string) *key {
	text := func(p *profile.Profile, of *properties, _ int) string { return tag(p, of.labels.Tags, name) }
	return &key{
		name: name, title: title, needs: profile.Other,
		identity: func(p *profile.Profile, b []byte, of *properties) []byte { return append(b, text(p, of, 0)...) },
		text:     text,
	}
}

func tag(p *profile.Profile, tags profile.TagsID, name string) string {
	for ; tags != 0; tags = p.Tags.At(tags).Next {
		if t := p.Tags.At(tags); p.Strings.At(t.Key) == name {
			return p.Strings.At(t.Value)
		}
	}
	return ""
}

// nanosecondsWidth is the least width of a time with nine decimals, as in perf.
const nanosecondsWidth = 16

func timeText(of *properties) string {
	if of.nanoseconds {
		return fmt.Sprintf("%d.%09d", of.time/1e9, of.time%1e9)
	}
	return fmt.Sprintf("%d.%06d", of.time/1e9, of.time%1e9/1e3)
}

// withoutDigits returns a name with <N> in place of each number.
func withoutDigits(name string) string {
	var b strings.Builder
	for i := range len(name) {
		switch isDigit := name[i] >= '0' && name[i] <= '9'; {
		case !isDigit:
			b.WriteByte(name[i])
		case i == 0 || name[i-1] < '0' || name[i-1] > '9':
			b.WriteString("<N>")
		}
	}
	return b.String()
}

// number appends a number to an identity.
func number[T ~uint32 | ~int32 | ~uint64 | ~int64](b []byte, n T) []byte {
	return binary.LittleEndian.AppendUint64(b, uint64(n))
}

func moduleName(p *profile.Profile, f *profile.Frame) string {
	return cmp.Or(p.Strings.At(p.Modules.At(f.Module).Name), "[unknown]")
}

// symbolIdentity appends the identity of a frame's function: the name of its module and its address range. Inlined functions have no
// address range of their own; they are identified by name. Frames without a function are identified by address.
func symbolIdentity(p *profile.Profile, b []byte, f *profile.Frame) []byte {
	b = number(b, p.Modules.At(f.Module).Name)
	if f.Function == 0 {
		return number(append(b, 0), f.Address)
	}
	function := p.Functions.At(f.Function)
	if f.Inlined {
		return number(append(b, 1), function.Name)
	}
	return number(number(append(b, 2), function.Start), function.End)
}

// symbolText returns the name of a frame's function after a letter for the kind of code, for example "[k] schedule".
func symbolText(p *profile.Profile, f *profile.Frame) string {
	level := string([]byte{'[', level(f.Kind), ']', ' '})
	if f.Function == 0 {
		return level + address(f.Address)
	}
	name := p.Strings.At(p.Functions.At(f.Function).Name)
	if f.Inlined {
		name += " (inlined)"
	}
	return level + name
}

// address formats an address like %#.16x of C: 0 has no "0x".
func address(a uint64) string {
	if a == 0 {
		return "0000000000000000"
	}
	return fmt.Sprintf("0x%016x", a)
}

// frameName returns the name of a frame in a call tree.
func frameName(p *profile.Profile, f *profile.Frame) string {
	if f.Function == 0 {
		if f.IP == 0 {
			return "0"
		}
		return "0x" + strconv.FormatUint(f.IP, 16)
	}
	name := p.Strings.At(p.Functions.At(f.Function).Name)
	if f.Inlined {
		name += " (inlined)"
	}
	return name
}

// level returns perf's letter for a kind of code.
func level(k profile.Kind) byte {
	return [...]byte{'.', '.', 'k', 'k', 'H', 'u', 'g'}[k]
}

func symbolSize(p *profile.Profile, f *profile.Frame) uint64 {
	function := p.Functions.At(f.Function)
	return function.End - function.Start
}

// parents returns a function that finds the value of the key "parent" for a stack: the matching function that is nearest to the start of
// the call tree.
func parents(p *profile.Profile, pattern *regexp.Regexp, order Order) func(profile.StackID) profile.FunctionID {
	match := matcher(p, pattern)
	return func(stack profile.StackID) profile.FunctionID {
		var found profile.FunctionID
		for id := range p.Stacks.Frames(stack) {
			f := p.Frames()[id].Function
			if f == 0 || !match(f) {
				continue
			}
			found = f
			if order == CalleeFirst {
				break
			}
		}
		return found
	}
}

// matcher returns a function that reports whether a pattern matches the name of a function.
func matcher(p *profile.Profile, pattern *regexp.Regexp) func(profile.FunctionID) bool {
	known := map[profile.FunctionID]bool{}
	return func(f profile.FunctionID) bool {
		m, is := known[f]
		if !is {
			m = pattern.MatchString(p.Strings.At(p.Functions.At(f).Name))
			known[f] = m
		}
		return m
	}
}
