package bpfprog

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// unlinked adds attachments without a link to those of links. It queries only the hooks of program types that are loaded.
type unlinked struct {
	attached map[uint32][]Attachment
	programs []*Program
}

// has reports whether a program has one of these types.
func (u unlinked) has(types ...ebpf.ProgramType) bool {
	return slices.ContainsFunc(u.programs, func(p *Program) bool { return slices.Contains(types, ebpf.ProgramType(p.Type)) })
}

// add adds an attachment, unless the program has one with the same kind and target.
func (u unlinked) add(id uint32, kind, to string) {
	same := func(a Attachment) bool { return a.Kind == kind && a.To == to }
	if !slices.ContainsFunc(u.attached[id], same) {
		u.attached[id] = append(u.attached[id], Attachment{Program: id, Kind: kind, To: to})
	}
}

// addNetworks adds the programs that are attached to network interfaces, in the network namespace of this thread and in all others.
func (u unlinked) addNetworks() error {
	if !u.has(ebpf.XDP, ebpf.SchedCLS, ebpf.SchedACT) {
		return nil
	}
	if err := u.addNetwork(""); err != nil {
		return err
	}
	others, err := otherNetworks("/proc", "/proc/thread-self")
	if err != nil {
		return err
	}
	for _, n := range others {
		err := n.enter(func() error { return u.addNetwork(" in " + n.name) })
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EPERM) { // the namespace is gone, or belongs to another user namespace
			return err
		}
	}
	return nil
}

// addNetwork adds the programs that are attached to network interfaces in the network namespace of this thread. It appends where to the
// targets.
func (u unlinked) addNetwork(where string) error {
	if u.has(ebpf.XDP) {
		found, err := xdpPrograms()
		if err != nil {
			return err
		}
		for index, ids := range found {
			for _, id := range ids {
				if where == "" || !u.linked(id, "xdp") { // a link's info has the index of the interface, but not the namespace
					u.add(id, "xdp", networkInterface(index)+where)
				}
			}
		}
	}
	if u.has(ebpf.SchedACT) {
		actions, err := actionPrograms()
		if err != nil {
			return err
		}
		for _, a := range actions {
			u.add(a.program, "tc", fmt.Sprintf("action %d (filters: %d)%s", a.action, a.filters, where))
		}
	}
	if !u.has(ebpf.SchedCLS) {
		return nil
	}
	filters, err := filterPrograms()
	if err != nil {
		return err
	}
	for _, f := range filters {
		u.add(f.program, "tc", f.at+" "+networkInterface(f.index)+where)
	}
	return u.addMprog(where)
}

// linked reports whether a program is attached through a link of this kind.
func (u unlinked) linked(id uint32, kind string) bool {
	return slices.ContainsFunc(u.attached[id], func(a Attachment) bool { return a.Kind == kind && a.Link != 0 })
}

// addMprog adds tcx programs (Linux 6.6) and netkit programs (Linux 6.7).
func (u unlinked) addMprog(where string) error {
	interfaces, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("look for network interfaces: %w", err)
	}
	for _, at := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress, ebpf.AttachNetkitPrimary, ebpf.AttachNetkitPeer} {
		for _, i := range interfaces {
			ids, err := queried(i.Index, at)
			if err != nil {
				return fmt.Errorf("interface %s: %w", i.Name, err)
			}
			for _, id := range ids {
				kind := "tcx"
				if at == ebpf.AttachNetkitPrimary || at == ebpf.AttachNetkitPeer {
					kind = "netkit"
				}
				u.add(id, kind, nameOf(attachNames, uint32(at))+" "+networkInterface(uint32(i.Index))+where)
			}
		}
	}
	return nil
}

// queried returns the IDs of the programs that are attached to a target without a link. It returns none if the kernel does not know the attach
// type.
func queried(target int, at ebpf.AttachType) ([]uint32, error) {
	result, err := link.QueryPrograms(link.QueryOptions{Target: target, Attach: at})
	switch {
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO),
		errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, ebpf.ErrNotSupported),
		errors.Is(err, unix.EBUSY): // the sockmap has another kind of verdict program
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("ask for BPF programs at %s: %w%s", nameOf(attachNames, uint32(at)), err, remedy(err))
	}
	var ids []uint32
	for _, p := range result.Programs {
		if _, linked := p.LinkID(); !linked {
			ids = append(ids, uint32(p.ID))
		}
	}
	return ids, nil
}

// addSockmaps adds the programs that are attached to sockmaps (Linux 5.17).
func (u unlinked) addSockmaps() error {
	if !u.has(ebpf.SkSKB, ebpf.SkMsg) {
		return nil
	}
	for id, err := range maps.ids() {
		if err != nil {
			return err
		}
		d, info, err := openMap(id)
		if err != nil {
			continue // the map is gone
		}
		if kind := ebpf.MapType(info.kind); kind == ebpf.SockMap || kind == ebpf.SockHash {
			err = u.addSockmap(d, info)
		}
		d.close()
		if err != nil {
			return err
		}
	}
	return nil
}

