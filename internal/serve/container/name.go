// Package container finds the containers and pods of a node, from the paths of cgroups, and from the names of the directories in which the
// kubelet keeps logs. It asks no API; others may add names.
package container

// Name says which container a cgroup is. Fields that are not known are empty.
type Name struct {
	Cgroup    uint64 // ID of the cgroup: the number of its inode
	Path      string // of the cgroup, below the mount point of cgroup v2; begins with "/"
	ID        string // of the container, as its runtime gives it
	PodUID    string // with hyphens
	Namespace string // of the pod
	Pod       string
	Container string // name of the container in its pod
}
