package cli

import (
	"testing"
	"time"

	"github.com/bperf/bperf/internal/record"
)

// TestOffCPUThreshold takes the threshold from --off-cpu, or from --off-cpu-thresh in milliseconds.
func TestOffCPUThreshold(t *testing.T) {
	for _, tt := range []struct {
		offCPU   string
		separate bool
		ms       uint64
		want     time.Duration
	}{
		{"500ms", false, 500, 500 * time.Millisecond},
		{"7", false, 500, 7 * time.Millisecond},
		{"500ms", true, 20, 20 * time.Millisecond},
		{"500ms", true, 0, 0},
	} {
		var cfg record.Config
		o := recordOptions{offCPU: tt.offCPU, offCPUThreshold: tt.ms}
		if err := o.setOffCPU(&cfg, tt.separate); err != nil || cfg.OffCPU == nil || *cfg.OffCPU != tt.want {
			t.Errorf("%+v: %v, %v", tt, cfg.OffCPU, err)
		}
	}
}
