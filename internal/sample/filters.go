package sample

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/filter"
	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/record"
	"github.com/bperf/bperf/internal/userprog"
)

// takeFilters returns the filters of events and the user's programs as code for the program that counts, one per event. It replaces the events by copies
// without them, whose samples have the fields that the filters read.
func takeFilters(list *event.List, programs *userprog.Programs) ([]asm.Instructions, error) {
	var code []asm.Instructions
	var events event.List
	for _, group := range *list {
		copied := group
		copied.Events = nil
		for _, e := range group.Events {
			with := *e
			var instructions asm.Instructions
			var err error
			if e.Tracepoint == "" { // the kernel parses the filters of tracepoints
				if instructions, err = takeFilter(&with, programs); err != nil {
					return nil, err
				}
			}
			code = append(code, instructions)
			copied.Events = append(copied.Events, &with)
		}
		events = append(events, copied)
	}
	*list = events
	return code, nil
}

// takeFilter removes the filter and the program from an event, and returns their code; nil if it has neither.
func takeFilter(e *event.Event, programs *userprog.Programs) (asm.Instructions, error) {
	if e.Filter == "" && e.Program == "" {
		return nil, nil
	}
	var parsed *filter.Filter
	var err error
	if e.Filter != "" {
		if parsed, err = filter.Parse(e.Filter); err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name, err)
		}
		e.Attr.SampleType |= parsed.SampleType()
	}
	var ask *filter.Function
	if e.Program != "" {
		if ask, err = askable(e.Program, programs); err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name, err)
		}
	}
	code, err := parsed.Function(ask)
	if err != nil {
		return nil, &record.FilterError{Err: fmt.Errorf("%s: %w", e.Name, err)}
	}
	e.Filter, e.Program = "", ""
	return code, nil
}

// licenses are the licenses with which programs may call all kernel functions: license_is_gpl_compatible in include/linux/license.h.
var licenses = []string{"GPL", "GPL v2", "GPL and additional rights", "Dual BSD/GPL", "Dual MIT/GPL", "Dual MPL/GPL"}

// askable returns the user's program as a function that can be a part of the program that counts.
func askable(source string, programs *userprog.Programs) (*filter.Function, error) {
	ask, err := programs.Function(source)
	switch {
	case err != nil:
		return nil, err
	case ask == nil:
		return nil, fmt.Errorf("%s is loaded already: what it decides cannot be asked by the program that counts samples. Give the object file, or record with bperf record", source)
	case !slices.Contains(licenses, ask.License):
		return nil, fmt.Errorf("%s has the license %q: the program that counts samples calls functions of the kernel that need one that is compatible with the GPL, such as Dual BSD/GPL",
			source, printable.Text(ask.License))
	case btf.FuncMetadata(&ask.Instructions[0]) == nil:
		return nil, fmt.Errorf("%s has no BTF: compile it with -g", source)
	}
	return ask, nil
}
