package procfs

import (
	"testing"
	"testing/fstest"
)

func TestPerfEventParanoid(t *testing.T) {
	for text, want := range map[string]int{"-1\n": -1, "4\n": 4, "": 2, "x\n": 2} {
		if got := PerfEventParanoid(fstest.MapFS{"sys/kernel/perf_event_paranoid": {Data: []byte(text)}}); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	if got := PerfEventParanoid(fstest.MapFS{}); got != 2 {
		t.Errorf("without the file: %d", got)
	}
}
