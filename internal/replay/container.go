package replay

import (
	"strings"

	"github.com/bperf/bperf/internal/pattern"
)

// containerID matches the cgroup name that container engines give a container: an ID of 64 digits, alone (docker and Kubernetes with the
// driver cgroupfs), or between the engine's name and .scope (with systemd: docker-ID.scope, cri-containerd-ID.scope, crio-ID.scope,
// libpod-ID.scope). It is compiled on first use, because otherwise every start of bperf would wait for it.
var containerID = pattern.Lazy(`^(?:[a-z-]+-)?([0-9a-f]{64})(?:\.scope)?$`)

// containerOf returns the ID of the container that a cgroup belongs to, shortened as engines do. It is empty without a known container.
func containerOf(cgroup string) string {
	for part := range strings.SplitSeq(cgroup, "/") {
		if m := containerID().FindStringSubmatch(part); m != nil {
			return m[1][:12]
		}
	}
	return ""
}
