package record

import (
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/filter"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/userprog"
	"github.com/bperf/bperf/perfdata"
)

// FilterError reports a valid filter that this kernel does not accept.
type FilterError struct{ Err error }

func (e *FilterError) Error() string { return e.Err.Error() }
func (e *FilterError) Unwrap() error { return e.Err }

// sampleFilter is the filter of an event that is no tracepoint. A nil filter keeps all samples.
type sampleFilter struct {
	expr    *filter.Filter  // nil without --filter
	program *filter.Program // nil before loadFilters, or if only loaded runs
	loaded  int             // descriptor of the user's loaded program; 0 without
}

// newFilter parses the filter of an event; nil without. The kernel parses the filters of tracepoints.
func newFilter(e *event.Event) (*sampleFilter, error) {
	if e.PMU == "tracepoint" || e.Filter == "" && e.Program == "" {
		return nil, nil
	}
	f := &sampleFilter{}
	if e.Filter != "" {
		var err error
		if f.expr, err = filter.Parse(e.Filter); err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name, err)
		}
	}
	return f, nil
}

// addFiltered adds the fields that filters read to the samples of their events. It adds the time to all events if one needs it, because the
// time precedes the fields that may differ between events.
func (p *plan) addFiltered() {
	var time perfdata.SampleType
	for _, o := range p.events {
		if o.filter != nil && o.filter.expr != nil {
			o.attr.SampleType |= o.filter.expr.SampleType()
			time |= o.filter.expr.SampleType() & perfdata.SampleTime
		}
	}
	for _, o := range p.events {
		o.attr.SampleType |= time
	}
}

// loadFilters loads the programs of all filters, and the user's programs.
func (s *sources) loadFilters() error {
	if err := s.cfg.Programs.Load(); err != nil {
		return err
	}
	for _, o := range s.events {
		if o.filter == nil {
			continue
		}
		if err := o.filter.load(o.event.Program, s.cfg.Programs, s.unwinder.after(o)); err != nil {
			err = fmt.Errorf("%s: %w", o.event.Name, err)
			if o.event.Program == "" {
				err = &FilterError{err}
			}
			return err
		}
		if o.filter.expr != nil {
			s.cfg.Verbose(fmt.Sprintf("%s: the filter is %v", o.event.Name, o.filter.expr))
		}
	}
	return nil
}

// load loads the filter, with the user's program source unless it is empty. then runs for the samples that the filter keeps, unless it is nil.
func (f *sampleFilter) load(source string, programs *userprog.Programs, then *ebpf.Map) (err error) {
	var ask *filter.Function
	if source != "" {
		if ask, err = programs.Function(source); err != nil {
			return err
		}
		if ask == nil && f.expr != nil {
			return fmt.Errorf("--filter and the program %s: an event takes one BPF program. Give the program's object file, or no filter", source)
		}
		if ask == nil && then != nil {
			return fmt.Errorf("--call-graph bpf and the program %s: an event takes one BPF program. Give the program's object file, "+
				"or call-graph=fp as a term of this event", source)
		}
		if ask == nil {
			f.loaded, err = programs.Loaded(source)
			return err
		}
	}
	if f.program, err = f.expr.Load(ask, then); err != nil && ask != nil {
		return fmt.Errorf("the program %s: %w", source, programs.Explain(err))
	}
	return err
}

// attach attaches the program to an open event. It also runs for the samples of events that tasks inherit from it.
func (f *sampleFilter) attach(o *opened, fd *perfevent.Event) error {
	program := f.loaded
	if f.program != nil {
		program = f.program.FD()
	}
	if err := fd.SetBPF(program); err != nil {
		return &FilterError{fmt.Errorf("%s: the kernel takes no program as the filter of this event: %w", o.event.Name, err)}
	}
	return nil
}

// writeFiltered writes the number of samples that the filter of an event dropped.
func (c *collector) writeFiltered(o *opened) error {
	if o.filter == nil || o.filter.program == nil {
		return nil
	}
	counts, err := o.filter.program.Counts()
	if err != nil {
		return err
	}
	c.cfg.Verbose(fmt.Sprintf("%s: the filter kept %d samples and dropped %d", o.event.Name, counts.Kept, counts.Dropped))
	c.tally.filtered += counts.Dropped
	if err := c.writeMissed(o, counts); err != nil {
		return err
	}
	if counts.Dropped == 0 || len(o.ids) == 0 {
		return nil
	}
	r := &perfdata.LostSamples{Samples: counts.Dropped, BPF: true}
	r.ID = o.ids[0]
	return c.out.write(0, r)
}

// writeMissed reports the samples of an event for which the kernel did not run its filter: it drops them uncounted while another BPF program, or
// a map operation that was preempted, is under way on the CPU. The event's own count shows them. With a period of 1 the difference is the number of
// lost samples. Otherwise it is an estimate, because it includes the counts of threads after their last sample, and periods that a late timer
// skipped.
func (c *collector) writeMissed(o *opened, counts filter.Counts) error {
	missed, exact := c.ownCount(o).Missed(counts.Kept+counts.Dropped, counts.Value)
	return c.noteMissed(o, missed, exact)
}

// noteMissed reports and writes the number of samples of an event for which the kernel did not run a program.
func (c *collector) noteMissed(o *opened, missed uint64, exact bool) error {
	if missed == 0 {
		return nil
	}
	c.tally.missed += missed
	if !exact {
		c.cfg.Verbose(fmt.Sprintf("%s: about %d samples fewer than its own count makes: threads ended before their next one, timers were "+
			"late, or another BPF program ran on the CPU", o.event.Name, missed))
		return nil
	}
	c.cfg.Notify(fmt.Sprintf("%s: %d samples are lost: the kernel takes none while another BPF program runs on the CPU", o.event.Name, missed))
	r := &perfdata.LostSamples{Samples: missed}
	r.ID = o.ids[0]
	return c.out.write(0, r)
}

func (f *sampleFilter) close() {
	if f != nil && f.program != nil {
		f.program.Close()
	}
}
