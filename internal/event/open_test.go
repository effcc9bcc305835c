package event

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/bperf/bperf/internal/perfevent"
)

// TestRefusedFilter checks that the error of a filter names the file with the tracepoint's fields, even if the event has modifiers or
// another name.
func TestRefusedFilter(t *testing.T) {
	for _, input := range []string{"sched:sched_switch", "sched:sched_switch:u", "sched:sched_switch/name=mine/"} {
		list, err := fake(t, "hybrid").Parse(input)
		if err != nil {
			t.Fatal(err)
		}
		e := list.Events()[0]
		e.Filter = "a\x00b" // refused before the kernel sees it
		err = e.SetFilter(new(perfevent.Event))
		if !errors.Is(err, syscall.EINVAL) || !strings.HasSuffix(err.Error(), "/events/sched/sched_switch/format") {
			t.Errorf("%s: %v", input, err)
		}
	}
}
