package stat

import (
	"time"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/target"
)

// repeats combines the rows of several runs.
type repeats struct {
	order []*repeatedRow
	index map[rowKey]*repeatedRow
}

// rowKey identifies a row within a run, and the same row in the next one.
type rowKey struct {
	term                int
	name, place, cgroup string
}

type repeatedRow struct {
	Row
	value            stats
	enabled, running uint64
	counted          uint64 // runs in which the row has a value
}

// add adds the rows of one run.
func (r *repeats) add(rows []Row) {
	if r.index == nil {
		r.index = make(map[rowKey]*repeatedRow)
	}
	for _, row := range rows {
		key := rowKey{row.Event.Term, row.Name, row.Place.ID, row.group()}
		runs, dropped := row.Runs, row.Dropped
		row.Runs, row.Dropped = nil, nil
		all, ok := r.index[key]
		if !ok {
			all = &repeatedRow{Row: row}
			r.index[key] = all
			r.order = append(r.order, all)
		}
		all.Runs, all.Dropped = addRuns(all.Runs, runs), addDropped(all.Dropped, dropped)
		if !row.Counted() {
			continue
		}
		all.value.add(row.Value)
		all.enabled += row.Enabled
		all.running += row.Running
		all.counted++
	}
}

// rows returns the means over the runs.
func (r *repeats) rows() []Row {
	rows := make([]Row, len(r.order))
	for i, all := range r.order {
		rows[i] = all.Row
		if all.counted == 0 {
			continue
		}
		rows[i].Total = count.Total{
			Value:   all.value.mean,
			Enabled: all.enabled / all.counted,
			Running: all.running / all.counted,
		}
		rows[i].Variance = all.value.relStdErr()
		if all.Runs != nil && all.Runs.Counted > 0 {
			rows[i].PerRun = all.value.mean * float64(all.counted) / float64(all.Runs.Counted)
		}
	}
	return rows
}

// add adds the times of one run.
func (o *Outcome) add(elapsed time.Duration, command target.Status, cfg *Config) {
	o.Runs++
	o.Elapsed = append(o.Elapsed, elapsed)
	o.HasTimes = cfg.CommandIsTarget() && o.Runs == 1
	o.User, o.System = command.User, command.System
}

// elapsed returns the mean elapsed time of the runs.
func (o *Outcome) elapsed() time.Duration {
	var sum time.Duration
	for _, e := range o.Elapsed {
		sum += e
	}
	return sum / time.Duration(max(len(o.Elapsed), 1))
}
