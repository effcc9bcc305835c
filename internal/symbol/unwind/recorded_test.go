package unwind

import (
	"bufio"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// recordedSample reads a sample of testdata/signals-arm64 that perf 6.12 recorded in a guest. Its lines are registers (by DWARF numbers),
// words of the stack that are not 0, and the size of the stack. Linux's numbers are in hexadecimal.
func recordedSample(t *testing.T, path string) *Sample {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := &Sample{}
	stack := make([]byte, 64<<10)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var n int
		var v uint64
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "register"):
			fmt.Sscanf(line, "register %d %x", &n, &v)
			s.Registers.Set(uint64(n), v)
		case strings.HasPrefix(line, "stack"):
			fmt.Sscanf(line, "stack %d %x", &n, &v)
			binary.LittleEndian.PutUint64(stack[n:], v)
		default:
			fmt.Sscanf(line, "size %d", &n)
			s.Stack = stack[:n]
		}
	}
	return s
}

// TestRecorded unwinds code of a compiler: frames of many sizes, alloca, signed return addresses, a signal handler that returns to a vDSO
// without tables, and a stack of which only the innermost 4 KiB were recorded.
func TestRecorded(t *testing.T) {
	f, err := elf.Open("testdata/signals-arm64")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	section := f.Section(".eh_frame")
	data, err := section.Data()
	if err != nil {
		t.Fatal(err)
	}
	program, err := NewModule(ARM64, Section{section.Addr, data}, Section{}, noCode)
	if err != nil {
		t.Fatal(err)
	}
	const vdsoAt, sigreturn = 0xffffb874c000, 0x808 // of that Linux 6.12, and of the process
	vdso, err := NewModule(ARM64, Section{}, Section{}, func(start, end uint64) ([]byte, error) {
		if start != sigreturn {
			return nil, errors.New("other code")
		}
		return restorers[ARM64].code[:end-start], nil
	})
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	name := func(address uint64) string {
		for _, s := range symbols {
			if elf.ST_TYPE(s.Info) == elf.STT_FUNC && address-s.Value < s.Size {
				return s.Name
			}
		}
		return "[vdso]"
	}
	for _, test := range []struct {
		sample, want string
		stop         Stop
	}{
		{"recursion", "spin with_alloca rec rec rec rec rec rec rec work _start", Outermost},
		{"signal", "spin handler [vdso] spin with_alloca", StackEnd},
	} {
		s := recordedSample(t, "testdata/signals-arm64."+test.sample)
		s.Module = func(address uint64) (*Module, uint64) {
			if address-vdsoAt < 0x1000 {
				return vdso, vdsoAt
			}
			return program, 0
		}
		chain, stop := New(ARM64).Unwind(nil, s, 127)
		var names []string
		for _, address := range chain {
			names = append(names, name(address))
		}
		if got := strings.Join(names, " "); got != test.want || stop != test.stop {
			t.Errorf("%s: %s, %s; not %s, %s", test.sample, got, stop, test.want, test.stop)
		}
	}
}
