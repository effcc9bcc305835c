package report

import (
	"cmp"
	"encoding/binary"

	"github.com/bperf/bperf/internal/profile"
)

// classes numbers the classes of a table: samples and frames with equal keys are in one class. For call trees, frames in the same function
// are in one class.
type classes struct {
	t       *table
	samples classifier
	frames  classifier
	links   classifier

	byLabels  []uint32 // by labels: 1 + the class, if only labels distinguish samples
	byFrame   []uint32 // 1 + the class
	byLink    []uint32 // 1 + the class
	ofSamples bool
	parent    func(profile.StackID) profile.FunctionID
}

// classifier gives each distinct identity in buffer a number.
type classifier struct {
	ids    map[string]uint32
	buffer []byte
}

func (c *classifier) class() uint32 {
	id, known := c.ids[string(c.buffer)]
	if known {
		return id
	}
	if c.ids == nil {
		c.ids = map[string]uint32{}
	}
	id = uint32(len(c.ids))
	c.ids[string(c.buffer)] = id
	return id
}

func newClasses(t *table) *classes {
	c := &classes{
		t:        t,
		byLabels: make([]uint32, len(t.p.Labels())),
		byFrame:  make([]uint32, len(t.p.Frames())),
		byLink:   make([]uint32, len(t.p.Frames())),
	}
	for _, column := range t.columns {
		if column.key != nil && column.key.scope == ofSample {
			c.ofSamples = true
		}
		if column.name == "parent" {
			c.parent = parents(t.p, cmp.Or(t.o.Parent, DefaultParent()), t.o.order())
		}
	}
	return c
}

// propertiesOf returns the properties of the sample with an index in Profile.Samples.
func (c *classes) propertiesOf(sample int) properties {
	p, s := c.t.p, &c.t.p.Samples()[sample]
	all := properties{labels: &p.Labels()[s.Labels], frame: &p.Frames()[s.Leaf], source: &p.Frames()[s.Source], target: &p.Frames()[s.Leaf],
		details: p.Details(s.Details)}
	all.data = &p.Frames()[all.details.Data]
	quantum := cmp.Or(c.t.o.Quantum, DefaultQuantum)
	all.time, all.nanoseconds = s.Time/quantum*quantum, c.t.o.Nanoseconds
	if c.parent != nil {
		all.parent = c.parent(s.Stack)
	}
	return all
}

// ofSample returns the class of a sample by all keys except those of its frame.
func (c *classes) ofSample(sample int) uint32 {
	labels := c.t.p.Samples()[sample].Labels
	if !c.ofSamples && c.byLabels[labels] != 0 {
		return c.byLabels[labels] - 1
	}
	of := c.propertiesOf(sample)
	class := c.classify(&c.samples, &of, func(s scope) bool { return s != ofFrame })
	c.byLabels[labels] = class + 1
	return class
}

// ofFrame returns the class of a frame by the keys of frames.
func (c *classes) ofFrame(id profile.FrameID) uint32 {
	if c.byFrame[id] == 0 {
		of := properties{frame: &c.t.p.Frames()[id]}
		c.byFrame[id] = 1 + c.classify(&c.frames, &of, func(s scope) bool { return s == ofFrame })
	}
	return c.byFrame[id] - 1
}

func (c *classes) classify(to *classifier, of *properties, wanted func(scope) bool) uint32 {
	to.buffer = to.buffer[:0]
	for _, column := range c.t.columns {
		if column.key == nil || !wanted(column.key.scope) {
			continue
		}
		begin := len(to.buffer)
		to.buffer = column.key.identity(c.t.p, to.buffer, of)
		to.buffer = binary.LittleEndian.AppendUint32(to.buffer, uint32(len(to.buffer)-begin))
	}
	return to.class()
}

// ofLink returns the class of a frame in call trees.
func (c *classes) ofLink(id profile.FrameID) uint32 {
	if c.byLink[id] != 0 {
		return c.byLink[id] - 1
	}
	f := c.t.p.Frames()[id]
	to := &c.links
	to.buffer = number(to.buffer[:0], f.Module)
	switch {
	case f.Function == 0:
		to.buffer = number(append(to.buffer, 0), f.IP)
	case f.Inlined:
		to.buffer = number(append(to.buffer[:0], 1), c.t.p.Functions.At(f.Function).Name)
	default:
		to.buffer = number(append(to.buffer, 2), c.t.p.Functions.At(f.Function).Start)
	}
	c.byLink[id] = 1 + to.class()
	return c.byLink[id] - 1
}
