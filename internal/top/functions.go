package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/record"
	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/internal/sample"
)

// Functions observes the functions that events are sampled in: of the kernel, of programs and of BPF programs. Package sample counts the
// samples in the kernel.
type Functions struct {
	list  event.List
	own   own
	stop  context.CancelFunc
	ready chan struct{} // has an element after an interval was added to sums
	ended chan struct{} // closed when sampling has ended

	listings sync.Mutex // held while instructions are read, which takes long

	mu   sync.Mutex // guards the fields below
	sums *functionSums
	note string // the last message of the recording
	err  error  // why sampling has ended; nil while it goes on, and if everything that was sampled has ended
}

// FunctionsConfig configures Functions.
type FunctionsConfig struct {
	Record  record.Config // what is sampled and how often; Done is ignored
	Every   time.Duration // the longest time between two calls of Next that both find new samples
	Callers bool          // also keep the callers of functions
}

// errAfresh ends a session that has lost many records. The processes whose start or end it has missed would stay in its memory.
var errAfresh = errors.New("too many records were lost")

// A session begins afresh after this many lost records.
const mostLostRecords = 10_000

// OpenFunctions begins to sample. Errors of sampling are those of Next.
func OpenFunctions(cfg FunctionsConfig) (*Functions, error) {
	ctx, stop := context.WithCancel(context.Background())
	f := &Functions{list: cfg.Record.Events, stop: stop, ready: make(chan struct{}, 1), ended: make(chan struct{}),
		sums: newFunctionSums(cfg.Callers, len(cfg.Record.Events.Events()))}
	if _, err := f.own.share(1); err != nil {
		stop()
		return nil, err
	}
	notify := cfg.Record.Notify
	cfg.Record.Notify = func(text string) {
		if notify != nil {
			notify(text)
			return
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.note = text
	}
	cfg.Record.Done, cfg.Record.NoIdle = ctx.Done(), true
	go f.run(ctx, cfg)
	return f, nil
}

// patience is the time between two looks for new processes.
const patience = 50 * time.Millisecond

// run samples until the context is done or everything that is sampled has ended.
func (f *Functions) run(ctx context.Context, cfg FunctionsConfig) {
	defer close(f.ended)
	by := sample.Keys{IP: !cfg.Callers, Stack: cfg.Callers, PID: true}
	session := sample.Config{Record: cfg.Record, By: by, Every: cfg.Every, Patience: patience}
	session.Keep = profile.Address // for instructions
	session.Replay.NoInline = true
	var following *replay.Replay
	session.Following = func(r *replay.Replay) { following = r }
	err := errAfresh
	for errors.Is(err, errAfresh) {
		lost := uint64(0)
		session.Each = func(p *profile.Profile) error {
			if ctx.Err() != nil { // its symbols were skipped
				return nil
			}
			f.add(p, following.DSO)
			if lost += p.Losses.Records; lost > mostLostRecords {
				return errAfresh
			}
			return nil
		}
		_, err = sample.Run(session)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// add adds an interval. dsoOf returns where the code of its modules is.
func (f *Functions) add(p *profile.Profile, dsoOf func(profile.ModuleID) *replay.DSO) {
	p.RemoveDummies()
	f.mu.Lock()
	f.sums.add(p, dsoOf)
	f.mu.Unlock()
	select {
	case f.ready <- struct{}{}:
	default: // the element is still there
	}
}

// Close ends the observation.
func (f *Functions) Close() error {
	f.stop()
	<-f.ended
	return nil
}

// Subject returns "functions".
func (f *Functions) Subject() string { return "functions" }

// Columns returns the columns of functions.
func (f *Functions) Columns() []Column { return FunctionColumns(f.list) }

// Next returns the samples since the last call. It waits until there are new ones.
func (f *Functions) Next(ctx context.Context) (*Reading, error) {
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-f.ready:
		case <-f.ended:
			select {
			case <-f.ready: // the last ones
			default:
				return nil, f.end()
			}
		}
		if r, err := f.reading(); r != nil || err != nil {
			return r, err
		}
	}
}

// end returns why sampling has ended.
func (f *Functions) end() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		return io.EOF
	}
	return f.err
}

// reading returns the samples since the last reading. It returns nil if the last reading already had those that ready announced.
func (f *Functions) reading() (*Reading, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sums.now.window == 0 {
		return nil, nil
	}
	r := f.sums.reading()
	share, err := f.own.share(r.Window)
	if err != nil {
		return nil, err
	}
	r.Cost = fmt.Sprintf("bperf takes %s %% of a CPU", percent(share))
	if f.note != "" {
		r.Cost += "; " + printable.Text(f.note)
	}
	return r, nil
}

// Examine describes a function: where it is, its share since the start, and its callers. It may be called while Next is running.
func (f *Functions) Examine(id uint64) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sums.examine(id)
}

// FunctionColumns returns the columns of functions. The first event of the list has several.
func FunctionColumns(list event.List) []Column {
	events := list.Events()
	const base = 80 // width at which the columns without further events leave room for names
	columns := []Column{
		{"share", "c", "now %", Amount, 6, 0},
		{"total", "t", "all %", Amount, 6, 30},
		{"samples", "s", "samples", Amount, 8, 60},
	}
	const width = 14
	from := base
	for i, e := range events[min(1, len(events)):] {
		from += width + 2
		c := Column{e.Name, "", e.Name + " %", Amount, width, from}
		if i < 9 {
			c.Key = fmt.Sprint(i + 1)
		}
		columns = append(columns, c)
	}
	return slices.Concat(columns, []Column{
		{"object", "o", "object", Word, 20, 50},
		{"last", "", "last", Trend, historyLength, from + 2 + historyLength},
		{"name", "n", "name", Word, 0, 0},
	})
}
