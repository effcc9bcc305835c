package main

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/test/guest/boot"
)

func TestParse(t *testing.T) {
	trixie := []string{"arm64/trixie"}
	tests := []struct {
		name    string
		args    []string
		kernels []string
		want    boot.Options
		wantErr string
	}{
		{"packages", []string{"./internal/target"}, trixie,
			boot.Options{CPUTime: 10 * time.Minute, Count: 1, Packages: []string{"./internal/target"}}, ""},
		{"several kernels", []string{"-kernel", "amd64/trixie", "-kernel", "arm64/sid", "-smp", "1", "-timeout", "1m", "-run", "X", "-count", "3", "-perf",
			"-newest-perf", "-cpu", "cortex-a72", "./a"},
			[]string{"amd64/trixie", "arm64/sid"},
			boot.Options{CPUs: 1, CPUTime: time.Minute, Run: "X", Count: 3, Perf: true, Newest: true, CPU: "cortex-a72", Packages: []string{"./a"}}, ""},
		{"a command with flags of its own", []string{"--", "ls", "-l", "--", "/"}, trixie,
			boot.Options{CPUTime: 10 * time.Minute, Count: 1, Command: []string{"ls", "-l", "--", "/"}}, ""},
		{"nothing", nil, nil, boot.Options{}, "nothing to run: name packages, or a command behind --"},
		{"no command", []string{"--"}, nil, boot.Options{}, "there must be a command behind --, and no packages before it"},
		{"both", []string{"./a", "--", "ls"}, nil, boot.Options{}, "there must be a command behind --, and no packages before it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			kernels, got, err := parse(tt.args)
			if tt.wantErr != "" {
				if err == nil || err.Error() != tt.wantErr {
					t.Fatalf("got error %v, want %s", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Packages) == 0 {
				got.Packages = nil
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || !slices.Equal(kernels, tt.kernels) {
				t.Errorf("kernels %q, want %q; -want +got:\n%s", kernels, tt.kernels, diff)
			}
		})
	}
}
