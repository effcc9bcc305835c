package remote

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bperf/bperf/test/require"
)

// TestStats runs sessions with each outcome and reads the numbers while one runs, and afterwards.
func TestStats(t *testing.T) {
	require.NoKernel(t)
	h := start(t, Config{Longest: time.Hour, Bytes: 1 << 40})
	for _, event := range []string{"status", "none"} {
		if _, err := h.node.Run(t.Context(), nil, waiting(event), nil, io.Discard, io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	answer, err := http.Post(h.http.URL, "application/json", strings.NewReader(`{"command":"rm"}`))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	stdout, stop, ended := newWatched(), make(chan struct{}), make(chan struct{})
	var stderr bytes.Buffer
	begin := time.Now()
	go func() {
		defer close(ended)
		if _, err := h.node.Run(t.Context(), nil, waiting("wait"), stop, stdout, &stderr); err != nil {
			t.Error(err)
		}
	}()
	<-stdout.begun
	running := h.sessions.Stats()
	if len(running.Running) != 1 || running.Started["stat"] != 3 || running.Refused != 1 || running.Longest != time.Hour || running.Bytes != 1<<40 {
		t.Fatalf("%+v", running)
	}
	if r := running.Running[0]; !strings.HasPrefix(r.Client, "127.0.0.1:") || r.Command != "stat" || r.Args != "--event=wait" || r.Begin.Before(begin) || r.Sent == 0 {
		t.Errorf("%+v", r)
	}
	if running.CPUTime <= 0 {
		t.Errorf("CPU time of three processes: %v", running.CPUTime)
	}
	close(stop)
	<-ended
	var all Stats
	for { // the test's time-out ends the loop: the client may know the end before the node has counted it
		if all = h.sessions.Stats(); len(all.Running) == 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if got, want := all.Ended["stat"], [Outcomes]uint64{Succeeded: 1, Failed: 2}; got != want {
		t.Errorf("ended: %v, want %v", got, want)
	}
	if all.CPUTime < running.CPUTime || all.Started["record"] != 0 {
		t.Errorf("%+v, before %+v", all, running)
	}
}

func TestOutcome(t *testing.T) {
	for end, want := range map[End]string{
		{Status: 0}: "succeeded", {Status: 1}: "failed", {Status: 0, Reason: "the longest session"}: "ended_by_node",
		{Status: 137, Reason: errGone.Error()}: "client_gone",
	} {
		if got := end.outcome().String(); got != want {
			t.Errorf("%+v: %s, want %s", end, got, want)
		}
	}
}
