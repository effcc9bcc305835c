package offcpu

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestScheduler removes the scheduler's functions, and the frames that they called, from stacks.
func TestScheduler(t *testing.T) {
	name := filepath.Join(t.TempDir(), "kallsyms")
	text := "00000010 T _text\n00000100 T __sched_text_start\n00000180 t schedule\n00000200 T __sched_text_end\n" +
		"00000300 T __sched_text_end_of_another\n"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := FindScheduler(name)
	if err != nil || r != (Scheduler{0x100, 0x200}) {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, tt := range []struct{ stack, want []uint64 }{
		{[]uint64{0x900, 0x50, 0x110, 0x1ff, 0x200, 0x150}, []uint64{0x200, 0x150}},
		{[]uint64{0x100, 0x20}, []uint64{0x20}},
		{[]uint64{0x900, 0x20}, []uint64{0x900, 0x20}},
		{[]uint64{0x100}, nil},
		{nil, nil},
	} {
		if got := r.Outside(tt.stack); !slices.Equal(got, tt.want) {
			t.Errorf("%x: %x, want %x", tt.stack, got, tt.want)
		}
	}
	hidden := Scheduler{}
	if got := hidden.Outside([]uint64{0, 1}); len(got) != 2 {
		t.Errorf("where addresses are hidden, %x is left", got)
	}
	if r, err := FindScheduler(name + ".none"); err != nil || r != (Scheduler{}) {
		t.Errorf("without the file: %+v, %v", r, err)
	}
}
