package cli

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/bperf/bperf/perfdata"
)

func TestSocketFilter(t *testing.T) {
	open := func(fields perfdata.SampleType) *perfdata.Reader {
		var file bytes.Buffer
		w, err := perfdata.NewPipeWriter(&file, perfdata.Options{
			Events: []*perfdata.Event{{Name: "cycles", IDs: []uint64{1}, Attr: perfdata.Attr{SampleType: fields}}},
			StartFeatures: map[perfdata.FeatureID]perfdata.FeatureValue{
				perfdata.FeatureNRCPUs: perfdata.NRCPUs{Online: 4, Available: 4},
				perfdata.FeatureCPUTopology: perfdata.CPUTopology{Packages: []string{"0,2", "1,3"}, Cores: []string{"0", "1", "2", "3"},
					CPUs: []perfdata.CPUPlace{{Core: 0, Socket: 0}, {Core: 0, Socket: 1}, {Core: 1, Socket: 0}, {Core: 1, Socket: 1}}},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := perfdata.NewPipeReader(&file)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	with, without := perfdata.SampleIP|perfdata.SampleCPU, perfdata.SampleIP
	for _, tt := range []struct {
		fields perfdata.SampleType
		flags  filterFlags
		cpus   []int
		err    string
	}{
		{with, filterFlags{socket: "0"}, []int{0, 2}, ""},
		{with, filterFlags{socket: "1"}, []int{1, 3}, ""},
		{with, filterFlags{socket: "1", cpus: "2-3"}, []int{3}, ""},
		{with, filterFlags{cpus: "2-3"}, []int{2, 3}, ""},
		{with, filterFlags{socket: "1", cpus: "0,2"}, nil, "no such CPU on that socket"},
		{with, filterFlags{socket: "2"}, nil, "no such CPU on that socket"},
		{with, filterFlags{socket: "-1"}, nil, "not the number of a socket"},
		{without, filterFlags{socket: "0"}, nil, "record with --sample-cpu"},
	} {
		filter, err := tt.flags.filter(open(tt.fields))
		if !slices.Equal(filter.CPUs, tt.cpus) || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%+v: CPUs %v, %v; want %v, %q", tt.flags, filter.CPUs, err, tt.cpus, tt.err)
		}
	}
}
