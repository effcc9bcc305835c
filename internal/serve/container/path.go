package container

import (
	"strings"

	"github.com/bperf/bperf/internal/pattern"
)

// A container's ID is 64 hexadecimal digits in all runtimes. A pod's UID is a UUID; for static pods it is a hash of 32 digits.
const (
	idPattern  = `([0-9a-f]{64})`
	uidPattern = `([0-9a-f]{32}|[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})`
)

var (
	// A scope that a runtime asked systemd for. libpod-conmon-ID.scope and crio-conmon-ID.scope, which watch a container, do not match.
	scopeOf = pattern.Lazy(`^(?:cri-containerd|crio|docker|libpod|nerdctl)-` + idPattern + `\.scope$`)
	// A container's directory where the runtime makes cgroups itself (driver cgroupfs).
	directoryOf = pattern.Lazy(`^(?:crio-|libpod-)?` + idPattern + `$`)
	// containerd with the kubelet's driver systemd, but its own driver cgroupfs.
	mixedOf = pattern.Lazy(`^[a-z0-9-]*kubepods[a-z0-9-]*-pod` + uidPattern + `\.slice:cri-containerd:` + idPattern + `$`)

	podSlice     = pattern.Lazy(`^[a-z0-9-]*kubepods[a-z0-9-]*-pod` + uidPattern + `\.slice$`)
	podDirectory = pattern.Lazy(`^pod` + uidPattern + `$`)
)

// Parse returns the container that the cgroup with a path belongs to, or else the unit of systemd. The result has the path of that
// container's or unit's own cgroup, which is the given one or above it; of a container also its ID and, in Kubernetes, the UID of its pod.
// A unit has neither. Parse returns false for a cgroup that belongs to nothing, such as the root.
//
// Cgroups below a container's belong to it, even if they look like those of other containers: a container may name its own cgroups as it
// likes. A cgroup without a container belongs to the outermost service (.service) that it is in, and without one to the innermost slice
// (.slice). So every cgroup belongs to at most one of them.
func Parse(path string) (Name, bool) {
	var service, slice, uid, parent string
	inPods := false                                   // below a cgroup whose name contains kubepods
	ofUser := strings.HasPrefix(path, "/user.slice/") // whose names users choose: no pods of the kubelet
	end := 0
	for part := range strings.SplitAfterSeq(path, "/") {
		segment := strings.TrimSuffix(part, "/")
		start := end
		end += len(part)
		own := path[:start+len(segment)]
		if segment == "" {
			continue
		}
		if m := mixedOf().FindStringSubmatch(segment); m != nil {
			if !ofUser {
				uid = hyphens(m[1])
			}
			return Name{Path: own, ID: m[2], PodUID: uid}, true
		}
		if m := scopeOf().FindStringSubmatch(segment); m != nil {
			return Name{Path: own, ID: m[1], PodUID: uid}, true
		}
		if m := directoryOf().FindStringSubmatch(segment); m != nil && (uid != "" || isRuntime(parent)) {
			return Name{Path: own, ID: m[1], PodUID: uid}, true
		}
		if m := podSlice().FindStringSubmatch(segment); m != nil && !ofUser {
			uid = hyphens(m[1])
		}
		inPods = inPods || strings.Contains(segment, "kubepods")
		if m := podDirectory().FindStringSubmatch(segment); m != nil && inPods && !ofUser {
			uid = hyphens(m[1])
		}
		switch {
		case service == "" && strings.HasSuffix(segment, ".service"):
			service = own
		case strings.HasSuffix(segment, ".slice"):
			slice = own
		}
		parent = segment
	}
	if service == "" {
		service = slice
	}
	return Name{Path: service}, service != ""
}

// isRuntime reports whether a runtime makes its containers' cgroups in a cgroup with this name, without Kubernetes.
func isRuntime(name string) bool {
	switch name {
	case "docker", "libpod_parent", "machine.slice", "buildkit":
		return true
	}
	return false
}

// hyphens returns a pod's UID as Kubernetes writes it. In the name of a slice, a hyphen would separate slices, so it is an underscore there.
func hyphens(uid string) string { return strings.ReplaceAll(uid, "_", "-") }
