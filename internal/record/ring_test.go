package record

import (
	"os"
	"testing"

	"github.com/bperf/bperf/perfdata"
)

func TestRingSize(t *testing.T) {
	at := func(hertz uint64, stack uint32) *opened {
		return &opened{attr: perfdata.Attr{Flags: perfdata.AttrFreq, SamplePeriod: hertz, SampleStackUser: stack}}
	}
	rare := &opened{attr: perfdata.Attr{SamplePeriod: 1}}
	tests := []struct {
		name      string
		cfg       Config
		cpus      int
		unlimited bool
		events    []*opened
		want      int // bytes
		wakeup    uint32
	}{
		{"default", Config{}, 2, true, []*opened{at(4000, 0), rare}, 512 << 10, 128 << 10},
		{"often", Config{}, 2, true, []*opened{at(10_000, 0), rare}, 2 << 20, 512 << 10},
		{"two events", Config{}, 2, true, []*opened{at(4000, 0), at(4000, 0)}, 1 << 20, 256 << 10},
		{"very often", Config{}, 2, true, []*opened{at(100_000, 0)}, 4 << 20, 1 << 20},
		{"as often as can be written", Config{}, 2, true, []*opened{at(1<<63, 1<<31)}, 4 << 20, 1 << 20},
		{"many CPUs", Config{}, 96, true, []*opened{at(100_000, 0)}, 2 << 20, 512 << 10},
		{"more CPUs", Config{}, 8192, true, []*opened{at(100_000, 0)}, 512 << 10, 128 << 10},
		{"stacks", Config{}, 2, true, []*opened{at(99, 8192)}, 512 << 10, 128 << 10},
		{"many stacks", Config{}, 2, true, []*opened{at(400, 8192)}, 2 << 20, 512 << 10},
		{"a user", Config{}, 2, false, []*opened{at(20_000, 0)}, 512 << 10, 128 << 10},
		{"threads", Config{PerThread: true}, 2, true, []*opened{at(20_000, 0)}, 512 << 10, 128 << 10},
		{"sums", Config{Sums: &Sums{}}, 2, true, []*opened{at(20_000, 0)}, 512 << 10, 128 << 10},
		{"a period", Config{}, 2, true, []*opened{rare}, 512 << 10, 128 << 10},
		{"-m", Config{RingPages: 3}, 2, true, []*opened{at(20_000, 0)}, 4 * os.Getpagesize(), uint32(os.Getpagesize())},
		{"unbuffered", Config{NoBuffering: true}, 2, true, []*opened{rare}, 512 << 10, 1},
	}
	for _, tt := range tests {
		s := plan{cfg: &tt.cfg, events: tt.events}
		s.sizeRings(tt.cpus, tt.unlimited)
		if s.ringSize != tt.want {
			t.Errorf("%s: rings of %d bytes, want %d", tt.name, s.ringSize, tt.want)
		}
		for _, o := range s.events {
			if o.attr.WakeupEvents != tt.wakeup || o.attr.Has(perfdata.AttrWatermark) == tt.cfg.NoBuffering {
				t.Errorf("%s: woken at %d (flags %x), want %d", tt.name, o.attr.WakeupEvents, o.attr.Flags, tt.wakeup)
			}
		}
	}
}
