package replay

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/bperf/bperf/internal/profile"
)

// Sum is what a sample tells in its raw data, with Options.Sums: it stands for several that are alike, and its period is the sum of theirs.
type Sum struct {
	Count    uint64 // of samples
	Interval uint32 // in which they were taken, from 0 on
	Comm     string // the name of the thread; empty for the one that the recording tells
	Tags     []SumTag
}

// SumTag is a label with a name of its own.
type SumTag struct{ Key, Value string }

// intervalAt is where Interval is in what Append makes.
const intervalAt = 8

// Append encodes a sum, in a form that is for this program alone. No text may be longer than 255 bytes.
func (s *Sum) Append(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(le.AppendUint64(b, s.Count), s.Interval)
	b = appendText(b, s.Comm)
	b = append(b, byte(len(s.Tags)))
	for _, t := range s.Tags {
		b = appendText(appendText(b, t.Key), t.Value)
	}
	return b
}

func appendText(b []byte, s string) []byte {
	s = s[:min(len(s), 255)]
	return append(append(b, byte(len(s))), s...)
}

var errSum = errors.New("a sample that stands for several ends early")

// decodeSum is the opposite of Append. What follows is padding.
func decodeSum(b []byte) (s Sum, err error) {
	if len(b) < 12 {
		return Sum{}, errSum
	}
	le := binary.LittleEndian
	s.Count, s.Interval = le.Uint64(b), le.Uint32(b[8:])
	b = b[12:]
	if s.Comm, b, err = text(b); err != nil {
		return Sum{}, err
	}
	if len(b) == 0 {
		return Sum{}, errSum
	}
	n := b[0]
	b = b[1:]
	for range n {
		var t SumTag
		if t.Key, b, err = text(b); err != nil {
			return Sum{}, err
		}
		if t.Value, b, err = text(b); err != nil {
			return Sum{}, err
		}
		s.Tags = append(s.Tags, t)
	}
	return s, nil
}

func text(b []byte) (s string, rest []byte, err error) {
	if len(b) == 0 || len(b) < 1+int(b[0]) {
		return "", nil, errSum
	}
	n := 1 + int(b[0])
	return string(b[1:n]), b[n:], nil
}

// tags stores labels, the first one in front.
func (f *filler) tags(all []SumTag) profile.TagsID {
	var list profile.TagsID
	for _, t := range slices.Backward(all) {
		list = f.p.Tags.ID(profile.Tag{Key: f.p.Strings.ID(t.Key), Value: f.p.Strings.ID(t.Value), Next: list})
	}
	return list
}

// wanted reports whether samples there are to be kept.
func (f *filler) wanted(leaf profile.FrameID) bool {
	only := f.replay.options.Functions
	if len(only) == 0 {
		return true
	}
	function := f.p.Functions.At(f.p.Frames()[leaf].Function)
	return slices.Contains(only, f.p.Strings.At(function.Name)) || function.Linkage != 0 && slices.Contains(only, f.p.Strings.At(function.Linkage))
}

// addSum adds a sample that stands for several.
func (p *part) addSum(item *Item, sample profile.Sample) {
	sum, err := decodeSum(item.Sample.Raw)
	if err != nil {
		p.unknown++
		return
	}
	if sum.Count == 0 {
		return // it says that the interval before it is over
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.wanted(sample.Leaf) {
		p.filler.replay.outside.Add(sum.Count)
		return
	}
	if id := containerOf(item.Cgroup); id != "" {
		sum.Tags = append(sum.Tags, SumTag{"container", id})
	}
	if sum.Comm == "" && item.Thread.TID != -1 { // of a sum that is of no thread, there is no name
		sum.Comm = item.Thread.Comm
	}
	labels := profile.Labels{Comm: p.p.Strings.ID(sum.Comm), PID: item.Thread.PID, TID: item.Thread.TID, CPU: int32(item.Sample.CPU),
		Cgroup: p.p.Strings.ID(item.Cgroup), Tags: p.tags(sum.Tags)}
	sample.Labels, sample.Count = p.p.Label(labels), sum.Count
	p.own.Add(sample)
}
