package perfdata

import (
	"bytes"
	"io"
	"runtime"
	"testing"
)

// synthetic returns a recording of two CPUs with the given number of samples, perRound of them in each round. Each sample has a callchain of
// 24 entries.
func synthetic(t testing.TB, samples, perRound, compress int) []byte {
	t.Helper()
	attr := Attr{Type: 1, SampleType: SampleIdentifier | SampleIP | SampleTID | SampleTime | SampleCPU | SamplePeriod | SampleCallchain,
		Flags: AttrSampleIDAll}
	m := &memory{room: 1 << 30}
	w, err := NewWriter(m, Options{Compress: compress, Events: []*Event{{Attr: attr, IDs: []uint64{1, 2}, Name: "cycles"}}})
	if err != nil {
		t.Fatal(err)
	}
	s := &Sample{Callchain: make([]uint64, 24)}
	var ring []byte
	for from := 0; from < samples; from += perRound {
		for cpu := range 2 {
			ring = ring[:0]
			for k := from + cpu; k < from+perRound; k += 2 {
				s.SampleID = SampleID{PID: 7, TID: int32(k % 5), Time: 1000 + uint64(k)*50, ID: uint64(1 + cpu), CPU: uint32(cpu)}
				s.IP, s.Period = uint64(k), 1
				for i := range s.Callchain {
					s.Callchain[i] = uint64(k*i%97) << 12
				}
				ring = appendRecord(ring, MiscUser, s, &attr)
			}
			if err := w.Append(ring); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Write(0, &FinishedRound{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return m.b
}

func countSamples(t testing.TB, b []byte) (n int) {
	r, err := NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	last := uint64(0)
	for rec, err := range r.Records() {
		if err != nil {
			t.Fatal(err)
		}
		if s, is := rec.Value.(*Sample); is {
			if s.Time < last || len(s.Callchain) != 24 || s.Callchain[1] != s.IP%97<<12 {
				t.Fatalf("after %d: %+v", last, s)
			}
			last = s.Time
			n++
		}
	}
	return n
}

// TestNoMemoryPerSample reads recordings of two lengths. The longer one may not cost more memory, apart from the pipeline's.
func TestNoMemoryPerSample(t *testing.T) {
	cost := func(samples int) (allocations, size uint64) {
		b := synthetic(t, samples, 200, 0)
		allocations = uint64(testing.AllocsPerRun(1, func() { countSamples(t, b) }))
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		if n := countSamples(t, b); n != samples {
			t.Fatalf("%d samples of %d", n, samples)
		}
		runtime.ReadMemStats(&after)
		return allocations, after.TotalAlloc - before.TotalAlloc
	}
	few, fewBytes := cost(20_000)
	many, manyBytes := cost(120_000)
	perSample := (float64(many) - float64(few)) / 100_000
	t.Logf("%.4f allocations per sample; %d bytes for 20,000 samples, %d for 120,000", perSample, fewBytes, manyBytes)
	if perSample > 0.05 {
		t.Errorf("%.3f allocations per sample", perSample)
	}
	if most := uint64(32 << 20); manyBytes > most {
		t.Errorf("%d bytes were allocated for 120,000 samples: more than %d", manyBytes, most)
	}
}

func TestCompressedSamples(t *testing.T) {
	if n := countSamples(t, synthetic(t, 20_000, 200, 3)); n != 20_000 {
		t.Errorf("%d samples of 20000", n)
	}
}

// TestGivingUpEarly stops reading a file and a pipe in the middle.
func TestGivingUpEarly(t *testing.T) {
	b := synthetic(t, 20_000, 200, 0)
	r, err := NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range r.Records() {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 5000 {
			break
		}
		r.Stats()
	}
	for _, err := range r.Records() {
		if err == nil {
			t.Error("records were given twice")
		}
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func BenchmarkRead(b *testing.B) {
	for name, compress := range map[string]int{"plain": 0, "zstd": 1} {
		b.Run(name, func(b *testing.B) {
			const samples = 100_000
			file := synthetic(b, samples, 200, compress)
			b.SetBytes(int64(len(file)))
			b.ReportAllocs()
			for b.Loop() {
				countSamples(b, file)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/samples, "ns/sample")
		})
	}
}

func BenchmarkAppend(b *testing.B) {
	for name, compress := range map[string]int{"plain": 0, "zstd": 1} {
		b.Run(name, func(b *testing.B) {
			attr := everyAttr
			ring := appendRecord(nil, MiscUser, everySample(SampleID{Time: 1}), &attr)
			for len(ring) < 128<<10 {
				ring = append(ring, ring...)
			}
			w, err := NewPipeWriter(io.Discard, Options{Compress: compress, Events: []*Event{{Attr: attr}}})
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(ring)))
			b.ReportAllocs()
			for b.Loop() {
				if err := w.Append(ring); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
