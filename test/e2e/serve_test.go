package e2e

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

// daemon is `bperf serve`, which listens on a Unix socket.
type daemon struct {
	client http.Client
	log    bytes.Buffer // of the daemon; complete after its end
}

// serve starts `bperf serve` and ends it with the test.
func serve(t *testing.T, events string) *daemon {
	t.Helper()
	d := new(daemon)
	socket := filepath.Join(t.TempDir(), "bperf.sock")
	d.client.Transport = &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", socket)
	}}
	cmd := exec.Command(bperfPath, "serve", "--listen", "unix:"+socket, "--cpu-budget", "0", "--memory-budget", "0", "-e", events)
	cmd.Stderr = &d.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Errorf("serve: %v\n%s", err, &d.log)
		}
	})
	d.await(t, "/-/ready", func(string) bool { return true })
	return d
}

// get returns the answer to a request, and false without one or with another status than 200.
func (d *daemon) get(path string) (string, bool) {
	response, err := d.client.Get("http://localhost" + path)
	if err != nil {
		return "", false // it does not listen yet
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err == nil && response.StatusCode == http.StatusOK
}

// await asks once a second, as often as the daemon reads its counts, until ok returns true for the answer.
func (d *daemon) await(t *testing.T, path string, ok func(answer string) bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Second) {
		answer, found := d.get(path)
		if found && ok(answer) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not in two minutes: %s is\n%s", path, answer)
		}
	}
}

var (
	eventsOfContainer = regexp.MustCompile(`(?m)^bperf_container_events_total\{(.*)\} (\S+)$`)
	eventLabel        = regexp.MustCompile(`event="([^"]*)"`)
)

// containerEvents returns the events of a container in the answer of /metrics, by name. There are none before something has run in it.
func containerEvents(t *testing.T, metrics, container string) map[string]float64 {
	t.Helper()
	counts := make(map[string]float64)
	for _, m := range eventsOfContainer.FindAllStringSubmatch(metrics, -1) {
		event := eventLabel.FindStringSubmatch(m[1])
		if event == nil || !strings.Contains(m[1], `container_id="`+container+`"`) {
			continue
		}
		var err error
		if counts[event[1]], err = strconv.ParseFloat(m[2], 64); err != nil {
			t.Fatal(err)
		}
	}
	return counts
}

// TestServeTruth compares the events of a container on /metrics with those that stat counts in its cgroup while a program runs there,
// directly and with shared counters, and with the number of instructions of the program. The daemon and stat share four counters: otherwise
// they would need eight, more than the CPU has, and statWhile fails if an event has not counted all the time.
func TestServeTruth(t *testing.T) {
	require.ExactPMU(t)
	require.OneCPU(t)
	keepSharing(t)
	const id = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	group := makeCgroup(t)
	for _, dir := range []string{"kubepods", "pod6f1d5c3a-9b2e-4a77-8c15-0d2e4f6a8b90", id} {
		group = cgroup{filepath.Join(group.name, dir), filepath.Join(group.dir, dir)}
		own := group.dir
		if err := os.Mkdir(own, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Remove(own) }) // if it stays, makeCgroup reports it
	}
	loop := program.Program{Body: program.Spin, Times: 10_000_000, Wait: true}
	const shared = "instructions:ub,cycles:ub,instructions:b,cycles:b,page-faults:ub"
	d := serve(t, "instructions:u,cycles:u,instructions,cycles,page-faults:u")
	for _, events := range []string{shared, "instructions:u,cycles:u,page-faults:u"} {
		w := startWaiting(t, loop)
		w.join(t, group.dir)
		metrics, _ := d.get("/metrics")
		before := containerEvents(t, metrics, id)
		counts := statWhile(t, w.proceed, "-a", "--for-each-cgroup", group.name, "-e", events)
		var got map[string]float64
		d.await(t, "/metrics", func(metrics string) bool {
			got = containerEvents(t, metrics, id)
			for event := range got {
				got[event] -= before[event]
			}
			return got["instructions:u"] >= float64(loop.InstructionsAfterWait())
		})
		for event, count := range counts.sums {
			name, isShared := strings.CutSuffix(event, "b")
			name = strings.TrimSuffix(name, ":")
			exact := strings.HasSuffix(name, ":u")
			if want := got[name]; exact && count != want || want < 0.995*count || want > 1.005*count {
				t.Errorf("%s: /metrics has %.0f, stat %.0f (shared: %v)", name, want, count, isShared)
			}
		}
		if want := float64(loop.InstructionsAfterWait()); got["instructions:u"] != want || len(counts.sums) != strings.Count(events, ",")+1 {
			t.Errorf("/metrics has %v, stat %v; the program executes %.0f instructions", got, counts.sums, want)
		}
	}
}
