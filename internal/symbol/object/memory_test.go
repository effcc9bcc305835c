package object

import (
	"strings"
	"testing"

	"github.com/bperf/bperf/internal/allowance"
)

// TestMemory compares the memory of symbols with the estimate that was reserved for them.
func TestMemory(t *testing.T) {
	for name, path := range map[string]string{"C": build(t, "gcc"), "Go": buildGo(t), "stripped Go": buildGo(t, "-ldflags=-s -w")} {
		t.Run(name, func(t *testing.T) {
			const all = 1 << 30
			a := allowance.New(all)
			f, err := Search{Allowance: a}.Open(path, "")
			if err != nil {
				t.Fatal(err)
			}
			need, taken := int64(0), int64(0)
			for s := range f.Symbols().All() {
				need += 24 + int64(len(s.Name)) + 1
			}
			if taken = f.taken; need == 0 || taken < need || taken > 8*need {
				t.Errorf("%d bytes are taken, and symbols have %d", taken, need)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			if err := a.Take(all); err != nil {
				t.Error("after closing the file:", err)
			}
			if f, err = (Search{Allowance: a}).Open(path, ""); err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := f.SymbolsError(); f.onlyGo() != nil {
				if err != nil {
					t.Errorf("searching the function table, which takes no memory: error %v", err)
				}
			} else if err == nil || !strings.Contains(err.Error(), "--symbol-memory") {
				t.Errorf("without memory: error %v", err)
			}
			for s := range f.Symbols().All() {
				t.Fatalf("without memory there is %s", s.Name)
			}
		})
	}
}
