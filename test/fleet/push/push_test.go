// Package push sends profiles as `bperf serve` does, and reads them with the code of the servers' own projects: OpenTelemetry's generated
// types, and the handler that Pyroscope's API generates. It is a module of its own, so that bperf does not depend on theirs.
package push

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	pprof "github.com/google/pprof/profile"
	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/push/v1/pushv1connect"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/profiles/v1development"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/slim/otlp/profiles/v1development"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/serve/container"
	"github.com/bperf/bperf/internal/serve/push"
	"github.com/bperf/bperf/internal/serve/push/pushtest"
	"github.com/bperf/bperf/test/engines"
	"github.com/bperf/bperf/test/fleet/server"
)

var (
	start = time.Unix(1700000000, 5)
	web   = container.Name{Path: "/kubepods/x", ID: "4f2a4f2a4f2a4f2a", PodUID: "1-2-3", Namespace: "shop", Pod: "web-0", Container: "web"}
)

// pushTo sends profiles to a server, and returns what the queue counted.
func pushTo(t *testing.T, cfg push.Config, profiles ...push.Profile) push.Stats {
	t.Helper()
	q, err := push.Open(cfg, push.Node{Name: "node1", ID: "abc"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Push(push.Batch{Start: start, Length: 15 * time.Second, Profiles: profiles}); err != nil {
		t.Error(err)
	}
	if err := q.Close(context.Background()); err != nil {
		t.Error(err)
	}
	return q.Stats()
}

// receive decodes a request, which is compressed.
func receive(t *testing.T, r *http.Request, to proto.Message) {
	z, err := gzip.NewReader(r.Body)
	if err != nil {
		t.Error(err)
		return
	}
	body, err := io.ReadAll(z)
	if err != nil {
		t.Error(err)
	}
	if err := proto.Unmarshal(body, to); err != nil {
		t.Error(err)
	}
}

// TestOTLP decodes a request with OpenTelemetry's own types, and compares it with the profile.
func TestOTLP(t *testing.T) {
	var got collector.ExportProfilesServiceRequest
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		receive(t, r, &got)
		answer, err := proto.Marshal(&collector.ExportProfilesServiceResponse{PartialSuccess: &collector.ExportProfilesPartialSuccess{RejectedProfiles: 1, ErrorMessage: "why"}})
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = w.Write(answer)
	}))
	defer server.Close()
	p, blocked := pushtest.Profile(), pushtest.Blocked()
	s := pushTo(t, push.Config{Kind: "otlp", URL: server.URL}, push.Profile{Container: web, Profile: p}, push.Profile{Profile: blocked})
	if s.Accepted != 1 || s.Dropped[push.Rejected].Items != 1 || !strings.HasSuffix(s.LastError, "why") {
		t.Errorf("stats: %+v", s)
	}
	if len(got.ProtoReflect().GetUnknown()) > 0 {
		t.Error("there are unknown fields")
	}
	if len(got.ResourceProfiles) != 2 {
		t.Fatalf("%d resources", len(got.ResourceProfiles))
	}
	if diff := cmp.Diff(webAttributes, strings.Join(pairs(got.ResourceProfiles[0].Resource.Attributes, nil), " ")); diff != "" {
		t.Errorf("resource (-want +got):\n%s", diff)
	}
	for i, from := range []*profile.Profile{p, blocked} {
		if diff := cmp.Diff(expected(from), samples(t, &got, got.ResourceProfiles[i].ScopeProfiles[0].Profiles)); diff != "" {
			t.Errorf("samples of %d (-profile +request):\n%s", i, diff)
		}
	}
}

// webAttributes are the attributes of the container web.
const webAttributes = "service.name=web container.id=4f2a4f2a4f2a4f2a k8s.pod.uid=1-2-3 k8s.namespace.name=shop k8s.pod.name=web-0 " +
	"k8s.container.name=web k8s.node.name=node1 host.name=node1 host.id=abc"

// pairs returns attributes of a resource. The collector puts those that it writes into the dictionary, whose strings are given.
func pairs(all []*common.KeyValue, dictionary []string) (out []string) {
	for _, a := range all {
		key, value := a.Key, a.GetValue().GetStringValue()
		if a.KeyStrindex != 0 {
			key, value = dictionary[a.KeyStrindex], dictionary[a.GetValue().GetStringValueStrindex()]
		}
		out = append(out, key+"="+value)
	}
	return out
}

