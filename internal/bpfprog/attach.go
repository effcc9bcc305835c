package bpfprog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"runtime"
	"strings"
	"unsafe"
)

// Attachment is a hook that a program is attached to.
type Attachment struct {
	Program uint32 `json:"-"`
	Link    uint32 `json:"link_id,omitempty"` // 0 if attached without a link
	Kind    string `json:"kind"`              // kind of the link, or of the hook without a link
	To      string `json:"to,omitempty"`      // target, in a format that depends on the kind; empty if the kernel does not report it
}

func (a Attachment) String() string {
	s := a.To
	if !strings.HasPrefix(a.To, a.Kind+"_") { // some attach types begin with the kind: cgroup_device
		s = strings.TrimSuffix(a.Kind+" "+a.To, " ")
	}
	if a.Link != 0 {
		s += fmt.Sprintf(" (link %d)", a.Link)
	}
	return s
}

// attachments returns the attachments of all programs, by the program's ID. maps has the maps that the programs use. It reads all links, and
// looks for programs without a link at cgroups, network interfaces, actions of traffic control, sockmaps and program arrays. It does not find
// socket filters and perf events; for the latter see addPerf.
func (r *Reader) attachments(all []*Program, maps map[uint32]mapInfo) (map[uint32][]Attachment, error) {
	byID := make(map[uint32]*Program, len(all))
	for _, p := range all {
		byID[p.ID] = p
	}
	attached := make(map[uint32][]Attachment)
	for id, err := range links.ids() {
		if err != nil {
			return nil, err
		}
		a, err := r.link(id, byID)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		attached[a.Program] = append(attached[a.Program], a)
	}
	if err := r.cgroups.addUnlinked(attached, all); err != nil {
		return nil, err
	}
	u := unlinked{attached, all}
	if err := u.addNetworks(); err != nil {
		return nil, err
	}
	if err := u.addSockmaps(); err != nil {
		return nil, err
	}
	u.addTailCalls(maps)
	return attached, nil
}

// link reads the link with an ID. It needs the programs to name the target of a tracing link.
func (r *Reader) link(id uint32, programs map[uint32]*Program) (Attachment, error) {
	d, err := links.open(id)
	if err != nil {
		return Attachment{}, err
	}
	defer d.close()
	info, name, err := readLink(d)
	if err != nil {
		return Attachment{}, fmt.Errorf("read BPF link %d: %w", id, err)
	}
	a := Attachment{Program: info.word(offsetProgram), Link: id}
	a.Kind, a.To = r.describe(info, name)
	if info.word(offsetKind) == linkTracing {
		a.To = strings.TrimSpace(a.To + " " + r.tracingTarget(info, programs))
	}
	return a, nil
}

// linkInfo is struct bpf_link_info: type, link ID and program ID, then a union at byte 16.
type linkInfo [64]byte

const (
	offsetKind    = 0
	offsetProgram = 8
	offsetTarget  = 20 // of a tracing link
)

func (i *linkInfo) word(offset int) uint32   { return binary.NativeEndian.Uint32(i[offset:]) }
func (i *linkInfo) quad(offset int) uint64   { return binary.NativeEndian.Uint64(i[offset:]) }
func (i *linkInfo) put(offset int, n uint64) { binary.NativeEndian.PutUint64(i[offset:], n) }

// enum bpf_link_type, from include/uapi/linux/bpf.h.
const (
	linkRawTracepoint = 1
	linkTracing       = 2
	linkCgroup        = 3
	linkIter          = 4
	linkNetNS         = 5
	linkXDP           = 6
	linkPerfEvent     = 7
	linkKprobeMulti   = 8
	linkStructOps     = 9
	linkNetfilter     = 10
	linkTCX           = 11
	linkUprobeMulti   = 12
	linkNetkit        = 13
	linkSockmap       = 14
)

// enum bpf_perf_event_type (Linux 6.6; older kernels return 0).
const (
	perfUprobe     = 1
	perfUretprobe  = 2
	perfKprobe     = 3
	perfKretprobe  = 4
	perfTracepoint = 5
	perfEvent      = 6
)

// nameAt returns the offsets, in a link's info, of the pointer to a name buffer and of the buffer's length; 0 if links of this kind have no
// name.
func nameAt(i *linkInfo) (pointer, length int) {
	switch i.word(offsetKind) {
	case linkRawTracepoint, linkIter:
		return 16, 24
	case linkUprobeMulti:
		return 16, 48
	case linkPerfEvent:
		if kind := i.word(16); kind != 0 && kind != perfEvent {
			return 24, 32
		}
	}
	return 0, 0
}

