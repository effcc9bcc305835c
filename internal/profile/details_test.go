package profile

import "testing"

// TestDetails adds samples that differ in their details. Only the keys of a profile distinguish them.
func TestDetails(t *testing.T) {
	details := []Details{{Weight: 1}, {InstructionLatency: 1}, {DataSource: 1}, {DataAddress: 1}, {PhysAddress: 1},
		{CodePage: 1}, {DataPage: 1}, {Transaction: 1},
		{CgroupInode: 1}, {InTX: true}, {Cycles: 1}, {Trace: 1}, {Previous: 1}, {Timed: true}}
	for _, tt := range []struct {
		keep Keys
		want int
	}{
		{Comm, 1}, {Weight, 3}, {DataSource, 2}, {DataAddress, 2}, {PhysAddress, 2},
		{PageSize, 3}, {Transaction, 2}, {CgroupID, 2}, {Trace, 2}, {Block, 3}, {Branch, 3}, {Weight | Branch, 5},
	} {
		p := New(tt.keep)
		p.Events = make([]Event, 1)
		for range 2 {
			for _, d := range details {
				p.Add(Sample{Details: p.Detail(d), Count: 1})
			}
		}
		if got := p.Samples(); len(got) != tt.want || p.Events[0].Samples != uint64(2*len(details)) {
			t.Errorf("keys %b: %d samples, want %d", tt.keep, len(got), tt.want)
		}
	}
}
