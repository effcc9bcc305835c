package sample

import (
	"fmt"

	"github.com/cilium/ebpf/asm"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/filter"
	"github.com/bperf/bperf/internal/record"
)

// takeFilters are the filters of events as code for the program that counts. The events are replaced by others without, whose samples have what the
// filters read.
func takeFilters(list *event.List) ([]asm.Instructions, error) {
	var code []asm.Instructions
	var events event.List
	for _, group := range *list {
		copied := group
		copied.Events = nil
		for _, e := range group.Events {
			with := *e
			var instructions asm.Instructions
			if e.Filter != "" && e.Tracepoint == "" { // those of tracepoints are for the kernel to read
				parsed, err := filter.Parse(e.Filter)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", e.Name, err)
				}
				if instructions, err = parsed.Function(); err != nil {
					return nil, &record.FilterError{Err: fmt.Errorf("%s: %w", e.Name, err)}
				}
				with.Filter = ""
				with.Attr.SampleType |= parsed.SampleType()
			}
			code = append(code, instructions)
			copied.Events = append(copied.Events, &with)
		}
		events = append(events, copied)
	}
	*list = events
	return code, nil
}
