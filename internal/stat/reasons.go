package stat

import (
	"errors"
	"slices"
	"strings"

	"github.com/bperf/bperf/internal/count"
)

// reasons collects why rows have no value. It drops the reason of a row that gets a value in a later snapshot.
type reasons struct {
	order []counted
	why   map[counted]string
}

// counted identifies an event and where it should have been counted.
type counted struct {
	term                 int // distinguishes events of one name
	event, place, cgroup string
}

func (r *reasons) add(rows []Row) {
	if r.why == nil {
		r.why = make(map[counted]string)
	}
	for i := range rows {
		row := &rows[i]
		if row.OnlyMetrics {
			continue
		}
		key := counted{row.Event.Term, row.Name, row.Place.ID, row.group()}
		old, known := r.why[key]
		if !known {
			r.order = append(r.order, key)
		}
		if !known || old != "" {
			r.why[key] = row.reason()
		}
	}
}

// lines returns one line per reason, with the names of the events that it applies to.
func (r *reasons) lines() []string {
	var order []string
	names := make(map[string][]string)
	for _, key := range r.order {
		why := r.why[key]
		if why == "" {
			continue
		}
		if names[why] == nil {
			order = append(order, why)
		}
		if !slices.Contains(names[why], key.event) {
			names[why] = append(names[why], key.event)
		}
	}
	for i, why := range order {
		order[i] = strings.Join(names[why], ", ") + ": " + why
	}
	return order
}

// errorLines returns one line per reason why events cannot be counted, with the names of the events, and those errors that name none.
func errorLines(all []error) []string {
	var lines []string
	names := make(map[string][]string) // by what stands after them
	for _, err := range all {
		var unsupported *count.Unsupported
		if !errors.As(err, &unsupported) || err.Error() != unsupported.Error() {
			lines = append(lines, err.Error())
			continue
		}
		why := strings.TrimPrefix(err.Error(), unsupported.Event.Name)
		if names[why] == nil {
			lines = append(lines, why)
		}
		names[why] = append(names[why], unsupported.Event.Name)
	}
	for i, line := range lines {
		lines[i] = strings.Join(names[line], ", ") + line
	}
	return lines
}

// reason returns why the row has no value, or "" if it has one.
func (r *Row) reason() string {
	var unsupported *count.Unsupported
	switch {
	case errors.As(r.Err, &unsupported):
		return "not supported: " + strings.TrimSpace(unsupported.Reason+" "+unsupported.Remedy)
	case r.Err != nil:
		return "not supported: " + r.Err.Error()
	case r.absent() == "":
		return ""
	case r.Enabled == 0:
		return "not counted: nothing of the target ran while counting."
	default:
		return "not counted: never on a counter while enabled: other events had the counters, " +
			"or the target did not run on a CPU of the event's PMU."
	}
}
