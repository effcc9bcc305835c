package browse

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"

	"github.com/bperf/bperf/internal/profile"
)

// span is a range of time in ns since the first sample; both ends belong to it. unset is whether the user has not chosen it.
type span struct {
	from, to int64
	set      bool
}

// selection is what a request selects.
type selection struct {
	event    int    // index in Profile.Events
	pid, tid *int32 // nil for all: 0 is the idle task
	time     span
	diff     string // one of the comparisons below
	baseTime span
}

// The comparisons.
const (
	noDiff   = ""
	withBase = "base" // with the other recording
	withTime = "time" // with another time of the same recording
)

// maxNumber is the length of a parameter, in bytes.
const maxNumber = 40

// noTask is the ID that the kernel writes for a task that has ended, or is in no PID namespace that the recorder sees.
const noTask = -1

// parse reads the parameters of a request.
func (b *Browser) parse(v url.Values) (*selection, error) {
	s := &selection{event: b.events[0], diff: v.Get("diff")}
	for name, values := range v {
		if len(values) > 1 || len(values[0]) > maxNumber {
			return nil, fmt.Errorf("the parameter %.40q is given twice, or is too long", name)
		}
	}
	var errs []error
	number := func(name string, least, most int64) *int32 {
		text := v.Get(name)
		if text == "" {
			return nil
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < least || n > most {
			errs = append(errs, fmt.Errorf("%s=%q is not a number from %d to %d", name, text, least, most))
		}
		id := int32(n)
		return &id
	}
	if e := number("e", 0, int64(len(b.p.Events)-1)); e != nil {
		s.event = int(*e)
	}
	s.pid, s.tid = number("pid", noTask, math.MaxInt32), number("tid", noTask, math.MaxInt32)
	s.time, errs = b.span(v, "from", "to", errs)
	s.baseTime, errs = b.span(v, "bfrom", "bto", errs)
	switch {
	case s.diff == noDiff, s.diff == withTime && b.length > 0, s.diff == withBase && b.Base != nil:
	default:
		errs = append(errs, fmt.Errorf("diff=%q: there is no such comparison", s.diff))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return s, nil
}

// span reads a range of seconds. An end beyond the last sample is the last sample.
func (b *Browser) span(v url.Values, from, to string, errs []error) (span, []error) {
	s := span{to: b.length}
	if v.Get(from) == "" && v.Get(to) == "" {
		return s, errs
	}
	s.set = true
	for name, at := range map[string]*int64{from: &s.from, to: &s.to} {
		text := v.Get(name)
		if text == "" {
			continue
		}
		ns, ok := parseSeconds(text)
		if !ok {
			errs = append(errs, fmt.Errorf("%s=%q is not a number of seconds since the first sample", name, text))
		}
		*at = min(ns, b.length)
	}
	if s.from > s.to {
		errs = append(errs, fmt.Errorf("the time ends before it starts: %s=%q, %s=%q", from, v.Get(from), to, v.Get(to)))
	}
	return s, errs
}

// parseSeconds parses seconds with up to nine decimals, and returns ns.
func parseSeconds(text string) (ns int64, ok bool) {
	whole, part, _ := strings.Cut(text, ".")
	if len(part) > 9 || whole == "" {
		return 0, false
	}
	n, err := strconv.ParseUint(whole+part+strings.Repeat("0", 9-len(part)), 10, 63)
	return int64(n), err == nil
}

// seconds formats ns as seconds, without zeros at the end.
func seconds(ns int64) string {
	text := fmt.Sprintf("%d.%09d", ns/1e9, ns%1e9)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// query returns the parameters that select the same.
func (s *selection) query() string {
	v := url.Values{}
	v.Set("e", strconv.Itoa(s.event))
	for name, id := range map[string]*int32{"pid": s.pid, "tid": s.tid} {
		if id != nil {
			v.Set(name, strconv.Itoa(int(*id)))
		}
	}
	if s.time.set {
		v.Set("from", seconds(s.time.from))
		v.Set("to", seconds(s.time.to))
	}
	if s.diff != noDiff {
		v.Set("diff", s.diff)
	}
	if s.baseTime.set {
		v.Set("bfrom", seconds(s.baseTime.from))
		v.Set("bto", seconds(s.baseTime.to))
	}
	return v.Encode()
}

// wants returns a function that reports whether a sample is of the selected event and threads, and in a range of time.
func (b *Browser) wants(s *selection, in span) func(*profile.Sample) bool {
	labels := b.p.Labels()
	return func(sample *profile.Sample) bool {
		if int(sample.Event) != s.event || in.set && (sample.Time < b.first+in.from || sample.Time > b.first+in.to) {
			return false
		}
		l := &labels[sample.Labels]
		return selects(s.pid, l.PID) && selects(s.tid, l.TID)
	}
}

// selects reports whether an ID is the chosen one, or none is chosen.
func selects(chosen *int32, id int32) bool { return chosen == nil || *chosen == id }
