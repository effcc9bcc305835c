package report

import (
	"io"
	"math/rand/v2"
	"testing"

	"github.com/bperf/bperf/internal/profile"
)

// deepProfile returns n samples with stacks of 30 frames, of 2,000 functions.
func deepProfile(n int) *profile.Profile {
	random := rand.New(rand.NewPCG(1, 2))
	p := profile.New(profile.Comm)
	p.Events = []profile.Event{{Name: "cpu-clock", Unit: "ns"}}
	comms := []profile.StringID{p.Strings.ID("one"), p.Strings.ID("two"), p.Strings.ID("three")}
	module := p.Modules.ID(profile.Module{Name: p.Strings.ID("server")})
	var frames []profile.FrameID
	for i := range 2000 {
		name := p.Strings.ID(string([]byte{'f', byte('a' + i/676%26), byte('a' + i/26%26), byte('a' + i%26)}))
		f := p.Functions.ID(profile.Function{Name: name, Module: module, Start: uint64(i) << 8, End: uint64(i+1) << 8})
		frames = append(frames, p.Frame(profile.Frame{Function: f, Module: module, Kind: profile.User}))
	}
	stack := make([]profile.FrameID, 30)
	for range n {
		// Each frame calls one of a few, the first of them most often.
		at := 1
		for depth := range stack {
			stack[len(stack)-1-depth] = frames[at]
			if at = at*7 + 1 + depth; random.IntN(30) == 0 {
				at += random.IntN(5)
			}
			at %= len(frames)
		}
		p.Add(profile.Sample{Labels: p.Label(profile.Labels{Comm: comms[random.IntN(3)]}), Leaf: stack[0], Stack: p.Stacks.ID(stack), Count: 1, Value: 1e6})
	}
	return p
}

// BenchmarkText writes the table with call trees of 500,000 samples.
func BenchmarkText(b *testing.B) {
	for _, children := range []bool{false, true} {
		name := "self"
		if children {
			name = "children"
		}
		b.Run(name, func(b *testing.B) {
			p := deepProfile(500_000)
			b.ReportMetric(float64(len(p.Stacks.All())), "stacks")
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				if err := Text(io.Discard, p, &Options{Children: children, CallGraph: defaultCallGraph()}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(p.Samples())), "samples")
			b.ReportMetric(float64(len(p.Stacks.All())), "stacks")
		})
	}
}
