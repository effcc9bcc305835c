package stat

import (
	"errors"
	"slices"
	"strings"

	"github.com/bperf/bperf/internal/count"
)

// reasons collects why rows have no value. What got a value in a later snapshot needs none.
type reasons struct {
	order []counted
	why   map[counted]string
}

// counted is an event with where it was to be counted.
type counted struct {
	term                 int // tells events of one name apart
	event, place, cgroup string
}

func (r *reasons) add(rows []Row) {
	if r.why == nil {
		r.why = make(map[counted]string)
	}
	for i := range rows {
		row := &rows[i]
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

// lines gives each reason once, with the names of the events it holds for.
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

// reason says why the row has no value; it is empty for one that has.
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
