package cli

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bperf/bperf/internal/userprog"
	"github.com/bperf/bperf/test/golden"
	"github.com/bperf/bperf/test/onsample"
	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

func TestPrintMap(t *testing.T) {
	var out bytes.Buffer
	few := userprog.Map{Name: "by\x1bcomm", Columns: []string{"pid", "comm", "value.ns", "value.calls"}, Keys: 2, Rows: []userprog.Row{
		{uint64(1234), "sh\x1b[2J", uint64(18446744073709551615), int64(-3)}, {uint64(1), "init", uint64(7), int64(12)}}}
	many := userprog.Map{Name: "many", Columns: []string{"key", "value"}, Keys: 1}
	for i := range uint64(40) {
		many.Rows = append(many.Rows, userprog.Row{i, true})
	}
	printMap(&out, &few)
	printMap(&out, &many)
	many.Cut = true
	printMap(&out, &many)
	golden.Compare(t, "testdata/userprog-maps.golden", out.String())
}

// TestScriptProgramOutput prints what a program has written for each sample, as perf does.
func TestScriptProgramOutput(t *testing.T) {
	require.Root(t)
	file := filepath.Join(t.TempDir(), "perf.data")
	command := program.Program{Body: program.Touch, Times: 100}.Write(t) // perf prints bytes from 128 on as they are
	output(t, bperf(), "record", "-q", "-e", "page-faults", "-c", "1", "--prog", onsample.Write(t)+":"+onsample.Tell, "-o", file, command)
	printed := string(output(t, bperf(), "script", "-i", file))
	if n := strings.Count(printed, "  sample..\n"); n < 100 || n != strings.Count(printed, " BPF output: 0000: ") {
		t.Errorf("%d outputs of 100 faults and some:\n%s", n, printed)
	}
	for name, perf := range map[string]string{"distribution": distributionPerf(t), "packaged": require.NewestPerf(t)} {
		compareScripts(t, name, exec.Command(perf), file)
	}
}
