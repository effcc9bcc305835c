package bpfprog

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// netlink sends a request over rtnetlink (https://docs.kernel.org/userspace-api/netlink/intro.html) and returns the kernel's answer: the
// messages of a dump, or none for a request with NLM_F_ACK. The request applies to the network namespace of this thread.
func netlink(kind uint16, flags int, body []byte) ([]syscall.NetlinkMessage, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	ne := binary.NativeEndian
	request := ne.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
	request = ne.AppendUint16(request, kind)
	request = ne.AppendUint16(request, uint16(unix.NLM_F_REQUEST|flags))
	request = append(request, make([]byte, 8)...) // sequence number and port: not needed for one request per socket
	request = append(request, body...)
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	var all []syscall.NetlinkMessage
	for {
		buffer := make([]byte, 32<<10) // larger than any datagram of the kernel; the messages refer to it
		n, _, err := unix.Recvfrom(fd, buffer, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		messages, err := syscall.ParseNetlinkMessage(buffer[:n])
		if err != nil {
			return nil, err
		}
		for _, m := range messages {
			switch {
			case m.Header.Type == unix.NLMSG_DONE:
				return all, nil
			case m.Header.Type == unix.NLMSG_ERROR && len(m.Data) < 4:
				return nil, errors.New("the answer is cut")
			case m.Header.Type == unix.NLMSG_ERROR:
				if errno := -int32(ne.Uint32(m.Data)); errno != 0 {
					return nil, unix.Errno(errno)
				}
				return all, nil
			}
			all = append(all, m)
		}
	}
}

// attributes returns the attributes (struct nlattr) in a message or in another attribute, by type. It stops at the first damaged one.
func attributes(data []byte) map[uint16][]byte {
	const header, typeMask, align = 4, 0x3fff, 4 // NLA_HDRLEN, NLA_TYPE_MASK, NLA_ALIGNTO
	all := make(map[uint16][]byte)
	for len(data) >= header {
		length := int(binary.NativeEndian.Uint16(data))
		if length < header || length > len(data) {
			break
		}
		all[binary.NativeEndian.Uint16(data[2:])&typeMask] = data[header:length]
		data = data[min(len(data), (length+align-1)/align*align):]
	}
	return all
}

// number returns the u32 in an attribute; 0 if the attribute is missing.
func number(attribute []byte) uint32 {
	if len(attribute) < 4 {
		return 0
	}
	return binary.NativeEndian.Uint32(attribute)
}

// From include/uapi/linux/if_link.h, pkt_sched.h, rtnetlink.h, pkt_cls.h and tc_act/tc_bpf.h.
const (
	iflaXDP          = 43
	iflaXDPProgram   = 4
	iflaXDPDriver    = 5
	iflaXDPGeneric   = 6
	iflaXDPHardware  = 7
	tcaKind          = 1
	tcaOptions       = 2
	tcaBPFID         = 11
	tcaActions       = 1 // TCA_ACT_TAB: actions by their index in the message, each with tcaKind and tcaOptions
	tcaActionBPF     = 2 // TCA_ACT_BPF_PARMS: struct tc_act_bpf
	tcaActionBPFID   = 9
	clsactIngress    = 0xfffffff2
	clsactEgress     = 0xfffffff3
	interfaceMessage = 16 // size of struct ifinfomsg
	trafficMessage   = 20 // size of struct tcmsg
	actionMessage    = 4  // size of struct tcamsg
)

// xdpPrograms returns the IDs of the XDP programs of each network interface, by the interface's index.
func xdpPrograms() (map[uint32][]uint32, error) {
	messages, err := netlink(unix.RTM_GETLINK, unix.NLM_F_DUMP, make([]byte, interfaceMessage))
	if err != nil {
		return nil, fmt.Errorf("ask for the XDP programs of network interfaces: %w", err)
	}
	found := make(map[uint32][]uint32)
	for _, m := range messages {
		if len(m.Data) < interfaceMessage {
			continue
		}
		index := number(m.Data[4:])
		xdp := attributes(attributes(m.Data[interfaceMessage:])[iflaXDP])
		for _, mode := range []uint16{iflaXDPProgram, iflaXDPDriver, iflaXDPGeneric, iflaXDPHardware} {
			if id := number(xdp[mode]); id != 0 {
				found[index] = append(found[index], id)
			}
		}
	}
	return found, nil
}

// traffic is a decoded message about a queueing discipline or a filter.
type traffic struct {
	index, handle, parent uint32
	kind                  string
	options               map[uint16][]byte
}

// dumpTraffic returns the queueing disciplines of all interfaces (RTM_GETQDISC), or the filters of one interface at a parent
// (RTM_GETTFILTER).
func dumpTraffic(kind uint16, index, parent uint32) ([]traffic, error) {
	ne := binary.NativeEndian
	body := make([]byte, trafficMessage)
	ne.PutUint32(body[4:], index)
	ne.PutUint32(body[12:], parent)
	messages, err := netlink(kind, unix.NLM_F_DUMP, body)
	if err != nil {
		return nil, fmt.Errorf("ask for traffic control: %w", err)
	}
	var all []traffic
	for _, m := range messages {
		if len(m.Data) < trafficMessage {
			continue
		}
		attrs := attributes(m.Data[trafficMessage:])
		all = append(all, traffic{number(m.Data[4:]), number(m.Data[8:]), number(m.Data[12:]), unix.ByteSliceToString(attrs[tcaKind]),
			attributes(attrs[tcaOptions])})
	}
	return all, nil
}

// filterProgram is a program that is a traffic control filter.
type filterProgram struct {
	program, index uint32
	at             string
}

// filterPrograms returns the traffic control filters of all interfaces that are BPF programs.
func filterPrograms() ([]filterProgram, error) {
	queues, err := dumpTraffic(unix.RTM_GETQDISC, 0, 0)
	if err != nil {
		return nil, err
	}
	var found []filterProgram
	for _, q := range queues {
		parents := map[uint32]string{q.handle: fmt.Sprintf("qdisc %x:", q.handle>>16)}
		switch {
		case q.kind == "clsact":
			parents = map[uint32]string{clsactIngress: "ingress", clsactEgress: "egress"}
		case q.kind == "ingress":
			parents[q.handle] = "ingress"
		case q.handle == 0: // the kernel's default, which has no filters
			continue
		}
		for parent, at := range parents {
			filters, err := dumpTraffic(unix.RTM_GETTFILTER, q.index, parent)
			if err != nil { // this kind of qdisc has no filters, or it was removed
				continue
			}
			for _, f := range filters {
				if id := number(f.options[tcaBPFID]); f.kind == "bpf" && id != 0 {
					found = append(found, filterProgram{id, q.index, at})
				}
			}
		}
	}
	return found, nil
}

// actionProgram is a program that is a traffic control action. Filters share an action by its number.
type actionProgram struct {
	program, action uint32
	filters         uint32 // number of filters that use it
}

// actionPrograms returns the traffic control actions of the network namespace that are BPF programs (Linux 4.13). It returns none if the kernel
// was built without actions.
func actionPrograms() ([]actionProgram, error) {
	kind := attribute(tcaKind, []byte("bpf\x00"))
	body := append(make([]byte, actionMessage), attribute(tcaActions, attribute(1, kind))...)
	messages, err := netlink(unix.RTM_GETACTION, unix.NLM_F_DUMP, body)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ask for the actions of traffic control: %w", err)
	}
	var found []actionProgram
	for _, m := range messages {
		found = append(found, decodeActions(m.Data)...)
	}
	return found, nil
}

func decodeActions(message []byte) (found []actionProgram) {
	if len(message) < actionMessage {
		return nil
	}
	for _, action := range attributes(attributes(message[actionMessage:])[tcaActions]) {
		attrs := attributes(action)
		options := attributes(attrs[tcaOptions])
		parameters := options[tcaActionBPF] // index, capabilities, action, references, bindings
		id := number(options[tcaActionBPFID])
		if unix.ByteSliceToString(attrs[tcaKind]) != "bpf" || id == 0 || len(parameters) < 20 {
			continue
		}
		found = append(found, actionProgram{program: id, action: number(parameters), filters: number(parameters[16:])})
	}
	slices.SortFunc(found, func(a, b actionProgram) int { return cmp.Compare(a.action, b.action) })
	return found
}

// attribute encodes a struct nlattr.
func attribute(kind uint16, value []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
	b = append(binary.NativeEndian.AppendUint16(b, kind), value...)
	return append(b, make([]byte, (4-len(b)%4)%4)...)
}
