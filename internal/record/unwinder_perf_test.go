package record

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bperf/bperf/test/require"
)

// frame is a frame of a callchain, as perf prints it.
type frame struct {
	address uint64
	name    string
}

// faultSample is a sample of a page fault.
type faultSample struct {
	tid, time uint64
	address   string // of the data, in hexadecimal
	frames    []frame
}

// TestUnwoundLikePerf records the same page faults by BPF and by `perf record --call-graph dwarf`. For at least 99 % of those that both have,
// the frames are the same. The kernel counts a page fault in two events, one right after the other. Each recorder has one of the two, because
// Linux 6.18 mixes up what two recorders want from the same event.
func TestUnwoundLikePerf(t *testing.T) {
	require.Root(t)
	require.Tools(t, "gcc", "python3")
	for version, perf := range map[string]string{"6.1": require.Perf(t), "newest": require.NewestPerf(t)} {
		for name, command := range map[string][]string{"C": {buildFaults(t)}, "Python": {"python3", "testdata/faults.py"}} {
			t.Run(version+"/"+name, func(t *testing.T) {
				theirs := filepath.Join(t.TempDir(), "perf.data.of-perf")
				result, ours := recordBoth(t, perf, theirs, command)
				compareFrames(t, faultSamples(t, perf, ours), faultSamples(t, perf, theirs), int(result.Samples))
				t.Log(result.Chains)
			})
		}
	}
}

// buildFaults compiles the program without frame pointers.
func buildFaults(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "faults")
	flags := []string{"-O2", "-fomit-frame-pointer", "-pthread", "-Wl,-z,max-page-size=65536", "-Wl,-z,lazy"}
	out, err := exec.Command("gcc", append(flags, "-o", path, "testdata/faults.c")...).CombinedOutput()
	if err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return path
}

// recordBoth records the page faults of a command with bperf, which starts perf, which lets the command continue: then both record.
func recordBoth(t *testing.T, perf, output string, command []string) (result Result, ours string) {
	t.Helper()
	fifos := []string{fifo(t), fifo(t)}
	var begin, end *os.File
	for i, f := range []**os.File{&begin, &end} {
		var err error
		*f, err = os.OpenFile(fifos[i], os.O_RDWR, 0)
		check(t, err)
		defer (*f).Close()
	}
	load := exec.CommandContext(t.Context(), command[0], command[1:]...)
	load.Stdin, load.Stderr, load.WaitDelay = begin, os.Stderr, time.Minute
	stdout, err := load.StdoutPipe()
	check(t, err)
	check(t, load.Start())
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatalf("%q: %v, %v", command, err, load.Wait())
	}
	ended := make(chan error, 1)
	go func() {
		err := load.Wait()
		_, writeErr := end.WriteString("\n")
		ended <- cmp.Or(err, writeErr)
	}()
	cfg := config(t, "page-faults:u")
	cfg.Target.PIDs, cfg.Addresses, cfg.Callchain, cfg.RingPages, cfg.Time = []int{load.Process.Pid}, true, CallchainBPF, 1024, true
	cfg.Command = []string{perf, "record", "-q", "-d", "-e", "minor-faults:u", "-c", "1", "--call-graph", "dwarf,16384", "-m", "8192",
		"-o", output, "-p", strconv.Itoa(load.Process.Pid), "--", "sh", "-c", `echo >"$0"; read line <"$1"`, fifos[0], fifos[1]}
	result, err = Run(cfg)
	check(t, err)
	if result.Command.Code != 0 {
		t.Fatalf("perf record: %+v", result.Command)
	}
	check(t, <-ended)
	return result, cfg.Output
}

// faultSamples reads a recording with perf.
func faultSamples(t *testing.T, perf, file string) (samples []faultSample) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), perf, "script", "--ns", "--no-inline", "-i", file, "-F", "tid,time,addr,ip,sym")
	var stderr bytes.Buffer
	cmd.Stderr, cmd.WaitDelay = &stderr, time.Minute
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("perf script: %v\n%s", err, stderr.Bytes())
	}
	for block := range strings.SplitSeq(string(out), "\n\n") {
		head, frames, _ := strings.Cut(strings.Trim(block, "\n"), "\n")
		fields := strings.Fields(head) // TID, seconds with a colon, address, its symbol
		if len(fields) < 3 {
			continue
		}
		var s faultSample
		s.tid, err = strconv.ParseUint(fields[0], 10, 32)
		check(t, err)
		s.time, err = strconv.ParseUint(strings.NewReplacer(".", "", ":", "").Replace(fields[1]), 10, 64) // nanoseconds: nine digits
		check(t, err)
		s.address = fields[2]
		for line := range strings.Lines(frames) {
			address, name, _ := strings.Cut(strings.TrimSpace(line), " ")
			n, err := strconv.ParseUint(address, 16, 64)
			check(t, err)
			s.frames = append(s.frames, frame{n, name})
		}
		samples = append(samples, s)
	}
	return samples
}

// compareFrames matches the samples of two recordings. That of perf is the later one of a fault.
func compareFrames(t *testing.T, ours, theirs []faultSample, taken int) {
	t.Helper()
	byThread := make(map[uint64][]faultSample)
	for _, s := range ours {
		byThread[s.tid] = append(byThread[s.tid], s)
	}
	for _, of := range byThread {
		slices.SortFunc(of, func(a, b faultSample) int { return cmp.Compare(a.time, b.time) })
	}
	both, same := 0, 0
	differ := make(map[string]int)
	for _, s := range theirs {
		of := byThread[s.tid]
		i, _ := slices.BinarySearchFunc(of, s.time, func(a faultSample, time uint64) int { return cmp.Compare(a.time, time) })
		if i == 0 || of[i-1].address != s.address || len(s.frames) == 0 || len(of[i-1].frames) == 0 || of[i-1].frames[0] != s.frames[0] {
			continue // one of the two was lost
		}
		both++
		if at := commonFrames(of[i-1].frames, s.frames); at < max(len(s.frames), len(of[i-1].frames)) {
			differ[fmt.Sprintf("after %s: %s; perf: %s", s.frames[at-1].name, frameName(of[i-1].frames, at), frameName(s.frames, at))]++
		} else {
			same++
		}
	}
	t.Logf("%d samples, perf has %d, both have %d, the same frames in %d", len(ours), len(theirs), both, same)
	for _, how := range slices.Sorted(maps.Keys(differ)) {
		t.Logf("%d differ %s", differ[how], how)
	}
	if len(ours) != taken || both < 1000 || same*100 < both*99 {
		t.Errorf("bperf has taken %d samples, perf prints %d of them and %d of its own; both have %d, with the same frames %d",
			taken, len(ours), len(theirs), both, same)
	}
}

// commonFrames returns the number of frames at the beginning that are the same. perf subtracts 1 from return addresses.
func commonFrames(ours, theirs []frame) (n int) {
	for n < min(len(ours), len(theirs)) && (ours[n].address == theirs[n].address || ours[n].address-1 == theirs[n].address) {
		n++
	}
	return n
}

func frameName(frames []frame, at int) string {
	if at == len(frames) {
		return "the end"
	}
	return frames[at].name
}
