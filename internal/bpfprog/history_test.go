package bpfprog

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/internal/perfevent"
)

// TestHistory checks the changes that sequences of records result in.
func TestHistory(t *testing.T) {
	boot := time.Date(2026, 3, 14, 8, 0, 0, 0, time.UTC)
	by := func(tid int32, at uint64) perfevent.Trailer { return perfevent.Trailer{PID: 70, TID: tid, Time: at} }
	symbol := func(tid int32, name string, gone bool) *seen {
		return &seen{trailer: by(tid, 1), symbol: &perfevent.KSymbol{Address: 0x1000, Size: 21, Type: perfevent.KSymbolBPF, Gone: gone, Name: name}}
	}
	event := func(tid int32, at uint64, kind uint16, id uint32, d details) *seen {
		return &seen{trailer: by(tid, at), event: &perfevent.BPFEvent{Type: kind, ID: id, Tag: [8]byte{1, 2, 3, 4, 5, 6, 7, 8}}, details: d}
	}
	const load, unload = perfevent.BPFLoad, perfevent.BPFUnload
	const tag = "0102030405060708"
	none := details{err: &noneError{programs.name, 5}, comm: "loader"}
	lived := func(d time.Duration) *time.Duration { return &d }
	first := Function{Name: "outer", Tag: "00000000000000aa", Address: 0x1000, Size: 21}
	tests := []struct {
		name    string
		loaded  []*Program
		records []*seen
		want    []Change
	}{
		{"gone at once", nil,
			[]*seen{symbol(7, "bpf_prog_00000000000000aa_outer", false), symbol(7, "bpf_prog_00000000000000ab", false), event(7, 10, load, 5, none),
				symbol(7, "bpf_prog_00000000000000aa_outer", true), event(7, 15, unload, 5, details{})},
			[]Change{{Event: Loaded, Time: boot.Add(10), ID: 5, Name: "outer", Tag: tag, PID: 70, Comm: "loader", Missed: Gone,
				Functions: []Function{first, {Tag: "00000000000000ab", Address: 0x1000, Size: 21}}},
				{Event: Unloaded, Time: boot.Add(15), ID: 5, Name: "outer", Tag: tag, Lived: lived(5)}}},
		{"read", nil,
			[]*seen{symbol(7, "bpf_prog_00000000000000aa_outer", false), event(7, 10, load, 5, details{
				program: &Program{ID: 5, Type: 1, Name: "outer_whole", Tag: tag, Functions: []Function{{Name: "outer_whole"}}}, user: "root", maps: []Map{{ID: 3}}}),
				event(8, 1010, unload, 5, details{})},
			[]Change{{Event: Loaded, Time: boot.Add(10), ID: 5, Name: "outer_whole", Tag: tag, Type: "socket_filter", PID: 70, User: "root",
				Functions: []Function{{Name: "outer_whole"}}, Maps: []Map{{ID: 3}}, Program: &Program{ID: 5, Type: 1, Name: "outer_whole", Tag: tag}},
				{Event: Unloaded, Time: boot.Add(1010), ID: 5, Name: "outer_whole", Tag: tag, Type: "socket_filter", Lived: lived(1000)}}},
		{"refused", nil, []*seen{event(7, 10, load, 5, details{err: errors.New("too many open files")})},
			[]Change{{Event: Loaded, Time: boot.Add(10), ID: 5, Tag: tag, PID: 70, Missed: "its details could not be read: too many open files"}}},
		{"loaded before", []*Program{{ID: 9, Type: 6, Name: "old", Loaded: boot.Add(4)}},
			[]*seen{event(7, 10, unload, 9, details{}), event(7, 11, unload, 9, details{})},
			[]Change{{Event: Unloaded, Time: boot.Add(10), ID: 9, Name: "old", Tag: tag, Type: "xdp", Lived: lived(6)},
				{Event: Unloaded, Time: boot.Add(11), ID: 9, Tag: tag}}},
		{"never seen", nil, []*seen{symbol(7, "bpf_prog_00000000000000aa_outer", true), event(7, 10, unload, 5, details{})},
			[]Change{{Event: Unloaded, Time: boot.Add(10), ID: 5, Name: "outer", Tag: tag}}},
		{"two threads at once", nil,
			[]*seen{symbol(7, "bpf_prog_00000000000000aa_outer", false), symbol(8, "bpf_prog_00000000000000ab_other", true),
				event(8, 10, unload, 6, details{}), event(7, 10, load, 5, none)},
			[]Change{{Event: Unloaded, Time: boot.Add(10), ID: 6, Name: "other", Tag: tag},
				{Event: Loaded, Time: boot.Add(10), ID: 5, Name: "outer", Tag: tag, PID: 70, Comm: "loader", Missed: Gone, Functions: []Function{first}}}},
		{"not of programs", nil,
			[]*seen{symbol(7, "bpf_trampoline_6442507777", false), {trailer: by(7, 1), symbol: &perfevent.KSymbol{Type: 2, Name: "bpf_prog_00000000000000aa_no"}},
				event(7, 10, load, 5, none), event(7, 11, 99, 5, none)},
			[]Change{{Event: Loaded, Time: boot.Add(10), ID: 5, Tag: tag, PID: 70, Comm: "loader", Missed: Gone}}},
		{"events lost", nil,
			[]*seen{symbol(7, "bpf_prog_00000000000000aa_outer", false), {trailer: by(7, 3), lost: 12}, event(7, 10, unload, 5, details{}),
				symbol(7, "bpf_prog_00000000000000aa_outer", false), symbol(7, "bpf_prog_00000000000000ab_other", true), event(7, 11, unload, 6, details{}),
				symbol(7, "bpf_prog_00000000000000aa_outer", true), event(7, 12, load, 7, none)},
			[]Change{{Event: LostSome, Time: boot.Add(3), Records: 12}, {Event: Unloaded, Time: boot.Add(10), ID: 5, Tag: tag},
				{Event: Unloaded, Time: boot.Add(11), ID: 6, Name: "other", Tag: tag},
				{Event: Loaded, Time: boot.Add(12), ID: 7, Tag: tag, PID: 70, Comm: "loader", Missed: Gone}}},
	}
	for _, tt := range tests {
		h := newHistory(boot, tt.loaded)
		var got []Change
		for _, r := range tt.records {
			if c, ok := h.add(r); ok {
				got = append(got, c)
			}
		}
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(Program{})); diff != "" {
			t.Errorf("%s: -want +got:\n%s", tt.name, diff)
		}
		if len(h.symbols) > 0 {
			t.Errorf("%s: symbols are left: %v", tt.name, h.symbols)
		}
	}
}

// TestSettled checks that records of several CPUs are sorted by time, and that recent ones wait.
func TestSettled(t *testing.T) {
	w := &Watcher{rings: new(rings), history: newHistory(time.Time{}, nil)}
	for _, at := range []uint64{5, 9, 2, 7} {
		w.pending = append(w.pending, &seen{trailer: perfevent.Trailer{Time: at}, lost: at})
	}
	var got []uint64
	for _, horizon := range []uint64{1, 7, 7, 100} {
		settled, _ := w.settled(horizon)
		for _, c := range settled {
			got = append(got, c.Records)
		}
		got = append(got, 0)
	}
	if diff := cmp.Diff([]uint64{0, 2, 5, 7, 0, 0, 9, 0}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