// expected describes each sample of a profile, from the profile alone.
func expected(p *profile.Profile) (out []string) {
	for event, e := range p.Events {
		for i := range p.Samples() {
			s := &p.Samples()[i]
			if int(s.Event) != event {
				continue
			}
			line := fmt.Sprintf("%d of %d:", min(s.Value, 1<<63-1), max(1, e.MeanPeriod()))
			for _, id := range p.StackOf(s) {
				f := p.Frames()[id]
				function, module := p.Functions.At(f.Function), p.Modules.At(f.Module)
				name := p.Strings.At(function.Name)
				if f.Function == 0 {
					_, address := p.Mapping(&f)
					name = fmt.Sprintf("%#x", address)
				}
				path, build := p.Strings.At(module.Path), p.Strings.At(module.BuildID)
				kind := map[profile.Kind]string{profile.User: "native", profile.Kernel: "kernel", profile.BPF: "kernel"}[f.Kind]
				if f.Function == 0 && path == "" {
					path = "unknown"
				}
				if f.Kind == profile.BPF {
					program := p.Programs.At(function.Program)
					path, build = "[bpf]", fmt.Sprintf("%s/%s/%d", p.Strings.At(program.Name), p.Strings.At(program.Tag), program.ID)
				}
				line += fmt.Sprintf(" %s:%d(%s %s %s)", name, f.Line, path, build, kind)
			}
			out = append(out, line)
		}
	}
	return out
}

// samples describes each sample of profiles in a request, as expected does.
func samples(t *testing.T, r *collector.ExportProfilesServiceRequest, profiles []*otlp.Profile) (out []string) {
	d := r.Dictionary
	attribute := func(indices []int32, key string) string {
		for _, i := range indices {
			if a := d.AttributeTable[i]; d.StringTable[a.KeyStrindex] == key {
				return a.Value.GetStringValue()
			}
		}
		return ""
	}
	for _, p := range profiles {
		if p.TimeUnixNano != uint64(start.UnixNano()) || p.DurationNano != 15e9 {
			t.Errorf("time %d, duration %d", p.TimeUnixNano, p.DurationNano)
		}
		for _, s := range p.Samples {
			line := fmt.Sprintf("%d of %d:", s.Values[0], p.Period)
			for _, l := range d.StackTable[s.StackIndex].LocationIndices {
				location := d.LocationTable[l]
				mapping := d.MappingTable[location.MappingIndex]
				build := attribute(mapping.AttributeIndices, "process.executable.build_id.gnu")
				if name := attribute(location.AttributeIndices, "bpf.prog.name"); name != "" {
					build = name + "/" + attribute(location.AttributeIndices, "bpf.prog.tag") + "/" + attribute(location.AttributeIndices, "bpf.prog.id")
				}
				in := fmt.Sprintf("(%s %s %s)", d.StringTable[mapping.FilenameStrindex], build, attribute(location.AttributeIndices, "profile.frame.type"))
				for _, f := range location.Lines {
					line += fmt.Sprintf(" %s:%d%s", d.StringTable[d.FunctionTable[f.FunctionIndex].NameStrindex], f.Line, in)
				}
				if len(location.Lines) == 0 {
					line += fmt.Sprintf(" %#x:0%s", location.Address, in)
				}
			}
			out = append(out, line)
		}
	}
	return out
}

// pyroscope is Pyroscope's service, with the handler that its API generates.
type pyroscope struct {
	mu     sync.Mutex
	tenant string
	got    []string
	err    error
}

func (p *pyroscope) Push(_ context.Context, r *connect.Request[pushv1.PushRequest]) (*connect.Response[pushv1.PushResponse], error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tenant = r.Header().Get("X-Scope-OrgID")
	for _, s := range r.Msg.Series {
		var labels []string
		for _, l := range s.Labels {
			labels = append(labels, l.Name+"="+l.Value)
		}
		in, err := pprof.ParseData(s.Samples[0].RawProfile)
		if err != nil {
			return nil, connect.NewError(connect.CodeInvalidArgument, err)
		}
		var total int64
		for _, sample := range in.Sample {
			total += sample.Value[0]
		}
		p.got = append(p.got, fmt.Sprintf("%s %s %d", strings.Join(labels, " "), in.SampleType[1].Type, total))
	}
	if p.err != nil {
		return nil, p.err
	}
	return connect.NewResponse(&pushv1.PushResponse{}), nil
}

