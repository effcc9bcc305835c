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

// Attachment is a place where a program runs.
type Attachment struct {
	Program uint32 `json:"-"`
	Link    uint32 `json:"link_id,omitempty"` // 0 if it is attached without a link
	Kind    string `json:"kind"`              // of link, or where there is none of hook
	To      string `json:"to,omitempty"`      // what the link is to, in the words of its kind; empty if the kernel does not tell
}

func (a Attachment) String() string {
	s := a.To
	if !strings.HasPrefix(a.To, a.Kind+"_") { // the attach type has the kind in front: cgroup_device
		s = strings.TrimSuffix(a.Kind+" "+a.To, " ")
	}
	if a.Link != 0 {
		s += fmt.Sprintf(" (link %d)", a.Link)
	}
	return s
}

// attachments are those of the programs, which use these maps, by ID of the program: what links tell, and of programs without link cgroups, interfaces,
// maps of sockets, and arrays of programs. What is attached otherwise is not found: socket filters, perf events (but see List), actions of
// traffic control.
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

// link reads one. The programs tell what tracing links are attached to.
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

// linkInfo is struct bpf_link_info: type, ID and program, then a union from byte 16 on.
type linkInfo [64]byte

const (
	offsetKind    = 0
	offsetProgram = 8
	offsetTarget  = 20 // of a tracing link
)

func (i *linkInfo) word(offset int) uint32   { return binary.NativeEndian.Uint32(i[offset:]) }
func (i *linkInfo) quad(offset int) uint64   { return binary.NativeEndian.Uint64(i[offset:]) }
func (i *linkInfo) put(offset int, n uint64) { binary.NativeEndian.PutUint64(i[offset:], n) }

// Numbers of enum bpf_link_type whose info has more than numbers in it.
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

// Numbers of enum bpf_perf_event_type (Linux 6.6; before that it is 0).
const (
	perfUprobe     = 1
	perfUretprobe  = 2
	perfKprobe     = 3
	perfKretprobe  = 4
	perfTracepoint = 5
	perfEvent      = 6
)

// nameAt is where a link's info takes the address of a buffer for a name, and the length of that; 0 if it has no name.
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

// readLink reads what there is of a link. The first call tells the kind, on which it depends where the name belongs.
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
	name := make([]byte, 4096) // the most that a path can have
	pin.Pin(&name[0])
	second := new(linkInfo)
	second.put(pointer, uint64(uintptr(unsafe.Pointer(&name[0]))))
	binary.NativeEndian.PutUint32(second[length:], uint32(len(name)))
	if err := d.info(unsafe.Pointer(second), unsafe.Sizeof(*second)); err != nil {
		return info, "", nil // addresses and names that this process may not see
	}
	return second, text(name), nil
}

// describe says of a link what kind it is and what it is to.
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

// describePerf says what perf event a link is to.
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

// tracingTarget is the function that a tracing link is attached to. The number of the target is that of a program or of BTF: it is
// BTF if the program that is attached names the same BTF.
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

// networkInterface names an interface, which in the network namespace of this process has the name, if it is there.
func networkInterface(index uint32) string {
	if i, err := net.InterfaceByIndex(int(index)); err == nil {
		return fmt.Sprintf("%s (interface %d)", i.Name, index)
	}
	return fmt.Sprintf("interface %d", index)
}