func (u unlinked) addSockmap(d descriptor, info mapInfo) error {
	types := []ebpf.AttachType{ebpf.AttachSkSKBStreamParser, ebpf.AttachSkSKBStreamVerdict, ebpf.AttachSkMsgVerdict, ebpf.AttachSkSKBVerdict}
	for _, at := range types {
		ids, err := queried(int(d), at)
		if err != nil {
			return fmt.Errorf("map %d: %w", info.id, err)
		}
		for _, id := range ids {
			u.add(id, "sockmap", fmt.Sprintf("%s map %d", nameOf(attachNames, uint32(at)), info.id))
		}
	}
	return nil
}

// addTailCalls adds the program arrays that programs are in. It does so only if a program is attached nowhere else. maps are the maps that
// loaded programs use.
func (u unlinked) addTailCalls(maps map[uint32]mapInfo) {
	if !slices.ContainsFunc(u.programs, func(p *Program) bool { return len(u.attached[p.ID]) == 0 }) {
		return
	}
	for _, m := range maps {
		if ebpf.MapType(m.kind) == ebpf.ProgramArray {
			u.addElements(m)
		}
	}
}

// addElements adds the programs in a program array.
func (u unlinked) addElements(m mapInfo) {
	d, err := maps.open(m.id)
	if err != nil {
		return // the map is gone
	}
	defer d.close()
	for i := range m.entries {
		if id, err := d.element(i); err == nil { // most elements are empty
			u.add(id, "prog_array", fmt.Sprintf("%s[%d]", m.named(), i))
		}
	}
}

// element returns an element of an array.
func (d descriptor) element(key uint32) (value uint32, err error) {
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&key)
	pin.Pin(&value)
	attr := struct {
		fd, _      uint32
		key, value unsafe.Pointer
		flags      uint64
	}{fd: uint32(d), key: unsafe.Pointer(&key), value: unsafe.Pointer(&value)}
	_, err = bpf(unix.BPF_MAP_LOOKUP_ELEM, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	return value, err
}

// openMap opens a map and reads its info. The caller closes the descriptor.
func openMap(id uint32) (descriptor, mapInfo, error) {
	d, err := maps.open(id)
	if err != nil {
		return -1, mapInfo{}, err
	}
	var info mapInfo
	if err := d.info(unsafe.Pointer(&info), unsafe.Sizeof(info)); err != nil {
		d.close()
		return -1, mapInfo{}, fmt.Errorf("read BPF map %d: %w", id, err)
	}
	return d, info, nil
}

// perfFile is a perf event that a process has open.
type perfFile struct{ pid, fd uint32 }

// perfKinds has the names of enum bpf_task_fd_type, from include/uapi/linux/bpf.h.
var perfKinds = []string{"raw_tracepoint", "tracepoint", "kprobe", "kretprobe", "uprobe", "uretprobe"}

// addPerf adds the programs that are attached to perf events by ioctl(2), as older tools do it. The kernel reports only those at tracepoints
// and probes.
func (u unlinked) addPerf(files []perfFile) {
	if !u.has(ebpf.Kprobe, ebpf.TracePoint) {
		return
	}
	linked := make(map[uint32]bool) // a link's perf event also has a descriptor
	for id := range u.attached {
		linked[id] = true
	}
	for _, f := range files {
		id, kind, to, err := f.query()
		if err == nil && !linked[id] { // most perf events have no program
			u.add(id, kind, to)
		}
	}
}

// query returns the program that is attached to a perf event, and the kind and target of the attachment (BPF_TASK_FD_QUERY, Linux 4.18).
func (f perfFile) query() (program uint32, kind, to string, err error) {
	var pin runtime.Pinner
	defer pin.Unpin()
	name := make([]byte, 4096)
	pin.Pin(&name[0])
	attr := struct {
		pid, fd, flags, length uint32
		name                   unsafe.Pointer
		program, kind          uint32
		offset, address        uint64
	}{pid: f.pid, fd: f.fd, length: uint32(len(name)), name: unsafe.Pointer(&name[0])}
	if _, err := bpf(unix.BPF_TASK_FD_QUERY, unsafe.Pointer(&attr), unsafe.Sizeof(attr)); err != nil {
		return 0, "", "", err
	}
	to = text(name)
	switch kind = nameOf(perfKinds, attr.kind); {
	case to == "":
		to = Address(attr.address).String()
	case attr.offset != 0, kind == "uprobe", kind == "uretprobe":
		to += fmt.Sprintf("+%#x", attr.offset)
	}
	return attr.program, kind, to, nil
}
