package perfevent

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
)

func TestUnread(t *testing.T) {
	for _, tail := range []uint64{0, 40, 60, 1<<40 + 56} { // the last ones wrap around the end
		data := make([]byte, 64)
		want := bytes.Join([][]byte{record(RecordSample, 2, "12345678"), record(RecordLost, 0, ""), record(7, 1, "abcdefgh")}, nil)
		r := fakeRing(data, put(data, tail, want), tail)
		first, rest, err := r.Unread()
		if err != nil || !bytes.Equal(append(bytes.Clone(first), rest...), want) {
			t.Fatalf("at %d: %x and %x, %v; want %x", tail, first, rest, err, want)
		}
		r.Release(16)
		if rec, ok, err := r.Next(); err != nil || !ok || rec.Type != RecordLost {
			t.Errorf("at %d, behind the first record: %+v, %v, %v", tail, rec, ok, err)
		}
		r.Release(16)
		if first, rest, err := r.Unread(); len(first)+len(rest) > 0 || err != nil {
			t.Errorf("at %d: %x and %x, %v behind the last record", tail, first, rest, err)
		}
	}
	if _, _, err := fakeRing(make([]byte, 64), 65, 0).Unread(); err == nil {
		t.Error("a ring that is overrun is read")
	}
}

// TestSetOutput checks that one ring has the samples of two events, each with the ID of its event.
func TestSetOutput(t *testing.T) {
	require.Root(t)
	attr := getppid(t)
	attr.SamplePeriod, attr.SampleType = 1, perfdata.SampleIdentifier
	var events []*Event
	var ids []uint64
	for range 2 {
		e := openSelf(t, attr, nil)
		id, err := e.ID()
		check(t, err)
		events, ids = append(events, e), append(ids, id)
	}
	r, err := events[0].Map(2)
	check(t, err)
	defer func() { check(t, r.Close()) }()
	check(t, events[1].SetOutput(events[0]))
	for i, n := range []int{3, 5} {
		during(t, events[i], func() { callGetppid(n) })
	}
	first, rest, err := r.Unread()
	check(t, err)
	all := append(bytes.Clone(first), rest...)
	r.Release(len(all))
	got := map[uint64]int{}
	for ; len(all) >= 16; all = all[16:] {
		if typ := binary.NativeEndian.Uint32(all); typ != RecordSample {
			t.Fatalf("a record of type %d", typ)
		}
		got[binary.NativeEndian.Uint64(all[8:])]++
	}
	if got[ids[0]] != 3 || got[ids[1]] != 5 || len(got) != 2 {
		t.Errorf("samples by ID %v, want 3 of %d and 5 of %d", got, ids[0], ids[1])
	}
}

// TestOverwritten checks that a ring that is too small has the newest samples, the newest first.
func TestOverwritten(t *testing.T) {
	require.Root(t)
	attr := getppid(t)
	attr.SamplePeriod, attr.SampleType, attr.Flags = 1, perfdata.SampleTime, perfdata.AttrWriteBackward
	e := openSelf(t, attr, nil)
	r, err := e.MapOverwritten(0)
	check(t, err)
	defer func() { check(t, r.Close()) }()
	during(t, e, func() { callGetppid(5) })
	check(t, e.PauseOutput(true))
	few, err := r.Newest(nil)
	check(t, err)
	if len(few) != 5*16 {
		t.Fatalf("%d bytes, want 5 samples of 16", len(few))
	}
	during(t, e, func() { callGetppid(7) })
	if again, err := r.Newest(nil); err != nil || !bytes.Equal(again, few) {
		t.Errorf("%d bytes (%v) while the output is paused, want what there was", len(again), err)
	}
	check(t, e.PauseOutput(false))
	during(t, e, func() { callGetppid(5000) })
	check(t, e.PauseOutput(true))
	all, err := r.Newest([]byte("before"))
	check(t, err)
	all, ok := bytes.CutPrefix(all, []byte("before"))
	if !ok || len(all) != len(r.data) {
		t.Fatalf("%d bytes, want a ring of %d that is full", len(all), len(r.data))
	}
	for last := ^uint64(0); len(all) > 0; all = all[16:] {
		now := binary.NativeEndian.Uint64(all[8:])
		if now > last {
			t.Fatalf("a sample at %d is behind one at %d", now, last)
		}
		last = now
	}
}

// TestLost checks the number of samples that are lost because the ring is full.
func TestLost(t *testing.T) {
	require.Root(t)
	attr := getppid(t)
	attr.SamplePeriod, attr.SampleType, attr.ReadFormat = 1, perfdata.SampleIdentifier, perfdata.ReadID|perfdata.ReadLost
	e, err := Open(&attr, Where{CPU: AnyCPU})
	if err != nil {
		t.Skipf("needs PERF_FORMAT_LOST, Linux 6.0: %v", err)
	}
	e.Close()
	e = openSelf(t, attr, nil)
	r, err := e.Map(0)
	check(t, err)
	defer func() { check(t, r.Close()) }()
	check(t, e.Enable())
	callGetppid(1000)
	check(t, e.Disable())
	var words [5]uint64
	check(t, e.ReadWords(words[:]))
	id, err := e.ID()
	check(t, err)
	if room := uint64(len(r.data) / 16); words[0] != 1000 || words[3] != id || words[4]+room < 1000 || words[4] > 1000-room+1 {
		t.Errorf("counted %d, ID %d (is %d), lost %d; want 1000 of which %d had room", words[0], words[3], id, words[4], room)
	}
}

// TestWaiter checks that Wait and Park return when a ring reaches its wakeup mark and not before, after Wake, and once for a thread that
// has ended.
func TestWaiter(t *testing.T) {
	require.Root(t)
	for name, of := range map[string]func(*Waiter, time.Duration) (bool, error){"Wait": (*Waiter).Wait, "Park": (*Waiter).Park} {
		t.Run(name, func(t *testing.T) { testWaiter(t, of) })
	}
}

func testWaiter(t *testing.T, of func(*Waiter, time.Duration) (bool, error)) {
	attr := getppid(t)
	attr.SamplePeriod, attr.SampleType, attr.Flags, attr.WakeupEvents = 1, perfdata.SampleTime, perfdata.AttrWatermark, 16*10
	e := openSelf(t, attr, nil)
	r, err := e.Map(1)
	check(t, err)
	defer func() { check(t, r.Close()) }()
	w, err := NewWaiter()
	check(t, err)
	defer func() { check(t, w.Close()) }()
	check(t, w.Add(e))
	wait := func(timeout time.Duration, want bool) {
		t.Helper()
		if ready, err := of(w, timeout); ready != want || err != nil {
			t.Fatalf("ready: %v (%v), want %v", ready, err, want)
		}
	}
	during(t, e, func() { callGetppid(9) })
	wait(0, false)
	during(t, e, func() { callGetppid(3) })
	wait(time.Minute, true)
	wait(0, false)
	w.Wake()
	wait(-1, true)
	wait(0, false)
	wait(time.Millisecond, false)
	go w.Wake()
	wait(-1, true)
	wait(time.Millisecond, false)
}