// readLink reads a link's info and its name. It reads the info twice, because the kind of the link decides where the name buffer belongs.
func readLink(d descriptor) (*linkInfo, string, error) {
	info := new(linkInfo)
	if err := d.info(unsafe.Pointer(info), unsafe.Sizeof(*info)); err != nil {
		return nil, "", err
	}
	pointer, length := nameAt(info)
	if pointer == 0 {
		return info, "", nil
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	name := make([]byte, 4096) // PATH_MAX
	pin.Pin(&name[0])
	second := new(linkInfo)
	second.put(pointer, uint64(uintptr(unsafe.Pointer(&name[0]))))
	binary.NativeEndian.PutUint32(second[length:], uint32(len(name)))
	if err := d.info(unsafe.Pointer(second), unsafe.Sizeof(*second)); err != nil {
		return info, "", nil // the kernel hides addresses and names from this process
	}
	return second, text(name), nil
}

// describe returns the kind and the target of a link, for Attachment.
func (r *Reader) describe(i *linkInfo, name string) (kind, to string) {
	kind = nameOf(linkNames, i.word(offsetKind))
	switch i.word(offsetKind) {
	case linkRawTracepoint, linkIter:
		return kind, name
	case linkTracing:
		return kind, strings.TrimPrefix(nameOf(attachNames, i.word(16)), "trace_")
	case linkCgroup:
		return kind, nameOf(attachNames, i.word(24)) + " " + r.cgroups.path(i.quad(16))
	case linkNetNS:
		return kind, fmt.Sprintf("%s net:[%d]", nameOf(attachNames, i.word(20)), i.word(16))
	case linkXDP:
		return kind, networkInterface(i.word(16))
	case linkPerfEvent:
		return describePerf(i, name)
	case linkKprobeMulti:
		return kind, count(i.word(24), "function")
	case linkStructOps:
		return kind, fmt.Sprintf("map %d", i.word(16))
	case linkNetfilter:
		return kind, fmt.Sprintf("family %d, hook %d, priority %d", i.word(16), i.word(20), int32(i.word(24)))
	case linkTCX, linkNetkit:
		return kind, nameOf(attachNames, i.word(20)) + " " + networkInterface(i.word(16))
	case linkUprobeMulti:
		return kind, name + ", " + count(i.word(52), "place")
	case linkSockmap:
		return kind, fmt.Sprintf("%s map %d", nameOf(attachNames, i.word(20)), i.word(16))
	}
	return kind, ""
}

func count(n uint32, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// describePerf returns the kind and the target of a link to a perf event.
func describePerf(i *linkInfo, name string) (kind, to string) {
	offset := i.word(36)
	switch i.word(16) {
	case perfUprobe:
		return "uprobe", fmt.Sprintf("%s+%#x", name, offset)
	case perfUretprobe:
		return "uretprobe", fmt.Sprintf("%s+%#x", name, offset)
	case perfKprobe, perfKretprobe:
		kind = "kprobe"
		if i.word(16) == perfKretprobe {
			kind = "kretprobe"
		}
		switch {
		case name == "":
			return kind, Address(i.quad(40)).String()
		case offset != 0:
			return kind, fmt.Sprintf("%s+%#x", name, offset)
		}
		return kind, name
	case perfTracepoint:
		return "tracepoint", name
	case perfEvent:
		return "perf_event", fmt.Sprintf("type %d, config %#x", i.word(32), i.quad(24))
	}
	return "perf_event", ""
}

// tracingTarget returns the name of the function that a tracing link is attached to. The target ID in the info is that of a program or of BTF.
// It is that of BTF if the attached program has the same attach BTF.
func (r *Reader) tracingTarget(i *linkInfo, programs map[uint32]*Program) string {
	object, function := i.word(offsetTarget), i.word(24)
	own := programs[i.word(offsetProgram)]
	if own != nil && own.attachBTF == object {
		return r.functionName(object, function)
	}
	if target := programs[object]; target != nil {
		name := r.functionName(target.BTF, function)
		if name == "" {
			name = target.Name
		}
		return fmt.Sprintf("%s of program %d", name, object)
	}
	return r.functionName(object, function)
}

// networkInterface returns the index of a network interface, and its name if the network namespace of this process has one with that index.
func networkInterface(index uint32) string {
	if i, err := net.InterfaceByIndex(int(index)); err == nil {
		return fmt.Sprintf("%s (interface %d)", i.Name, index)
	}
	return fmt.Sprintf("interface %d", index)
}
