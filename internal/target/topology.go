package target

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/bperf/bperf/internal/procfs"
)

// Location is where a CPU sits. Cores are numbered within their socket, not across the machine.
type Location struct {
	Core   int
	Die    int
	Socket int // physical package
	Node   int // NUMA node

	Cluster    int // cores that share resources such as a cache, within a die (Linux 5.16)
	CacheLevel int // of Cache; 0 before ReadCaches
	Cache      int // the first CPU of those that share the cache of CacheLevel
}

// Topology maps each online CPU to its location.
type Topology map[int]Location

// CoreID, ClusterID, CacheID, DieID, SocketID and NodeID return perf's name for a part of the machine.
func (l Location) CoreID() string { return fmt.Sprintf("S%d-D%d-C%d", l.Socket, l.Die, l.Core) }
func (l Location) ClusterID() string {
	return fmt.Sprintf("S%d-D%d-CLS%d", l.Socket, l.Die, l.Cluster)
}
func (l Location) CacheID() string {
	return fmt.Sprintf("S%d-D%d-L%d-ID%d", l.Socket, l.Die, l.CacheLevel, l.Cache)
}
func (l Location) DieID() string    { return fmt.Sprintf("S%d-D%d", l.Socket, l.Die) }
func (l Location) SocketID() string { return fmt.Sprintf("S%d", l.Socket) }
func (l Location) NodeID() string   { return fmt.Sprintf("N%d", l.Node) }

// ReadTopology reads the topology from sysfs, which the caller passes as os.DirFS("/sys")
// (https://docs.kernel.org/admin-guide/cputopology.html).
//
// An ID that the machine does not describe is 0, because there is only one such part: dies before Linux 5.2 and on arm64, clusters before
// Linux 5.16, nodes without CONFIG_NUMA, and the numbers -1 that firmware without a description leaves.
func ReadTopology(sys fs.FS) (Topology, error) {
	cpus, err := procfs.CPUs(sys, "online")
	if err != nil {
		return nil, fmt.Errorf("read the topology: %w", err)
	}
	nodes, err := readNodes(sys)
	if err != nil {
		return nil, err
	}
	topology := make(Topology, len(cpus))
	for _, cpu := range cpus {
		l := Location{Node: nodes[cpu]}
		dir := fmt.Sprintf("devices/system/cpu/cpu%d/topology/", cpu)
		for name, field := range map[string]*int{"core_id": &l.Core, "die_id": &l.Die, "cluster_id": &l.Cluster, "physical_package_id": &l.Socket} {
			if *field, err = readID(sys, dir+name); err != nil {
				return nil, err
			}
		}
		topology[cpu] = l
	}
	return topology, nil
}

// MaxCacheLevel is the highest level of caches.
const MaxCacheLevel = 4

// ReadCaches adds the data or unified caches of a level to the CPUs of a topology. Level 0 is the highest level of each CPU. It returns an error
// if the machine does not describe such a cache of every CPU, as in many virtual machines.
func (t Topology) ReadCaches(sys fs.FS, level int) error {
	for cpu, l := range t {
		var err error
		if l.CacheLevel, l.Cache, err = readCache(sys, cpu, level); err != nil {
			return err
		}
		t[cpu] = l
	}
	return nil
}

// readCache returns the level of a CPU's cache and the first CPU that shares it.
func readCache(sys fs.FS, cpu, level int) (found, first int, err error) {
	dir := fmt.Sprintf("devices/system/cpu/cpu%d/cache", cpu)
	indexes, err := fs.Glob(sys, dir+"/index[0-9]*")
	if err != nil {
		return 0, 0, err
	}
	for _, index := range indexes {
		kind, err := fs.ReadFile(sys, index+"/type")
		if err != nil {
			return 0, 0, fmt.Errorf("read the caches: %w", err)
		}
		at, err := readID(sys, index+"/level")
		if err != nil {
			return 0, 0, err
		}
		if strings.TrimSpace(string(kind)) == "Instruction" || at <= found || level != 0 && at != level {
			continue
		}
		list, err := fs.ReadFile(sys, index+"/shared_cpu_list")
		if err != nil {
			return 0, 0, fmt.Errorf("read the caches: %w", err)
		}
		cpus, err := procfs.ParseCPUList(string(list))
		if err != nil || len(cpus) == 0 {
			return 0, 0, fmt.Errorf("read the caches: /sys/%s: it is shared by %q, which is no list of CPUs", index, list)
		}
		found, first = at, cpus[0]
	}
	if found == 0 && level != 0 {
		return 0, 0, fmt.Errorf("CPU %d has no cache of level %d in /sys/%s: choose another level", cpu, level, dir)
	}
	if found == 0 {
		return 0, 0, fmt.Errorf("the kernel describes no cache of CPU %d in /sys/%s (a virtual machine without them?)", cpu, dir)
	}
	return found, first, nil
}

func readID(sys fs.FS, name string) (int, error) {
	text, err := fs.ReadFile(sys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the topology: %w", err)
	}
	value := strings.TrimSpace(string(text))
	if value == "-1" {
		return 0, nil
	}
	id, err := strconv.ParseUint(value, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("read the topology: /sys/%s: %q is not a number", name, value)
	}
	return int(id), nil
}

// readNodes returns the NUMA node of each CPU.
func readNodes(sys fs.FS) (map[int]int, error) {
	files, err := fs.Glob(sys, "devices/system/node/node[0-9]*/cpulist")
	if err != nil {
		return nil, err
	}
	nodes := make(map[int]int)
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(file, "devices/system/node/node"), "/cpulist")
		node, err := strconv.Atoi(name)
		if err != nil {
			return nil, fmt.Errorf("read the topology: /sys/%s: %w", file, err)
		}
		list, err := fs.ReadFile(sys, file)
		if err != nil {
			return nil, fmt.Errorf("read the topology: %w", err)
		}
		if strings.TrimSpace(string(list)) == "" {
			continue // the node has memory but no CPU
		}
		cpus, err := procfs.ParseCPUList(string(list))
		if err != nil {
			return nil, fmt.Errorf("read the topology: /sys/%s: %w", file, err)
		}
		for _, cpu := range cpus {
			nodes[cpu] = node
		}
	}
	return nodes, nil
}
