package bpfprog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
)

func word(n int) []byte { return binary.NativeEndian.AppendUint32(nil, uint32(n)) }

// ownNetwork moves the rest of the test to its own network namespace, whose only interface is lo.
func ownNetwork(t *testing.T) {
	t.Helper()
	require.Root(t)
	runtime.LockOSThread() // the thread ends with the test, so no other goroutine gets it
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
}

// ask sends a netlink request that changes something.
func ask(kind uint16, flags int, body ...[]byte) error {
	_, err := netlink(kind, unix.NLM_F_ACK|flags, slices.Concat(body...))
	return err
}

// checkAsked skips the test if this kernel does not support the request.
func checkAsked(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
		t.Skipf("this kernel does not have it: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func returning(n int32) asm.Instructions {
	return asm.Instructions{asm.Mov.Imm(asm.R0, n), asm.Return()}
}

func expectAttached(t *testing.T, id uint32, want ...Attachment) {
	t.Helper()
	for i := range want {
		want[i].Program = id
	}
	if diff := cmp.Diff(want, attached(t, id)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// attachXDP attaches a program to lo in the network namespace of this thread.
func attachXDP(p *ebpf.Program) error {
	const fd, flags, generic = 1, 3, 2 // IFLA_XDP_FD, IFLA_XDP_FLAGS, XDP_FLAGS_SKB_MODE
	header := make([]byte, interfaceMessage)
	copy(header[4:], word(1))
	return ask(unix.RTM_SETLINK, 0, header, attribute(iflaXDP, append(attribute(fd, word(p.FD())), attribute(flags, word(generic))...)))
}

func TestUnlinkedXDP(t *testing.T) {
	ownNetwork(t)
	p, id := load(t, &ebpf.ProgramSpec{Type: ebpf.XDP, Instructions: returning(2)})
	expectAttached(t, id)
	checkAsked(t, attachXDP(p))
	expectAttached(t, id, Attachment{Kind: "xdp", To: "lo (interface 1)"})
}

// attachFilter makes a program an egress filter of lo in the network namespace of this thread.
func attachFilter(p *ebpf.Program) error {
	header := func(handle, parent, info int) []byte {
		b := append(make([]byte, 4), word(1)...)
		return append(append(append(b, word(handle)...), word(parent)...), word(info)...)
	}
	const create = unix.NLM_F_CREATE | unix.NLM_F_EXCL
	if err := ask(unix.RTM_NEWQDISC, create, header(0xffff0000, 0xfffffff1, 0), attribute(tcaKind, []byte("clsact\x00"))); err != nil {
		return err
	}
	const fd, name, allProtocols = 6, 7, 0x0300 // TCA_BPF_FD, TCA_BPF_NAME, ETH_P_ALL in network byte order
	return ask(unix.RTM_NEWTFILTER, create, header(0, clsactEgress, 1<<16|allProtocols), attribute(tcaKind, []byte("bpf\x00")),
		attribute(tcaOptions, append(attribute(fd, word(p.FD())), attribute(name, []byte("f\x00"))...)))
}

func TestUnlinkedTC(t *testing.T) {
	ownNetwork(t)
	p, id := load(t, &ebpf.ProgramSpec{Type: ebpf.SchedCLS, Instructions: returning(0)})
	expectAttached(t, id)
	checkAsked(t, attachFilter(p))
	expectAttached(t, id, Attachment{Kind: "tc", To: "egress lo (interface 1)"})
}

// attachAction makes a program action 7 in the network namespace of this thread.
func attachAction(p *ebpf.Program) error {
	const fd, name = 5, 6 // TCA_ACT_BPF_FD, TCA_ACT_BPF_NAME
	parameters := append(word(7), make([]byte, 16)...)
	options := slices.Concat(attribute(tcaActionBPF, parameters), attribute(fd, word(p.FD())), attribute(name, []byte("a\x00")))
	action := append(attribute(tcaKind, []byte("bpf\x00")), attribute(tcaOptions, options)...)
	return ask(unix.RTM_NEWACTION, unix.NLM_F_CREATE|unix.NLM_F_EXCL, make([]byte, actionMessage), attribute(tcaActions, attribute(1, action)))
}

// TestUnlinkedAction needs act_bpf, which is a module on Debian.
func TestUnlinkedAction(t *testing.T) {
	ownNetwork(t)
	p, id := load(t, &ebpf.ProgramSpec{Type: ebpf.SchedACT, Instructions: returning(0)})
	expectAttached(t, id)
	checkAsked(t, attachAction(p))
	expectAttached(t, id, Attachment{Kind: "tc", To: "action 7 (filters: 0)"})
}

// TestDecodeActions decodes a message with several actions, one of which is no program, and truncated messages.
func TestDecodeActions(t *testing.T) {
	action := func(index, filters, program int) []byte {
		parameters := slices.Concat(word(index), word(0), word(0), word(1), word(filters))
		options := slices.Concat(attribute(tcaActionBPF, parameters), attribute(tcaActionBPFID, word(program)))
		return append(attribute(tcaKind, []byte("bpf\x00")), attribute(tcaOptions, options)...)
	}
	other := append(attribute(tcaKind, []byte("gact\x00")), attribute(tcaOptions, attribute(tcaActionBPFID, word(9)))...)
	actions := slices.Concat(attribute(1, action(3, 2, 40)), attribute(2, other), attribute(3, action(1, 0, 41)))
	message := append(make([]byte, actionMessage), attribute(tcaActions, actions)...)
	want := []actionProgram{{program: 41, action: 1}, {program: 40, action: 3, filters: 2}}
	if diff := cmp.Diff(want, decodeActions(message), cmp.AllowUnexported(actionProgram{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for n := range message {
		if got := decodeActions(message[:n]); len(got) > 2 {
			t.Errorf("of %d bytes: %v", n, got)
		}
	}
}

// TestOtherNetworks attaches programs in the network namespace of another process.
func TestOtherNetworks(t *testing.T) {
	require.Root(t)
	cmd := exec.CommandContext(t.Context(), "sleep", "600")
	cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	file := fmt.Sprintf("/proc/%d/ns/net", cmd.Process.Pid)
	n := network{readlink(t, file), file}
	where := " in " + n.name
	for _, test := range []struct {
		name   string
		kind   ebpf.ProgramType
		attach func(*ebpf.Program) error
		want   Attachment
	}{
		{"XDP", ebpf.XDP, attachXDP, Attachment{Kind: "xdp", To: "lo (interface 1)" + where}},
		{"filter", ebpf.SchedCLS, attachFilter, Attachment{Kind: "tc", To: "egress lo (interface 1)" + where}},
		{"action", ebpf.SchedACT, attachAction, Attachment{Kind: "tc", To: "action 7 (filters: 0)" + where}},
		{"link", ebpf.XDP, func(p *ebpf.Program) error {
			l, err := link.AttachXDP(link.XDPOptions{Program: p, Interface: 1, Flags: link.XDPGenericMode})
			if err == nil {
				t.Cleanup(func() { l.Close() })
			}
			return err
		}, Attachment{Kind: "xdp", To: "lo (interface 1)"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, id := load(t, &ebpf.ProgramSpec{Type: test.kind, Instructions: returning(2)})
			checkAsked(t, n.enter(func() error { return test.attach(p) }))
			got := attached(t, id)
			for i := range got {
				got[i].Link = 0
			}
			test.want.Program = id
			if diff := cmp.Diff([]Attachment{test.want}, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if test.name == "XDP" { // and there is room for the link
				checkAsked(t, n.enter(detachXDP))
			}
		})
	}
}

func detachXDP() error {
	const fd, flags, generic = 1, 3, 2
	header := make([]byte, interfaceMessage)
	copy(header[4:], word(1))
	return ask(unix.RTM_SETLINK, 0, header, attribute(iflaXDP, append(attribute(fd, word(-1)), attribute(flags, word(generic))...)))
}

func TestMountedNetworks(t *testing.T) {
	mounts := []procfs.Mount{
		{Root: "/", Dir: "/sys", Type: "sysfs"}, {Root: "net:[4026532289]", Dir: "/run/netns/a b", Type: "nsfs"},
		{Root: "mnt:[4026532290]", Dir: "/run/snapd/ns/x.mnt", Type: "nsfs"}, {Root: "net:[4026532291]", Dir: "/mnt", Type: "ext4"},
	}
	if diff := cmp.Diff([]network{{"net:[4026532289]", "/run/netns/a b"}}, mountedNetworks(mounts), cmp.AllowUnexported(network{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestUnlinkedTCX(t *testing.T) {
	ownNetwork(t)
	if !kernelAtLeast(t, 6, 6) {
		t.Skip("needs Linux 6.6")
	}
	p, id := load(t, &ebpf.ProgramSpec{Type: ebpf.SchedCLS, Instructions: returning(0)})
	err := link.RawAttachProgram(link.RawAttachProgramOptions{Target: 1, Program: p, Attach: ebpf.AttachTCXEgress})
	if err != nil {
		t.Fatal(err)
	}
	expectAttached(t, id, Attachment{Kind: "tcx", To: "tcx_egress lo (interface 1)"})
}

func TestUnlinkedSockmap(t *testing.T) {
	require.Root(t)
	if !kernelAtLeast(t, 5, 17) {
		t.Skip("needs Linux 5.17")
	}
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.SockMap, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	info, err := m.Info()
	if err != nil {
		t.Fatal(err)
	}
	mapID, _ := info.ID()
	p, id := load(t, &ebpf.ProgramSpec{Type: ebpf.SkSKB, AttachType: ebpf.AttachSkSKBStreamVerdict, Instructions: returning(1)})
	expectAttached(t, id)
	if err := link.RawAttachProgram(link.RawAttachProgramOptions{Target: m.FD(), Program: p, Attach: ebpf.AttachSkSKBStreamVerdict}); err != nil {
		t.Fatal(err)
	}
	expectAttached(t, id, Attachment{Kind: "sockmap", To: "sk_skb_stream_verdict map " + decimal(uint32(mapID))})
}

func TestTailCalls(t *testing.T) {
	require.Root(t)
	m, err := ebpf.NewMap(&ebpf.MapSpec{Name: "calls", Type: ebpf.ProgramArray, KeySize: 4, ValueSize: 4, MaxEntries: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	info, err := m.Info()
	if err != nil {
		t.Fatal(err)
	}
	mapID, _ := info.ID()
	called, id := load(t, &ebpf.ProgramSpec{Type: ebpf.SocketFilter})
	load(t, &ebpf.ProgramSpec{Type: ebpf.SocketFilter, Instructions: asm.Instructions{asm.LoadMapPtr(asm.R2, m.FD()), asm.Mov.Imm(asm.R3, 5),
		asm.FnTailCall.Call(), asm.Mov.Imm(asm.R0, 0), asm.Return()}})
	expectAttached(t, id)
	for _, key := range []uint32{2, 5} {
		if err := m.Put(key, called); err != nil {
			t.Fatal(err)
		}
	}
	expectAttached(t, id, Attachment{Kind: "prog_array", To: "calls (" + decimal(uint32(mapID)) + ")[2]"},
		Attachment{Kind: "prog_array", To: "calls (" + decimal(uint32(mapID)) + ")[5]"})
}

// TestUnlinkedPerf attaches to a tracepoint with ioctl(2), as before links existed.
func TestUnlinkedPerf(t *testing.T) {
	require.Root(t)
	number, err := os.ReadFile(require.Tracefs(t) + "/events/sched/sched_process_hang/id")
	if err != nil {
		t.Fatal(err)
	}
	config, err := strconv.ParseUint(strings.TrimSpace(string(number)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	p, id := load(t, &ebpf.ProgramSpec{Type: ebpf.TracePoint, Instructions: returning(1)})
	e, err := perfevent.Open(&perfdata.Attr{Type: perfdata.TypeTracepoint, Config: config, SamplePeriod: 1},
		perfevent.Where{Thread: perfevent.AnyThread, CPU: 0})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := unix.IoctlSetInt(e.FD(), unix.PERF_EVENT_IOC_SET_BPF, p.FD()); err != nil {
		t.Fatal(err)
	}
	again, err := unix.Dup(e.FD()) // a second descriptor adds no second attachment
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(again)
	open, err := holders("/proc", 0)
	if err != nil {
		t.Fatal(err)
	}
	u := unlinked{make(map[uint32][]Attachment), []*Program{read(t, id)}}
	u.addPerf(open.perf)
	if diff := cmp.Diff([]Attachment{{Program: id, Kind: "tracepoint", To: "sched_process_hang"}}, u.attached[id]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func FuzzAttributes(f *testing.F) {
	f.Add(attribute(iflaXDP, append(attribute(1, word(7)), attribute(2, []byte("x"))...)))
	f.Add([]byte{4, 0, 1, 0, 3, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, a := range attributes(data) {
			number(a)
			attributes(a)
		}
	})
}
