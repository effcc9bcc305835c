package node

import (
	"fmt"
	"strings"

	"github.com/bperf/bperf/internal/count/process"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/perfdata"
)

// GivenUp is the reason of an event that is not counted because of Config.Most, and of containers because of Config.NoContainers.
const GivenUp = "given up to keep the budget"

// events are the events of a configuration.
type events struct {
	all  []Event
	list event.List // of those that may be counted
	at   []int      // by event of the list: its index in all
}

// parseEvents parses the events of a configuration. An event that cannot be counted gets a reason: nodes of a fleet differ, and share a
// configuration. refuse returns that reason for an event of the machine; "" for none. counted is the number of events before it that are
// counted.
func parseEvents(machine *event.Machine, names []string, refuse func(one *event.Event, counted int) string) events {
	var e events
	known := make(map[string]bool)
	add := func(name string, counted *event.Event, reason string) {
		if known[name] {
			return
		}
		known[name] = true
		if reason == "" {
			e.list = append(e.list, event.Group{Events: []*event.Event{counted}})
			e.at = append(e.at, len(e.all))
		}
		e.all = append(e.all, Event{printable.Text(name), printable.Text(reason)})
	}
	for _, name := range names {
		list, err := machine.Parse(name)
		if err != nil {
			reason, _, _ := strings.Cut(err.Error(), "\n") // the other lines point at the place, on a terminal
			add(name, nil, reason)
			continue
		}
		for _, one := range list.Events() {
			add(one.Name, one, refuse(one, len(e.list)))
		}
	}
	return e
}

// refuseBeyond returns the refuse of parseEvents for CPUs and containers. Beyond the first most, events are given up; 0 for none.
func refuseBeyond(most int) func(*event.Event, int) string {
	return func(one *event.Event, counted int) string {
		err := process.Check(one)
		switch {
		case err != nil:
			return err.Error()
		case one.Attr.Flags&(perfdata.AttrPinned|perfdata.AttrExclusive) != 0:
			return one.Name + " would keep others from the counters of the CPU: leave out the modifiers D and e"
		case counted == process.MaxEvents:
			return fmt.Sprintf("%s is one event too many: %d are possible", one.Name, process.MaxEvents)
		case most > 0 && counted == most:
			return GivenUp
		}
		return ""
	}
}
