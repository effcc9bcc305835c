package push

import (
	"path"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/serve/container"
	"github.com/bperf/bperf/internal/serve/push/otlp"
)

// Node is the machine that the profiles are of.
type Node struct {
	Name string // of the node in its cluster, or else of the host
	ID   string // of the host, as in /etc/machine-id; "" if unknown
}

// Batch has the profiles of one window of time, or metrics at its end.
type Batch struct {
	Start    time.Time
	Length   time.Duration
	Profiles []Profile

	Metrics []*dto.MetricFamily
	Began   time.Time // the counters of Metrics were 0 then
}

// items returns the number of profiles, and of values of metrics.
func (b *Batch) items() (n uint64) {
	for _, family := range b.Metrics {
		n += uint64(len(family.GetMetric()))
	}
	return n + uint64(len(b.Profiles))
}

// Profile is what a container did in the window. With a name that has neither an ID nor a path, it is what no container did.
type Profile struct {
	Container container.Name
	Profile   *profile.Profile // Push only reads it, and keeps no reference
}

// service returns the name under which servers list a profile: that of the container, or of a service of the system, or "node".
func service(n *container.Name) string {
	base := path.Base(n.Path)
	switch {
	case n.Container != "":
		return n.Container
	case n.Pod != "":
		return n.Pod
	case n.ID != "":
		return n.ID[:min(12, len(n.ID))] // as container runtimes show it
	case base != "." && base != "/":
		return base
	}
	return "node"
}

// resource returns the attributes of a container, with OpenTelemetry's names.
func (n *Node) resource(c *container.Name) []otlp.Attribute {
	all := []otlp.Attribute{{Key: "service.name", Value: service(c)}}
	add := func(key, value string) {
		if value != "" {
			all = append(all, otlp.Attribute{Key: key, Value: value})
		}
	}
	add("container.id", c.ID)
	add("k8s.pod.uid", c.PodUID)
	add("k8s.namespace.name", c.Namespace)
	add("k8s.pod.name", c.Pod)
	add("k8s.container.name", c.Container)
	if c.PodUID != "" {
		add("k8s.node.name", n.Name)
	}
	add("host.name", n.Name)
	add("host.id", n.ID)
	return all
}

// daemon returns the attributes of bperf itself, with OpenTelemetry's names.
func (n *Node) daemon() []otlp.Attribute {
	all := n.resource(&container.Name{})
	all[0].Value = "bperf"
	return all
}

// label is a label of Pyroscope and Parca, in the JSON of both.
type label struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// labels returns the labels of a container's profile, sorted by name. name is the kind of profile.
func (n *Node) labels(name string, c *container.Name) (all []label) {
	for _, l := range []label{
		{"__name__", name}, {"container", c.Container}, {"container_id", c.ID}, {"namespace", c.Namespace}, {"node", n.Name},
		{"pod", c.Pod}, {"pod_uid", c.PodUID}, {"service_name", service(c)},
	} {
		if l.Value != "" {
			all = append(all, label{l.Name, otlp.Label(l.Value)})
		}
	}
	return all
}
