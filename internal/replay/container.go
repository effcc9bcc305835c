package replay

import (
	"regexp"
	"strings"
	"sync"
)

// containerID is how container engines name the cgroup of a container: by an ID of 64 digits, alone (docker and Kubernetes with the driver cgroupfs), or
// between the engine's name and .scope (with systemd: docker-ID.scope, cri-containerd-ID.scope, crio-ID.scope, libpod-ID.scope).
// It is compiled when it is needed, as every start of bperf would wait for it.
var containerID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:[a-z-]+-)?([0-9a-f]{64})(?:\.scope)?$`) })

// containerOf is the ID, as engines shorten it, of the container that a cgroup belongs to; empty if it is none that is known.
func containerOf(cgroup string) string {
	for part := range strings.SplitSeq(cgroup, "/") {
		if m := containerID().FindStringSubmatch(part); m != nil {
			return m[1][:12]
		}
	}
	return ""
}
