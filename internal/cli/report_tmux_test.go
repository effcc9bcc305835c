package cli

import (
	"fmt"
	"testing"

	"github.com/bperf/bperf/test/require"
)

// tmuxSizes are the sizes of terminals that screens are tested in.
var tmuxSizes = [][2]int{{80, 24}, {200, 50}}

// TestReportInTmux walks from the first screen of a report to the source line of a BPF program that has the most samples, and back.
func TestReportInTmux(t *testing.T) {
	require.NoKernel(t)
	recording := writeWalk(t)
	symbols := kernelSymbols(t, walkSymbols)
	for _, size := range tmuxSizes {
		for _, variable := range []string{"COLORTERM=truecolor", "NO_COLOR=1"} { // bperf's screens have no colours
			t.Run(fmt.Sprintf("%dx%d %s", size[0], size[1], variable), func(t *testing.T) {
				m := newTmux(t, size[0], size[1], []string{variable}, "report", "-i", recording, "--kallsyms", symbols)
				for _, step := range []struct{ keys, name, ready string }{
					{"", "report", `line 1 of 14`},
					{"<down><down><enter>", "report-calls", `line 3 of 21`},
					{"/sum_up<enter><enter>", "report-callers", `names with: sum_up; line 1 of 9`},
					{"<end>", "report-function", `line 9 of 9`},
					{"a", "report-source", `(?s)Instructions of .*\d+ +for .*100.00`},
					{"<end>", "report-end", `samples are in no known function`},
					{"<esc>", "report-function", `line 9 of 9`},
					{"<esc>", "report-all", `line 23 of 29`},
					{"?", "report-keys", `suspend bperf`},
				} {
					m.press(t, step.keys)
					m.golden(t, step.name, step.ready, same)
				}
				m.press(t, "qq")
				m.awaitEnd(t)
			})
		}
	}
	m := newTmux(t, 80, 24, nil, "report", "-i", recording, "--kallsyms", symbols, "--no-source", "-M", "intel")
	m.awaitText(t, `line 1 of 14`)
	m.press(t, toTheProgram+"a")
	m.golden(t, "report-no-source", `Instructions of`, same)
	m.press(t, "qq")
	m.awaitEnd(t)
}
