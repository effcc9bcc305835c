package cli

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/bperf/bperf/test/require"
)

// TestRecordRegisters records registers, with a dummy event in the file, and expects that perf and bperf print the same.
func TestRecordRegisters(t *testing.T) {
	perf := require.NewestPerf(t)
	if runtime.GOARCH != "amd64" {
		t.Skip("the names of the registers are those of x86")
	}
	for _, tt := range []struct {
		options, fields string
		want            []string
		not             string
	}{
		{"-I", "ip,iregs", []string{" AX:0x", " R15:0x"}, " DS:"},
		{"-Isp,IP", "ip,iregs", []string{" SP:0x", " IP:0x"}, " AX:"},
		{"--user-regs=ax,r15", "ip,uregs", []string{" AX:0x", " R15:0x"}, " BX:"},
		{"--user-regs=ax --intr-regs=bx --call-graph dwarf,64 --kernel-callchains", "ip,iregs,uregs", []string{" AX:0x", " BX:0x"}, " CX:"},
		{"--user-regs=ax --call-graph dwarf,64", "uregs", []string{" AX:0x", " BX:0x", " IP:0x"}, " DS:"},
	} {
		cmd := recordCommand(t, append(strings.Fields(tt.options), "-e", getppidEvent+",dummy", calls(t, 20, 0))...)
		cmd.Args = append([]string{cmd.Args[0], "record", "-q", "-o", "perf.data"}, cmd.Args[2:]...)
		if got := run(t, cmd); got.status != 0 {
			t.Fatalf("%s: %+v", tt.options, got)
		}
		args := []string{"script", "-i", filepath.Join(cmd.Dir, "perf.data"), "-F", "trace:" + tt.fields}
		theirs, ours := string(output(t, exec.Command(perf), args...)), string(output(t, bperf(), args...))
		if theirs != ours || strings.Contains(ours, tt.not) {
			t.Errorf("%s: perf prints\n%s\nbperf\n%s", tt.options, theirs, ours)
		}
		for _, want := range tt.want {
			if !strings.Contains(ours, want) {
				t.Errorf("%s: no %s in\n%s", tt.options, want, ours)
			}
		}
	}
}

// TestRegisterLists lists the registers as perf does.
func TestRegisterLists(t *testing.T) {
	perf := require.NewestPerf(t)
	for _, option := range []string{"-I?", "--intr-regs=?", "--user-regs=?"} {
		_, theirs := outputs(t, exec.Command("sh"), "-c", `"$0" record "$1"; test $? = 129`, perf, option)
		want, _, _ := strings.Cut(theirs, "\n")
		got := runHere(t, "record", option)
		if got.status != 129 || got.stdout != "" || got.stderr != want+"\n" {
			t.Errorf("%s: %+v, want %s", option, got, want)
		}
	}
}
