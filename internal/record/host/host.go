// Package host describes the machine in the features of a recording: hardware, kernel, PMUs and the formats of tracepoints.
package host

import (
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/perfdata"
)

// Features are features of a recording by ID.
type Features map[perfdata.FeatureID]perfdata.FeatureValue

// text adds a feature unless the text is empty.
func (f Features) text(id perfdata.FeatureID, s string) {
	if s != "" {
		f[id] = perfdata.Text(s)
	}
}

// System returns the architecture, the host name and the kernel release. root is the root directory of the machine. It leaves out what it
// cannot read.
func System(root fs.FS) Features {
	m := machineReader{root}
	f := Features{perfdata.FeatureArch: perfdata.Text(uname())}
	f.text(perfdata.FeatureHostname, m.text("proc/sys/kernel/hostname"))
	f.text(perfdata.FeatureOSRelease, m.text("proc/sys/kernel/osrelease"))
	return f
}

// Machine returns the features with which perf describes a machine, including those of System. root is the root directory of the machine. It
// leaves out what it cannot read.
func Machine(root fs.FS) Features {
	m, f := machineReader{root}, System(root)
	info := procfs.ReadCPUInfo(procfs.Proc(root))
	f.text(perfdata.FeatureCPUDesc, description(info))
	f.text(perfdata.FeatureCPUID, info.ID(procfs.Sys(root), 0))
	online, available := m.cpus("online"), m.cpus("present")
	if len(available) > 0 {
		f[perfdata.FeatureNRCPUs] = perfdata.NRCPUs{Available: uint32(len(available)), Online: uint32(len(online))}
		f[perfdata.FeatureCPUTopology] = m.topology(available)
	}
	if total := m.memory("proc/meminfo", "MemTotal"); total > 0 {
		f[perfdata.FeatureTotalMem] = perfdata.TotalMem(total)
	}
	if nodes := m.nodes(); len(nodes) > 0 {
		f[perfdata.FeatureNUMATopology] = nodes
	}
	if caches := m.caches(online); len(caches) > 0 {
		f[perfdata.FeatureCache] = caches
	}
	if pmus := m.pmus(); len(pmus) > 0 {
		f[perfdata.FeaturePMUMappings] = pmus
	}
	if memory, ok := m.memoryBlocks(); ok {
		f[perfdata.FeatureMemTopology] = memory
	}
	m.caps(f)
	return f
}

// uname returns the machine name, like uname -m.
func uname() string {
	switch runtime.GOARCH {
	case "amd64":
		return "x86_64"
	case "arm64":
		return "aarch64"
	}
	return runtime.GOARCH
}

type machineReader struct{ root fs.FS }

