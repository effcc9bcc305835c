package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	defaults := options{kernels: []string{"arm64/trixie"}, timeout: 10 * time.Minute}
	with := func(change func(*options)) options {
		o := defaults
		change(&o)
		return o
	}
	tests := []struct {
		name    string
		args    []string
		want    options
		wantErr string
	}{
		{"packages", []string{"./internal/target"},
			with(func(o *options) { o.packages = []string{"./internal/target"} }), ""},
		{"several kernels", []string{"-kernel", "amd64/trixie", "-kernel", "arm64/sid", "-smp", "1", "-timeout", "1m", "-run", "X", "-perf", "./a"},
			options{kernels: []string{"amd64/trixie", "arm64/sid"}, smp: 1, timeout: time.Minute, run: "X", perf: true, packages: []string{"./a"}}, ""},
		{"a command with flags of its own", []string{"--", "ls", "-l", "--", "/"},
			with(func(o *options) { o.command = []string{"ls", "-l", "--", "/"} }), ""},
		{"nothing", nil, options{}, "nothing to run: name packages, or a command behind --"},
		{"no command", []string{"--"}, options{}, "there must be a command behind --, and no packages before it"},
		{"both", []string{"./a", "--", "ls"}, options{}, "there must be a command behind --, and no packages before it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parse(tt.args)
			if tt.wantErr != "" {
				if err == nil || err.Error() != tt.wantErr {
					t.Fatalf("got error %v, want %s", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(got.packages) == 0 {
				got.packages = nil
			}
			if diff := cmp.Diff(tt.want, *got, cmp.AllowUnexported(options{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestGroups(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want [][]string
	}{
		{"one", []string{"-perf", "./a"}, [][]string{{"-perf", "./a"}}},
		{"three", []string{"./a", "./b", "+", "-kernel", "x", "./c", "+"}, [][]string{{"./a", "./b"}, {"-kernel", "x", "./c"}, {}}},
		{"a command with one", []string{"./a", "+", "--", "expr", "1", "+", "1"}, [][]string{{"./a"}, {"--", "expr", "1", "+", "1"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, groups(tt.args)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestUnknownKernels(t *testing.T) {
	tests := []struct{ kernel, want string }{
		{"trixie", `a kernel is named ARCH/SUITE, as in arm64/trixie, not "trixie"`},
		{"arm64/", `a kernel is named ARCH/SUITE, as in arm64/trixie, not "arm64/"`},
		{"riscv64/trixie", `no guests of architecture "riscv64": there are amd64 and arm64`},
	}
	for _, tt := range tests {
		t.Run(tt.kernel, func(t *testing.T) {
			if _, err := prepare(nil, booking{&options{}, tt.kernel}); err == nil || err.Error() != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}
