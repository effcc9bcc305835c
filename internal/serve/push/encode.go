package push

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"slices"

	"github.com/google/pprof/profile"

	"github.com/bperf/bperf/internal/report"
	"github.com/bperf/bperf/internal/serve/push/otlp"
)

// requestSize is the size at which a request is complete and the next one begins, in bytes before compression. Servers limit requests to
// a few megabytes.
const requestSize = 1 << 20

// encodeOTLP returns requests with a resource for each container.
func encodeOTLP(n *Node, b *Batch) (all []request, err error) {
	var profiles uint64
	out := otlp.New()
	flush := func() {
		if profiles > 0 {
			all = append(all, request{body: out.Bytes(), items: profiles})
		}
		profiles, out = 0, otlp.New()
	}
	for i := range b.Profiles {
		p := &b.Profiles[i]
		if len(p.Profile.Samples()) == 0 {
			continue
		}
		out.Add(n.resource(&p.Container), p.Profile, b.Start, b.Length)
		profiles++
		if out.Size() >= requestSize {
			flush()
		}
	}
	flush()
	return all, nil
}

// metricsPart is the number of values of a metric after which a request may be complete.
const metricsPart = 1000

// encodeMetrics returns requests with metrics.
func encodeMetrics(n *Node, b *Batch) (all []request, err error) {
	begin := func() *otlp.Metrics { return otlp.NewMetrics(n.daemon(), b.Began, b.Start.Add(b.Length)) }
	out := begin()
	flush := func() {
		if out.Points() > 0 {
			all = append(all, request{body: out.Bytes(), items: out.Points()})
		}
		out = begin()
	}
	for _, family := range b.Metrics {
		for part := range slices.Chunk(family.GetMetric(), metricsPart) {
			out.Add(family, part)
			if out.Size() >= requestSize {
				flush()
			}
		}
	}
	flush()
	return all, nil
}

// checkOTLP reads ExportProfilesServiceResponse or ExportMetricsServiceResponse, which may say that the server rejected something.
func checkOTLP(content string, body []byte) (rejected uint64, why string, err error) {
	kind, _, _ := mime.ParseMediaType(content)
	if len(body) == 0 {
		return 0, "", nil
	}
	if kind != "application/x-protobuf" && kind != "application/protobuf" {
		return 0, "", fmt.Errorf("the answer is of type %q, which is not that of OTLP: is this the port for OTLP over HTTP?",
			otlp.Label(content))
	}
	partial, ok := protobufField(body, 1)
	if !ok {
		return 0, "", errors.New("the answer is no protobuf message")
	}
	count, ok := protobufField(partial, 1)
	text, sound := protobufField(partial, 2)
	if !ok || !sound {
		return 0, "", errors.New("the answer is no protobuf message")
	}
	if len(count) > 0 {
		rejected, _ = binary.Uvarint(count)
	}
	return rejected, otlp.Label(string(text)), nil
}

// protobufField returns a field of a message: its bytes, or if it is a number the bytes of that. It returns nothing for a field that is not
// there, and false for what is not a message.
func protobufField(data []byte, wanted uint64) (found []byte, ok bool) {
	for len(data) > 0 {
		tag, n := binary.Uvarint(data)
		if n <= 0 {
			return nil, false
		}
		data = data[n:]
		var size int
		switch tag & 7 {
		case 0:
			_, size = binary.Uvarint(data)
		case 1:
			size = 8
		case 2:
			length, n := binary.Uvarint(data)
			if n <= 0 || length > uint64(len(data)-n) {
				return nil, false
			}
			data, size = data[n:], int(length)
		case 5:
			size = 4
		}
		if size < 0 || size > len(data) || size == 0 && tag&7 != 2 {
			return nil, false
		}
		if tag>>3 == wanted {
			found = data[:size]
		}
		data = data[size:]
	}
	return found, true
}

// pprofSeries is the profile of one event of a container.
type pprofSeries struct {
	labels []label
	pprof  []byte // compressed
}

type rawSample struct {
	RawProfile []byte `json:"rawProfile"`
}

