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
}

// Topology maps each online CPU to its location.
type Topology map[int]Location

// CoreID, DieID, SocketID and NodeID return perf's name for a part of the machine.
func (l Location) CoreID() string   { return fmt.Sprintf("S%d-D%d-C%d", l.Socket, l.Die, l.Core) }
func (l Location) DieID() string    { return fmt.Sprintf("S%d-D%d", l.Socket, l.Die) }
func (l Location) SocketID() string { return fmt.Sprintf("S%d", l.Socket) }
func (l Location) NodeID() string   { return fmt.Sprintf("N%d", l.Node) }

// ReadTopology reads the topology from sysfs, which the caller passes as os.DirFS("/sys")
// (https://docs.kernel.org/admin-guide/cputopology.html).
//
// An ID that the machine does not describe is 0, because there is only one such part: dies before Linux 5.2 and on arm64, nodes without
// CONFIG_NUMA, and the numbers -1 that firmware without a description leaves.
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
		for name, field := range map[string]*int{"core_id": &l.Core, "die_id": &l.Die, "physical_package_id": &l.Socket} {
			if *field, err = readID(sys, dir+name); err != nil {
				return nil, err
			}
		}
		topology[cpu] = l
	}
	return topology, nil
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