func (m machineReader) text(name string) string {
	b, err := fs.ReadFile(m.root, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func (m machineReader) number(name string) (uint64, bool) {
	n, err := strconv.ParseUint(m.text(name), 10, 64)
	return n, err == nil
}

func (m machineReader) cpus(which string) []int {
	list, _ := procfs.CPUs(procfs.Sys(m.root), which) // empty if it cannot be read
	return list
}

// description returns the CPU's model name with single spaces. Architectures differ in the field that has it.
func description(c procfs.CPUInfo) string {
	for _, key := range []string{"model name", "Processor"} {
		if c[key] != "" {
			return strings.Join(strings.Fields(c[key]), " ")
		}
	}
	return ""
}

// topology returns which CPUs share a package, a die and a core (https://docs.kernel.org/admin-guide/cputopology.html). The kernel
// has none for offline CPUs.
func (m machineReader) topology(cpus []int) perfdata.CPUTopology {
	var t perfdata.CPUTopology
	add := func(to *[]string, list string) {
		if list != "" && !slices.Contains(*to, list) {
			*to = append(*to, list)
		}
	}
	id := func(name string) uint32 {
		n, _ := m.number(name) // -1 from firmware without the information becomes 0
		return uint32(n)
	}
	for _, cpu := range cpus {
		dir := fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/", cpu)
		add(&t.Packages, m.text(dir+"core_siblings_list"))
		add(&t.Cores, m.text(dir+"thread_siblings_list"))
		add(&t.Dies, m.text(dir+"die_cpus_list"))
		t.CPUs = append(t.CPUs, perfdata.CPUPlace{Core: id(dir + "core_id"), Socket: id(dir + "physical_package_id"), Die: id(dir + "die_id")})
	}
	return t
}

// memory returns a value of a file like /proc/meminfo in KiB, and 0 if it is missing.
func (m machineReader) memory(name, key string) uint64 {
	for line := range strings.Lines(m.text(name)) {
		before, value, _ := strings.Cut(line, ":")
		if before != key && !strings.HasSuffix(before, " "+key) {
			continue
		}
		n, _ := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		return n
	}
	return 0
}

func (m machineReader) nodes() perfdata.NUMATopology {
	var nodes perfdata.NUMATopology
	for _, id := range m.nodeIDs() {
		dir := fmt.Sprintf("sys/devices/system/node/node%d/", id)
		nodes = append(nodes, perfdata.NUMANode{Node: uint32(id), MemTotal: m.memory(dir+"meminfo", "MemTotal"),
			MemFree: m.memory(dir+"meminfo", "MemFree"), CPUs: m.text(dir + "cpulist")})
	}
	return nodes
}

// nodeIDs returns the NUMA nodes that are online, in ascending order.
func (m machineReader) nodeIDs() []int {
	list, _ := procfs.ParseCPUList(m.text("sys/devices/system/node/online")) // empty if it cannot be read
	return list
}

// caches returns the CPUs' caches, each of them once (Documentation/ABI/testing/sysfs-devices-system-cpu).
func (m machineReader) caches(cpus []int) perfdata.Caches {
	var all perfdata.Caches
	for _, cpu := range cpus {
		for index := 0; ; index++ {
			dir := fmt.Sprintf("sys/devices/system/cpu/cpu%d/cache/index%d/", cpu, index)
			level, ok := m.number(dir + "level")
			if !ok {
				break
			}
			number := func(name string) uint32 {
				n, _ := m.number(dir + name)
				return uint32(n)
			}
			c := perfdata.Cache{Level: uint32(level), LineSize: number("coherency_line_size"), Sets: number("number_of_sets"),
				Ways: number("ways_of_associativity"), Type: m.text(dir + "type"), Size: m.text(dir + "size"), CPUs: m.text(dir + "shared_cpu_list")}
			if !slices.Contains(all, c) {
				all = append(all, c)
			}
		}
	}
	return all
}

const devices = "sys/bus/event_source/devices"

func (m machineReader) pmus() perfdata.PMUMappings {
	entries, _ := fs.ReadDir(m.root, devices) // none if it cannot be read
	var all perfdata.PMUMappings
	for _, e := range entries {
		if n, ok := m.number(path.Join(devices, e.Name(), "type")); ok {
			all = append(all, perfdata.PMUMapping{Type: uint32(n), Name: e.Name()})
		}
	}
	return all
}

// caps adds the capabilities of PMUs: a feature for the CPU's, and one for all others.
func (m machineReader) caps(f Features) {
	var others perfdata.PMUCaps
	entries, _ := fs.ReadDir(m.root, devices)
	for _, e := range entries {
		dir := path.Join(devices, e.Name(), "caps")
		files, _ := fs.ReadDir(m.root, dir)
		var caps []perfdata.PMUCap
		for _, file := range files {
			caps = append(caps, perfdata.PMUCap{Name: file.Name(), Value: m.text(path.Join(dir, file.Name()))})
		}
		switch {
		case len(caps) == 0:
		case e.Name() == "cpu":
			f[perfdata.FeatureCPUPMUCaps] = perfdata.CPUPMUCaps(caps)
		default:
			others = append(others, perfdata.OnePMUCaps{PMU: e.Name(), Caps: caps})
		}
	}
	if len(others) > 0 {
		f[perfdata.FeaturePMUCaps] = others
	}
}

// memoryBlocks returns which memory blocks each node has (Documentation/ABI/testing/sysfs-devices-memory).
func (m machineReader) memoryBlocks() (t perfdata.MemTopology, ok bool) {
	size, err := strconv.ParseUint(m.text("sys/devices/system/memory/block_size_bytes"), 16, 64)
	if err != nil {
		return t, false
	}
	t.BlockSize = size
	for _, id := range m.nodeIDs() {
		entries, _ := fs.ReadDir(m.root, fmt.Sprintf("sys/devices/system/node/node%d", id))
		node := perfdata.MemNode{Node: uint64(id)}
		for _, e := range entries {
			number, isBlock := strings.CutPrefix(e.Name(), "memory")
			block, err := strconv.ParseUint(number, 10, 32)
			const most = 1 << 20 // blocks: more than any machine has
			if !isBlock || err != nil || block >= most {
				continue
			}
			for uint64(len(node.Blocks)) <= block/64 {
				node.Blocks = append(node.Blocks, 0)
			}
			node.Blocks[block/64] |= 1 << (block % 64)
			node.Size = max(node.Size, block+1)
		}
		t.Nodes = append(t.Nodes, node)
	}
	return t, len(t.Nodes) > 0
}