// encodePyroscope returns push.v1.PushRequest in the JSON form of protobuf.
func encodePyroscope(n *Node, b *Batch) ([]request, error) {
	type series struct {
		Labels  []label     `json:"labels"`
		Samples []rawSample `json:"samples"`
	}
	return encodeSeries(n, b, func(s *pprofSeries) any { return series{s.labels, []rawSample{{s.pprof}}} })
}

// encodeParca returns parca.profilestore.v1alpha1.WriteRawRequest in the JSON form of protobuf.
func encodeParca(n *Node, b *Batch) ([]request, error) {
	type labelSet struct {
		Labels []label `json:"labels"`
	}
	type series struct {
		Labels  labelSet    `json:"labels"`
		Samples []rawSample `json:"samples"`
	}
	return encodeSeries(n, b, func(s *pprofSeries) any { return series{labelSet{s.labels}, []rawSample{{s.pprof}}} })
}

// encodeSeries returns requests with a profile in pprof's format for each container and event.
func encodeSeries(n *Node, b *Batch, form func(*pprofSeries) any) (all []request, err error) {
	var series []any
	var size int
	var profiles uint64
	flush := func() error {
		if len(series) == 0 {
			return nil
		}
		body, err := json.Marshal(map[string]any{"series": series})
		all = append(all, request{body: body, items: profiles})
		series, size, profiles = nil, 0, 0
		return err
	}
	for i := range b.Profiles {
		p := &b.Profiles[i]
		for event, e := range p.Profile.Events {
			if e.Samples == 0 {
				continue
			}
			name, _ := otlp.SampleType(e)
			if e.IsCPUTime() {
				name = "process_cpu" // as Go's profiles of CPU time are called there
			}
			data, err := encodePprof(b, p, event)
			if err != nil {
				return nil, err
			}
			series = append(series, form(&pprofSeries{n.labels(name, &p.Container), data}))
			size += len(data)
		}
		if len(series) > 0 {
			profiles++
		}
		if size >= requestSize {
			if err := flush(); err != nil {
				return nil, err
			}
		}
	}
	return all, flush()
}

// encodePprof returns one event of a profile in pprof's format, with texts and names that servers accept.
func encodePprof(b *Batch, p *Profile, event int) ([]byte, error) {
	out, err := report.Pprof(p.Profile, &report.Options{}, event)
	if err != nil {
		return nil, err
	}
	kind := out.SampleType[1]
	kind.Type, kind.Unit = otlp.SampleType(p.Profile.Events[event])
	out.DefaultSampleType, out.PeriodType, out.Period = kind.Type, kind, max(1, out.Period)
	out.TimeNanos, out.DurationNanos = b.Start.UnixNano(), b.Length.Nanoseconds()
	cleanPprof(out)
	var data bytes.Buffer
	if err := out.Write(&data); err != nil {
		return nil, err
	}
	return data.Bytes(), nil
}

func cleanPprof(p *profile.Profile) {
	for _, f := range p.Function {
		f.Name, f.SystemName, f.Filename = otlp.Text(f.Name), otlp.Text(f.SystemName), otlp.Text(f.Filename)
	}
	for _, m := range p.Mapping {
		m.File, m.BuildID = otlp.Text(m.File), otlp.Text(m.BuildID)
	}
	for i := range p.Comments {
		p.Comments[i] = otlp.Text(p.Comments[i])
	}
	for _, s := range p.Sample {
		labels := make(map[string][]string, len(s.Label))
		for key, values := range s.Label {
			for _, v := range values {
				labels[otlp.Label(key)] = append(labels[otlp.Label(key)], otlp.Label(v))
			}
		}
		s.Label = labels
	}
}

// checkJSON reads the answers of Pyroscope and Parca, which are empty messages.
func checkJSON(content string, body []byte) (rejected uint64, why string, err error) {
	if len(body) == 0 {
		return 0, "", nil
	}
	if kind, _, _ := mime.ParseMediaType(content); kind != "application/json" {
		return 0, "", fmt.Errorf("the answer is of type %q, not JSON: is this the server's address?", otlp.Label(content))
	}
	if !json.Valid(body) {
		return 0, "", errors.New("the answer is no JSON")
	}
	return 0, "", nil
}
