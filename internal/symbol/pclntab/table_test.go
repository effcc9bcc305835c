package pclntab

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bperf/bperf/internal/symbol"
)

// own returns the function table of this test. Package object tests that its contents are right: it compares them with DWARF and with the
// runtime.
func own(t testing.TB) (table []byte, text uint64, funcdata []byte) {
	t.Helper()
	f, err := elf.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	section := f.Section(".gopclntab")
	if section == nil {
		t.Fatal("this test has no .gopclntab")
	}
	if table, err = section.Data(); err != nil {
		t.Fatal(err)
	}
	return table, f.Section(".text").Addr, table
}

// symbolsOf returns the functions by address, each with one name.
func symbolsOf(t *Table) ([]symbol.Symbol, error) {
	var b symbol.Builder
	err := t.AddTo(&b)
	return slices.Collect(b.Table().All()), err
}

func TestTable(t *testing.T) {
	data, text, funcdata := own(t)
	table, err := New(data, binary.LittleEndian, text, funcdata)
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := symbolsOf(table)
	if err != nil {
		t.Fatal(err)
	}
	if len(symbols) < 1000 {
		t.Fatalf("%d functions", len(symbols))
	}
	for i, s := range symbols[1:] {
		if s.Start < symbols[i].End {
			t.Fatalf("%+v starts in %+v", s, symbols[i])
		}
	}
	for _, s := range symbols {
		frames := table.Frames(s.Start, nil)
		if len(frames) == 0 || frames[len(frames)-1].Function != s.Name {
			t.Fatalf("%+v is %+v", s, frames)
		}
		lines := table.Lines(s.Start, s.End)
		if len(lines) == 0 || lines[0].Addr != s.Start || lines[0].Line != frames[0].Line || lines[0].File != frames[0].File {
			t.Fatalf("the lines of %+v are %+v, and the frames %+v", s, lines, frames)
		}
	}
	for _, pc := range []uint64{0, text - 1, symbols[len(symbols)-1].End, ^uint64(0)} {
		if frames := table.Frames(pc, nil); frames != nil {
			t.Errorf("%#x is %+v", pc, frames)
		}
	}
}

func TestVersions(t *testing.T) {
	for _, header := range []string{
		"", "\xf1\xff\xff\xff", "\xfb\xff\xff\xff\x00\x00\x01\x08", "\xf1\xff\xff\xff\x00\x00\x01\x07", "\xf1\xff\xff\xff\x01\x00\x01\x08",
	} {
		if _, err := New([]byte(header), binary.LittleEndian, 0, nil); !errors.Is(err, errVersion) {
			t.Errorf("%q: %v", header, err)
		}
	}
	if _, err := New([]byte("\xf1\xff\xff\xff\x00\x00\x01\x08 and no more"), binary.LittleEndian, 0, nil); err == nil {
		t.Error("a header that is cut off is read")
	}
}

func ask(data []byte, text uint64, funcdata []byte) {
	table, err := New(data, binary.LittleEndian, text, funcdata)
	if err != nil {
		return
	}
	symbols, _ := symbolsOf(table)
	for i, s := range symbols {
		if i%50 == 0 {
			table.Frames(s.Start, nil)
			table.Frames(s.End-1, nil)
			table.Lines(s.Start, min(s.End, s.Start+256))
		}
	}
}

// TestBroken truncates the table and changes it at random, from a fixed seed.
func TestBroken(t *testing.T) {
	data, text, _ := own(t)
	random := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		changed := append([]byte(nil), data...)
		for range 200 {
			changed[random.IntN(len(changed))] = byte(random.Uint32())
		}
		copy(changed, data[:8])
		ask(changed[:len(changed)-random.IntN(2)*random.IntN(len(changed))], text, changed)
	}
}

func FuzzTable(f *testing.F) {
	f.Add([]byte("\xf1\xff\xff\xff\x00\x00\x01\x04\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"+
		"\x28\x00\x00\x00\x28\x00\x00\x00\x28\x00\x00\x00\x28\x00\x00\x00\x28\x00\x00\x00\x00\x00\x00\x00\x0c\x00\x00\x00\x10\x00\x00\x00"+
		"\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00"+
		"\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x04"), []byte{0, 1, 2, 3})
	f.Fuzz(func(t *testing.T, data, funcdata []byte) {
		ask(data, 0x1000, funcdata)
	})
}
