package kubelet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/bperf/bperf/internal/printable"
)

const (
	mostPods       = 2048 // that a list keeps
	mostContainers = 8192 // that a list keeps
	mostName       = 253  // bytes of a name in Kubernetes
	mostID         = 128  // bytes of the UID of a pod, or of the ID of a container
)

// list has the names of pods and their containers.
type list struct {
	pods       map[string]pod         // by UID
	containers map[string]inContainer // by ID
}

// pod has the names of a pod.
type pod struct{ namespace, name string }

// inContainer has the names of a container.
type inContainer struct {
	pod
	name string
}

// podObject has the fields of a Pod (core/v1) that name it and its containers.
type podObject struct {
	Metadata struct{ UID, Namespace, Name string } `json:"metadata"`
	Status   struct {
		Containers          []containerStatus `json:"containerStatuses"`
		InitContainers      []containerStatus `json:"initContainerStatuses"`
		EphemeralContainers []containerStatus `json:"ephemeralContainerStatuses"`
	} `json:"status"`
}

// containerStatus has fields of a ContainerStatus (core/v1).
type containerStatus struct {
	Name        string `json:"name"`
	ContainerID string `json:"containerID"` // RUNTIME://ID; "" until the container exists
}

// decode reads a PodList (core/v1). It fails if the list has more than most bytes. It holds one pod in memory at a time.
func decode(r io.Reader, most int64) (list, error) {
	limited := &io.LimitedReader{R: r, N: most}
	l, err := decodeList(json.NewDecoder(limited))
	if err != nil && limited.N <= 0 {
		err = fmt.Errorf("the answer has more than %d bytes", most)
	}
	if err != nil {
		return list{}, err
	}
	return l, nil
}

// errNoList is the error of an answer that is something else.
var errNoList = errors.New("the answer is not a list of pods")

func decodeList(d *json.Decoder) (list, error) {
	l := list{pods: make(map[string]pod), containers: make(map[string]inContainer)}
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return l, readable(err)
	}
	kind := ""
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return l, readable(err)
		}
		switch key {
		case "kind":
			err = d.Decode(&kind)
		case "items":
			err = l.decodeItems(d)
		default:
			err = d.Decode(new(json.RawMessage))
		}
		if err != nil {
			return l, readable(err)
		}
	}
	if _, err := d.Token(); err != nil || kind != "PodList" {
		return l, readable(err)
	}
	return l, nil
}

// readable returns the error of an answer that cannot be read, or that has another form if err is nil.
func readable(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case err == nil, errors.As(err, &syntax), errors.As(err, &kind), errors.Is(err, errNoList):
		return errNoList
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the answer ends early")
	}
	return err
}

// decodeItems reads the pods of a list. A list without pods may be null.
func (l *list) decodeItems(d *json.Decoder) error {
	begin, err := d.Token()
	if err != nil || begin == nil {
		return err
	}
	if begin != json.Delim('[') {
		return errNoList
	}
	for d.More() {
		var p podObject
		if err := d.Decode(&p); err != nil {
			return err
		}
		l.add(&p)
	}
	_, err = d.Token()
	return err
}

func (l *list) add(p *podObject) {
	if p.Metadata.Namespace == "" || p.Metadata.Name == "" {
		return
	}
	names := pod{printable.Short(p.Metadata.Namespace, mostName), printable.Short(p.Metadata.Name, mostName)}
	if uid := p.Metadata.UID; uid != "" && len(uid) <= mostID && len(l.pods) < mostPods {
		l.pods[uid] = names
	}
	for _, status := range slices.Concat(p.Status.InitContainers, p.Status.Containers, p.Status.EphemeralContainers) {
		_, id, is := strings.Cut(status.ContainerID, "://")
		if is && id != "" && len(id) <= mostID && status.Name != "" && len(l.containers) < mostContainers {
			l.containers[id] = inContainer{names, printable.Short(status.Name, mostName)}
		}
	}
}
