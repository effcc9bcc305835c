package boot

import "testing"

func TestUnknownKernels(t *testing.T) {
	tests := []struct{ kernel, want string }{
		{"trixie", `a kernel is named ARCH/SUITE, as in arm64/trixie, not "trixie"`},
		{"arm64/", `a kernel is named ARCH/SUITE, as in arm64/trixie, not "arm64/"`},
		{"riscv64/trixie", `no guests of architecture "riscv64": there are amd64 and arm64`},
	}
	for _, tt := range tests {
		t.Run(tt.kernel, func(t *testing.T) {
			if _, err := Prepare(nil, &Options{Kernel: tt.kernel}); err == nil || err.Error() != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}
