package cli

import (
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/test/require"
	"github.com/bperf/bperf/test/split"
)

// startLoads starts a shell that runs loads when its standard input ends, and ends after them.
func startLoads(t *testing.T, spent time.Duration) (loads []split.Load, shell *exec.Cmd, begin io.Closer) {
	t.Helper()
	loads, err := split.Loads(t.TempDir(), spent)
	if err != nil {
		t.Fatal(err)
	}
	script := "read line\n"
	for _, l := range loads {
		script += "'" + strings.Join(l.Command(), "' '") + "' &\n"
	}
	shell = exec.Command("sh", "-c", script+"wait")
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Kill(-shell.Process.Pid, syscall.SIGKILL)
		shell.Wait() // it may have ended
	})
	return loads, shell, in
}

// topRow is a function of a load, on the screen of top.
type topRow struct {
	load       *split.Load
	three      bool
	now, total float64 // in percent
	samples    uint64
}

// These are widths of what is in front of the name: shares and samples, the object and, on a wide screen, the last intervals.
const topNumbers, topObject, topLast = 6 + 2 + 6 + 2 + 8, 20, 16

// loadRow parses a line of the screen. masked is the line without what differs between runs.
func (m *tmux) loadRow(loads []split.Load, line string) (row topRow, masked string, ok bool) {
	letters := []rune(strings.NewReplacer("«reverse»", "", "«»", "").Replace(line))
	at := topNumbers + len(columnGap)
	last := ""
	if m.columns >= 100 {
		last = strings.Repeat("~", topLast) + columnGap
	}
	if len(letters) < at+topObject+len(columnGap)+len(last) {
		return row, "", false
	}
	nameAt := at + topObject + len(columnGap) + len(last)
	numbers, object, name := strings.Fields(string(letters[:at])), string(letters[at:at+topObject]), string(letters[nameAt:])
	self, _ := os.Executable()
	objects := map[string]string{"C": "split", "Go": printable.Middle(filepath.Base(self), topObject), "BPF": "bpf_prog "}
	for i := range loads {
		l := &loads[i]
		one, three := strings.TrimPrefix(l.One, "_"), strings.TrimPrefix(l.Three, "_")
		row.three = name == printable.Middle(three, m.columns-nameAt)
		if !row.three && name != printable.Middle(one, m.columns-nameAt) || !strings.HasPrefix(object, objects[l.Name]) {
			continue
		}
		row.load = l
		n, err := fmt.Sscan(strings.Join(numbers, " "), &row.now, &row.total, &row.samples)
		return row, fmt.Sprintf("%s  %-*s  %s%s", strings.Repeat("#", topNumbers), topObject, l.Name, last, name), n == 3 && err == nil
	}
	return row, "", false
}