func TestPyroscope(t *testing.T) {
	service := &pyroscope{}
	path, handler := pushv1connect.NewPusherServiceHandler(service)
	mux := http.NewServeMux()
	mux.Handle(path, handler)
	server := httptest.NewServer(mux)
	defer server.Close()
	cfg := push.Config{Kind: "pyroscope", URL: server.URL, Tenant: "team"}
	s := pushTo(t, cfg, push.Profile{Container: web, Profile: pushtest.Profile()}, push.Profile{Profile: pushtest.Blocked()})
	if s.Accepted != 2 || s.LastError != "" || service.tenant != "team" {
		t.Errorf("tenant %q, stats: %+v", service.tenant, s)
	}
	names := "container=web container_id=4f2a4f2a4f2a4f2a namespace=shop node=node1 pod=web-0 pod_uid=1-2-3 service_name=web "
	want := []string{"__name__=process_cpu " + names + "cpu 3", "__name__=cycles_u " + names + "cycles_u 2", "__name__=off_cpu node=node1 service_name=node off_cpu 4"}
	if diff := cmp.Diff(want, service.got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}

	service.err = connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("too old"))
	if s := pushTo(t, cfg, push.Profile{Container: web, Profile: pushtest.Profile()}); s.Dropped[push.Refused].Items != 1 || !strings.Contains(s.LastError, "too old") {
		t.Errorf("refused: %+v", s)
	}
}

// collectorConfiguration has a collector write the profiles that it gets to a file.
const collectorConfiguration = `
receivers: {otlp: {protocols: {http: {endpoint: "127.0.0.1:%s"}}}}
exporters: {file: {path: %s, flush_interval: 100ms}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {profiles: {receivers: [otlp], exporters: [file]}}
`

// TestCollector sends profiles to an OpenTelemetry Collector, and compares them with what its file exporter writes.
func TestCollector(t *testing.T) {
	program, err := engines.Get(engines.Collector)
	if err != nil {
		t.Fatal(err)
	}
	dir, port := t.TempDir(), server.FreePort(t)
	file, config := filepath.Join(dir, "profiles.json"), filepath.Join(dir, "collector.yml")
	if err := os.WriteFile(config, fmt.Appendf(nil, collectorConfiguration, port, file), 0o600); err != nil {
		t.Fatal(err)
	}
	s := server.Start(t, exec.Command(program, "--config=file:"+config, "--feature-gates=service.profilesSupport"))
	s.Logged("(Everything is ready)")
	profiles := []push.Profile{{Container: web, Profile: pushtest.Profile()}, {Profile: pushtest.Blocked()}}
	stats := pushTo(t, push.Config{Kind: "otlp", URL: "http://127.0.0.1:" + port}, profiles...)
	if stats.Accepted != uint64(len(profiles)) || stats.LastError != "" {
		t.Errorf("stats: %+v", stats)
	}
	var got collector.ExportProfilesServiceRequest
	server.Await(t, file, func() string { // the exporter writes from time to time
		line, err := os.ReadFile(file)
		if err != nil || !bytes.HasSuffix(line, []byte("\n")) {
			return "no line"
		}
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(line, &got); err != nil {
			t.Fatal(err)
		}
		return ""
	})
	if len(got.ResourceProfiles) != len(profiles) {
		t.Fatalf("%d resources", len(got.ResourceProfiles))
	}
	for i, p := range profiles {
		r := got.ResourceProfiles[i]
		attributes := strings.Join(pairs(r.Resource.Attributes, got.Dictionary.StringTable), " ")
		if i == 0 && attributes != webAttributes || !strings.HasPrefix(attributes, "service.name=") || !strings.HasSuffix(attributes, "host.name=node1 host.id=abc") {
			t.Errorf("resource %d: %s", i, attributes)
		}
		samples := samples(t, &got, r.ScopeProfiles[0].Profiles)
		if diff := cmp.Diff(expected(p.Profile), samples); diff != "" {
			t.Errorf("samples of %d (-profile +collector):\n%s", i, diff)
		}
		t.Logf("%s: %d samples", attributes, len(samples))
	}
}
