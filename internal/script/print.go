package script

import (
	"fmt"
	"io"

	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/internal/symbol/object"
	"github.com/bperf/bperf/internal/tracedata"
	"github.com/bperf/bperf/perfdata"
)

// Print prints a recording from which no record was read yet. The statistics are valid even if it returns an error.
func Print(w io.Writer, reader *perfdata.Reader, o Options, ro replay.Options) (replay.Stats, error) {
	_, stats, err := run(w, reader, o, ro)
	return stats, err
}

// run prints a recording and returns its printer, too.
func run(w io.Writer, reader *perfdata.Reader, o Options, ro replay.Options) (*printer, replay.Stats, error) {
	if o.Unsorted {
		reader.Unsorted()
	}
	ro.Others, ro.Raw = o.Records != Records{}, o.Dump
	ro.Lines = o.Fields.prints(fieldSourceLine) || ro.Debuginfod != nil && o.Fields.prints(fieldSourceText) || o.JSON && !ro.NoInline // inlined functions are printed with file and line
	if o.Fields.prints(ofBlocks) {
		ro.Portion = maxBlockSamples
	}
	ro.Ordered = o.Fields.prints(fieldSourceText) // a line is printed if it is not that of the thread's last sample
	counts := newCountPrinter(w, reader, o.JSON)
	ro.Records = counts.add
	r := replay.New(reader, ro)
	defer r.Close()
	p := &printer{replay: r, reader: reader, o: o, arch: reader.Features().Text(perfdata.FeatureArch), resolve: r.KernelFunction,
		files: object.Search{Root: ro.SymFS, Allowance: ro.Allowance, Debuginfod: ro.Debuginfod}}
	if err := p.fit(); err != nil {
		return p, replay.Stats{}, err
	}
	handler := p.newText
	if o.JSON {
		handler = p.newJSON
	}
	if o.PerEvent != nil {
		each := handler
		handler = func(r *replay.Resolver) replay.Handler { return framed(each(r)) }
		w = eventWriter{o.PerEvent, w}
	}
	err := r.Run(handler, w)
	if err == nil {
		err = counts.err
	}
	stats := r.Stats()
	for _, t := range p.texts {
		p.warnings = append(p.warnings, t.source.problem()...)
	}
	stats.Problems = append(append(p.warnings, stats.Problems...), counts.rounds.Losses()...)
	if p.badTraces != nil {
		stats.Damaged = append(stats.Damaged, p.badTraces)
	}
	return p, stats, err
}

// fit adapts the printer and its fields to the events of the recording.
func (p *printer) fit() error {
	events := p.reader.Events()
	if err := p.readOutputTypes(); err != nil {
		return err
	}
	if value, there := p.reader.Features().Raw(perfdata.FeatureTracingData); there {
		p.traces, p.badTraces = tracedata.Parse(value)
	}
	s := p.o.Fields
	for _, e := range events {
		p.width = max(p.width, len(e.Name))
		if (e.Attr.SampleType.Has(perfdata.SampleCallchain) || replay.IsOffCPUDump(e)) && !p.o.NoChains {
			p.chains = true
			if kindOf(e) == kindTracepoint {
				s.withChains()
			}
		}
	}
	for _, e := range events {
		if isDummy(&e.Attr) {
			continue // it has no samples
		}
		warning, err := s.fit(e)
		if err != nil {
			return err
		}
		if warning != "" {
			p.warnings = append(p.warnings, warning)
		}
	}
	if err := s.fitBlocks(events); err != nil {
		return err
	}
	if s.prints(fieldTimeOfDay) {
		if _, there := p.reader.Features().Raw(perfdata.FeatureClockData); !there {
			return fmt.Errorf("fields: tod: the recording has no time of day; record it with -k CLOCK")
		}
	}
	p.fields = s.fields
	return nil
}

func isDummy(a *perfdata.Attr) bool {
	return a.Type == perfdata.TypeSoftware && a.Config == perfdata.SoftwareDummy
}