var (
	topTotal = regexp.MustCompile(`^\d+ samples of cpu-clock, \d+ lost.*`)
	topCost  = regexp.MustCompile(`^bperf takes \d+\.\d{3} % of a CPU.*`)
	topState = regexp.MustCompile(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d, \d+\.\d{3} s`)
)

// maskLine hides the numbers of a line of top's list.
func (m *tmux) maskLine(loads []split.Load, line string) (masked string, ofLoad bool) {
	if _, masked, ofLoad = m.loadRow(loads, line); ofLoad {
		return masked, true
	}
	line = topTotal.ReplaceAllString(line, "# samples of cpu-clock, # lost…")
	line = topCost.ReplaceAllString(line, "bperf takes # % of a CPU…")
	return topState.ReplaceAllString(line, "TIME, # s"), false
}

// maskList hides the numbers of a list, and rows of other functions than those of the loads, whose order depends on the samples.
func (m *tmux) maskList(loads []split.Load) func(screen string) string {
	return func(screen string) string {
		var head, rows, foot []string
		for i, line := range strings.Split(screen, "\n") {
			switch masked, ofLoad := m.maskLine(loads, line); {
			case ofLoad:
				rows = append(rows, masked)
			case i < headLines:
				head = append(head, masked)
			case i >= m.rows-keyLines:
				foot = append(foot, masked)
			}
		}
		slices.Sort(rows)
		return strings.Join(slices.Concat(head, rows, foot), "\n")
	}
}

var (
	detailFile   = regexp.MustCompile(`^(file +| +: # ).*`)
	detailDashes = regexp.MustCompile(`^-{60,}`) // as long as the line above
	detailSums   = regexp.MustCompile(`\d+\.\d\d % since|\d\d:\d\d:\d\d|\d+ of \d+ samples|\d+ samples`)
	detailCaller = regexp.MustCompile(`^ *\d+\.\d\d +(\S+  \S+)$`)
	detailOthers = regexp.MustCompile(`^ *\d+\.\d\d +in \d+ more$`) // callers of the first and last instructions
	detailCode   = regexp.MustCompile(`^ *\d+\.\d\d +\d+\.\d\d :|\d+\.\d\d% of`)
)

// maskDetails hides the numbers of the details of a function.
func (m *tmux) maskDetails(loads []split.Load) func(screen string) string {
	return func(screen string) string {
		var lines []string
		for line := range strings.SplitSeq(screen, "\n") {
			line, _ = m.maskLine(loads, line)
			line = detailFile.ReplaceAllString(line, "${1}…")
			line = detailDashes.ReplaceAllString(line, "---")
			line = detailSums.ReplaceAllString(line, "#")
			line = detailOthers.ReplaceAllString(line, "")
			line = detailCaller.ReplaceAllString(line, "#  $1") // indented if there are others
			line = detailCode.ReplaceAllString(line, "#")
			lines = append(lines, line)
		}
		return strings.Join(lines, "\n")
	}
}

// checkShares compares the shares on the screen with those that the loads have measured. samples is the number of all samples.
func (m *tmux) checkShares(t *testing.T, loads []split.Load, screen string, samples float64) {
	t.Helper()
	parts := map[*split.Load][2]float64{} // of one and of three, in percent
	for line := range strings.Lines(screen) {
		if row, _, is := m.loadRow(loads, strings.TrimSuffix(line, "\n")); is {
			p := parts[row.load]
			if row.three {
				p[1] += row.total
			} else {
				p[0] += row.total
			}
			parts[row.load] = p
		}
	}
	for i := range loads {
		l := &loads[i]
		want, err := l.Share()
		if err != nil {
			t.Error(err)
			continue
		}
		p := parts[l]
		got, of := p[1]/(p[0]+p[1]), (p[0]+p[1])/100*samples
		// five standard deviations of the number of samples, and the time between the functions
		tolerance := 5*math.Sqrt(want*(1-want)/of) + 0.03
		if !(math.Abs(got-want) <= tolerance) || p[0] == 0 {
			t.Errorf("%s: %.2f %% of the samples are in %s, and %.2f ± %.2f %% of the time", l.Name, 100*got, l.Three, 100*want, 100*tolerance)
		}
		t.Logf("%s: %.2f %% of the samples, %.2f ± %.2f %% of the time", l.Name, 100*got, 100*want, 100*tolerance)
	}
}

// TestTopFunctionsInTmux samples three programs that measure for themselves how much of their CPU time they spend in each of two functions:
// of C, of Go and of BPF. The shares on the screen must be right.
func TestTopFunctionsInTmux(t *testing.T) {
	require.NoKernel(t)
	require.Root(t)
	for _, size := range tmuxSizes {
		t.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(t *testing.T) {
			loads, shell, begin := startLoads(t, 2*time.Second)
			m := newTmux(t, size[0], size[1], nil, "top", "--by", "function", "-e", "cpu-clock", "-F", "3999", "-g", "-d", "0.5",
				"-p", fmt.Sprint(shell.Process.Pid))
			m.awaitText(t, `samples of cpu-clock`)
			begin.Close()
			shell.Wait() // its status is that of read
			m.awaitText(t, `all that was sampled has ended`)
			m.press(t, "t")
			list := m.maskList(loads)
			m.golden(t, "top", `↓all %`, list)
			shares := m.screen(t)
			for _, step := range []struct {
				keys, name, ready string
				mask              func(string) string
			}{
				{"?", "top-keys", `Keys of bperf top`, same},
				{"x/three", "top-typing", `names with: three_`, list},
				{"<enter>", "top-filtered", `names with: three \(`, list},
				{"<space>", "top-paused", `paused`, list},
				{"<space>/<ctrl+u>split three<enter><enter>", "top-callers", `Callers, in %`, m.maskDetails(loads)},
			} {
				m.press(t, step.keys)
				m.golden(t, step.name, step.ready, step.mask)
			}
			found := regexp.MustCompile(`cpu-clock +\d+\.\d\d % since [0-9:]+: \d+ of (\d+) samples`).FindStringSubmatch(m.screen(t))
			if found == nil {
				t.Fatalf("no number of samples on\n%s", m.screen(t))
			}
			samples, _ := strconv.ParseFloat(found[1], 64)
			m.checkShares(t, loads, shares, samples)
			m.press(t, "q")
			m.awaitEnd(t)
		})
	}
}

// TestTopInstructionsInTmux shows the instructions of a function of each of the loads while they run.
func TestTopInstructionsInTmux(t *testing.T) {
	require.NoKernel(t)
	require.Root(t)
	for _, size := range tmuxSizes {
		t.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(t *testing.T) {
			loads, shell, begin := startLoads(t, 10*time.Minute)
			m := newTmux(t, size[0], size[1], nil, "top", "-e", "cpu-clock", "-F", "999", "-d", "0.5", "-p", fmt.Sprint(shell.Process.Pid))
			m.awaitText(t, `samples of cpu-clock`)
			begin.Close()
			m.press(t, "/three")
			screen := m.await(t, "a function of each load", func(screen string) bool {
				rows := 0
				for line := range strings.Lines(screen) {
					if _, _, is := m.loadRow(loads, strings.TrimSuffix(line, "\n")); is {
						rows++
					}
				}
				return rows == len(loads)
			})
			program := regexp.MustCompile(`bpf_prog \d+`).FindString(screen)
			for _, load := range []struct{ function, shows string }{
				{program + " three", `\d+ +y = y \* 2862933555777941757ull`},
				{"split.three", `(split\.go:| : )\d+ *\n`}, // only the first line of a file has its name
				{"split three", `split +.*three_parts`},
			} {
				m.press(t, "<ctrl+u>"+load.function+"<enter>a")
				m.await(t, "instructions of "+load.function, func(screen string) bool {
					return sharesOnScreen(screen) > 20 && regexp.MustCompile(load.shows).MatchString(screen)
				})
				if load.function == "split three" && runtime.GOARCH == "amd64" {
					m.press(t, "<end>")
					m.golden(t, "top-instructions", `retq?\b`, m.maskDetails(loads))
				}
				m.press(t, "<esc>")
				m.awaitText(t, `/ filter`)
				m.press(t, "/")
			}
			m.press(t, "<enter>q")
			m.awaitEnd(t)
		})
	}
}

var instructionShares = regexp.MustCompile(`(?m)^ +\d+\.\d\d +(\d+\.\d\d) :   [0-9a-f]+:`)

// sharesOnScreen sums up the shares of instructions on the screen since the function was chosen.
func sharesOnScreen(screen string) (sum float64) {
	for _, found := range instructionShares.FindAllStringSubmatch(screen, -1) {
		share, _ := strconv.ParseFloat(found[1], 64)
		sum += share
	}
	return sum
}
