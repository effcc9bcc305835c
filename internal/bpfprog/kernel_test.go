package bpfprog

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
)

// longName is longer than the name in bpf_prog_info.
const longName = "count_what_nobody_has_counted_before"

// load loads a program for the duration of a test.
func load(t *testing.T, spec *ebpf.ProgramSpec) (*ebpf.Program, uint32) {
	t.Helper()
	require.Root(t)
	if spec.Instructions == nil {
		spec.Instructions = asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}
	}
	if spec.License == "" {
		spec.License = "GPL"
	}
	p, err := ebpf.NewProgram(spec)
	if err != nil {
		t.Fatalf("load a program of type %v: %v", spec.Type, err)
	}
	t.Cleanup(func() { p.Close() })
	info, err := p.Info()
	if err != nil {
		t.Fatal(err)
	}
	id, _ := info.ID()
	return p, uint32(id)
}

// twoFunctions returns a program with BTF that calls a sub-program.
func twoFunctions() asm.Instructions {
	number := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	function := func(name string, linkage btf.FuncLinkage) *btf.Func {
		proto := &btf.FuncProto{Return: number, Params: []btf.FuncParam{{Name: "context", Type: &btf.Pointer{Target: &btf.Void{}}}}}
		return &btf.Func{Name: name, Type: proto, Linkage: linkage}
	}
	return asm.Instructions{
		btf.WithFuncMetadata(asm.Call.Label("inner_work").WithSymbol(longName), function(longName, btf.GlobalFunc)),
		asm.Mov.Imm(asm.R0, 0),
		asm.Return(),
		btf.WithFuncMetadata(asm.Mov.Imm(asm.R0, 1).WithSymbol("inner_work"), function("inner_work", btf.StaticFunc)),
		asm.Return(),
	}
}

func read(t *testing.T, id uint32) *Program {
	t.Helper()
	r, err := NewReader(Detail{Functions: true, Memlock: true})
	if err != nil {
		t.Fatal(err)
	}
	p, err := r.Read(id)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestRead compares the result with the program that was loaded, and with what cilium/ebpf reads.
func TestRead(t *testing.T) {
	m, err := ebpf.NewMap(&ebpf.MapSpec{Name: "some_map", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	before := time.Now()
	prog, id := load(t, &ebpf.ProgramSpec{Name: "short", Type: ebpf.SocketFilter, License: "Proprietary",
		Instructions: asm.Instructions{asm.LoadMapPtr(asm.R1, m.FD()), asm.Mov.Imm(asm.R0, 0), asm.Return()}})
	info, err := prog.Info()
	if err != nil {
		t.Fatal(err)
	}
	p := read(t, id)
	// Boot time and wall time are read one after the other.
	if early, late := before.Add(-time.Second), time.Now().Add(time.Second); p.Loaded.Before(early) || p.Loaded.After(late) {
		t.Errorf("loaded at %v, not between %v and %v", p.Loaded, early, late)
	}
	if len(p.Functions) != 1 || p.Functions[0].Name != "short" || p.Functions[0].Tag != p.Tag {
		t.Errorf("functions %+v", p.Functions)
	}
	mapIDs, _ := info.MapIDs()
	memlock, _ := info.Memlock()
	jited, _ := info.JitedSize()
	xlated, _ := info.TranslatedSize()
	verified, _ := info.VerifiedInstructions()
	want := &Program{
		ID: id, Type: Type(ebpf.SocketFilter), Name: "short", Tag: info.Tag, UID: 0, GPL: false, MapIDs: []uint32{uint32(mapIDs[0])},
		Xlated: uint32(xlated), JITed: jited, Memlock: memlock, Verified: verified, Functions: p.Functions, Loaded: p.Loaded,
	}
	if diff := cmp.Diff(want, p, cmp.AllowUnexported(Program{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	maps, err := readMaps([]*Program{p})
	used := maps[p.MapIDs[0]]
	if diff := cmp.Diff(Map{p.MapIDs[0], "some_map"}, used.named()); len(maps) != 1 || diff != "" || err != nil {
		t.Errorf("maps: %v, -want +got:\n%s", err, diff)
	}
}

// TestFunctions reads names that are longer than those in bpf_prog_info, and tags that differ.
func TestFunctions(t *testing.T) {
	_, id := load(t, &ebpf.ProgramSpec{Name: longName, Type: ebpf.RawTracepoint, Instructions: twoFunctions()})
	p := read(t, id)
	if p.Name != longName || p.BTF == 0 || !p.GPL || len(p.Functions) != 2 {
		t.Fatalf("%+v", p)
	}
	outer, inner := p.Functions[0], p.Functions[1]
	if outer.Name != longName || inner.Name != "inner_work" || outer.Tag == inner.Tag || len(inner.Tag) != 16 {
		t.Errorf("functions %+v", p.Functions)
	}
	symbols, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range p.Functions {
		if f.Size == 0 || f.Size >= p.JITed {
			t.Errorf("%s has %d of %d bytes", f.Name, f.Size, p.JITed)
		}
		there := false
		tags := []string{f.Tag}
		if i == 0 { // the symbol of the first function may have either tag
			tags = append(tags, p.Tag)
		}
		for _, tag := range tags {
			there = there || bytes.Contains(symbols, fmt.Appendf(nil, "\n%016x t bpf_prog_%s_%s\t[bpf]\n", uint64(f.Address), tag, f.Name))
		}
		if !there {
			t.Errorf("/proc/kallsyms does not have %+v with one of the tags %s", f, tags)
		}
	}
}

// TestAll checks that ReadAll returns all loaded programs in order, and no unloaded one.
func TestAll(t *testing.T) {
	const n = 20
	var ids []uint32
	var loaded []*ebpf.Program
	for range n {
		p, id := load(t, &ebpf.ProgramSpec{Type: ebpf.SocketFilter})
		loaded, ids = append(loaded, p), append(ids, id)
	}
	r, err := NewReader(Detail{})
	if err != nil {
		t.Fatal(err)
	}
	all, err := r.all()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.IsSortedFunc(all, func(a, b *Program) int { return int(a.ID) - int(b.ID) }) {
		t.Error("not in the order of IDs")
	}
	found := 0
	for _, p := range all {
		if slices.Contains(ids, p.ID) {
			found++
		}
	}
	if found != n {
		t.Errorf("%d of %d programs", found, n)
	}
	for _, p := range loaded[1:] {
		p.Close()
	}
	waitGone(t, ids[n-1])
	if _, err := r.Read(ids[0]); err != nil {
		t.Error(err)
	}
}

// waitGone waits until the kernel has unloaded a program, which it does shortly after the last descriptor is closed.
func waitGone(t *testing.T, id uint32) {
	t.Helper()
	r, err := NewReader(Detail{})
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if _, err = r.Read(id); errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err == nil || !strings.HasPrefix(err.Error(), "there is no BPF program with the ID ") {
		t.Errorf("got %v", err)
	}
}

// TestComeAndGo checks that reading does not fail while programs are loaded and unloaded.
func TestComeAndGo(t *testing.T) {
	_, keep := load(t, &ebpf.ProgramSpec{Type: ebpf.SocketFilter})
	done := make(chan error, 1)
	go func() { done <- comeAndGo(t, require.ManyPrograms()) }()
	for {
		r, err := NewReader(Detail{Functions: true, Memlock: true})
		if err != nil {
			t.Fatal(err)
		}
		all, err := r.all()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(all, func(p *Program) bool { return p.ID == keep }) {
			t.Fatalf("program %d is missing", keep)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			return
		default:
		}
	}
}

// comeAndGo loads and unloads programs one after another.
func comeAndGo(t *testing.T, n int) error {
	var pace require.Pace
	for range n {
		p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SocketFilter, License: "GPL",
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}})
		if err != nil {
			return err
		}
		p.Close()
		pace.Closed(t)
	}
	return nil
}

// attached returns the attachments of a program.
func attached(t *testing.T, id uint32) []Attachment {
	t.Helper()
	r, err := NewReader(Detail{})
	if err != nil {
		t.Fatal(err)
	}
	all, err := r.all()
	if err != nil {
		t.Fatal(err)
	}
	maps, err := readMaps(all)
	if err != nil {
		t.Fatal(err)
	}
	everything, err := r.attachments(all, maps)
	if err != nil {
		t.Fatal(err)
	}
	return everything[id]
}

func linkID(t *testing.T, l link.Link) uint32 {
	t.Helper()
	t.Cleanup(func() { l.Close() })
	info, err := l.Info()
	if err != nil {
		t.Fatal(err)
	}
	return uint32(info.ID)
}

// cgroup creates a cgroup for a test, and returns its directory and its name.
func cgroup(t *testing.T) (dir, name string) {
	t.Helper()
	root := cgroupMount()
	if root == "" {
		t.Fatal("cgroups v2 are not mounted")
	}
	outer, err := os.MkdirTemp(root, "bperf-test-prog-*")
	if err != nil {
		t.Fatal(err)
	}
	inner := outer + "/inner"
	t.Cleanup(func() { remove(t, outer) })
	if err := os.Mkdir(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, inner) })
	return inner, "/" + filepath.Base(outer) + "/inner"
}

func remove(t *testing.T, dir string) {
	t.Helper()
	if err := os.Remove(dir); err != nil {
		t.Error(err)
	}
}

// TestAttachments attaches programs in the ways that any kernel allows.
func TestAttachments(t *testing.T) {
	require.Root(t)
	require.Tracefs(t)
	dir, name := cgroup(t)
	loopback, err := net.InterfaceByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		spec   ebpf.ProgramSpec
		attach func(*ebpf.Program) (link.Link, error)
		want   Attachment
	}{
		{"raw tracepoint", ebpf.ProgramSpec{Type: ebpf.RawTracepoint}, func(p *ebpf.Program) (link.Link, error) {
			return link.AttachRawTracepoint(link.RawTracepointOptions{Name: "sched_process_hang", Program: p})
		}, Attachment{Kind: "raw_tracepoint", To: "sched_process_hang"}},
		{"cgroup", ebpf.ProgramSpec{Type: ebpf.CGroupSKB, AttachType: ebpf.AttachCGroupInetEgress,
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()}}, func(p *ebpf.Program) (link.Link, error) {
			return link.AttachCgroup(link.CgroupOptions{Path: dir, Attach: ebpf.AttachCGroupInetEgress, Program: p})
		}, Attachment{Kind: "cgroup", To: "cgroup_inet_egress " + name}},
		{"XDP", ebpf.ProgramSpec{Type: ebpf.XDP, Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}},
			func(p *ebpf.Program) (link.Link, error) {
				return link.AttachXDP(link.XDPOptions{Program: p, Interface: loopback.Index, Flags: link.XDPGenericMode})
			}, Attachment{Kind: "xdp", To: "lo (interface 1)"}},
		{"network namespace", ebpf.ProgramSpec{Type: ebpf.SkLookup, AttachType: ebpf.AttachSkLookup,
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()}}, func(p *ebpf.Program) (link.Link, error) {
			namespace, err := os.Open("/proc/self/ns/net")
			if err != nil {
				t.Fatal(err)
			}
			defer namespace.Close()
			return link.AttachNetNs(int(namespace.Fd()), p)
		}, Attachment{Kind: "netns", To: "sk_lookup " + readlink(t, "/proc/self/ns/net")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, id := load(t, &test.spec)
			if got := attached(t, id); got != nil {
				t.Errorf("before it was attached: %v", got)
			}
			l, err := test.attach(p)
			if err != nil {
				t.Fatal(err)
			}
			test.want.Program, test.want.Link = id, linkID(t, l)
			if diff := cmp.Diff([]Attachment{test.want}, attached(t, id)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func readlink(t *testing.T, file string) string {
	t.Helper()
	target, err := os.Readlink(file)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// TestPerfEvents reads links to perf events. The kernel describes the event from Linux 6.6 on.
func TestPerfEvents(t *testing.T) {
	require.Root(t)
	require.Tracefs(t)
	described := kernelAtLeast(t, 6, 6)
	for _, test := range []struct {
		name   string
		spec   ebpf.ProgramSpec
		attach func(*ebpf.Program) (link.Link, error)
		want   Attachment
	}{
		{"tracepoint", ebpf.ProgramSpec{Type: ebpf.TracePoint}, func(p *ebpf.Program) (link.Link, error) {
			return link.Tracepoint("sched", "sched_process_hang", p, nil)
		}, Attachment{Kind: "tracepoint", To: "sched_process_hang"}},
		{"event", ebpf.ProgramSpec{Type: ebpf.PerfEvent}, func(p *ebpf.Program) (link.Link, error) {
			e, err := perfevent.Open(&perfdata.Attr{Type: perfdata.TypeSoftware, Config: perfdata.SoftwarePageFaults, SamplePeriod: 1e9,
				Flags: perfdata.AttrDisabled}, perfevent.Where{CPU: perfevent.AnyCPU})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { e.Close() })
			return link.AttachRawLink(link.RawLinkOptions{Target: e.FD(), Program: p, Attach: ebpf.AttachPerfEvent})
		}, Attachment{Kind: "perf_event", To: "type 1, config 0x2"}},
		{"kprobe", ebpf.ProgramSpec{Type: ebpf.Kprobe}, func(p *ebpf.Program) (link.Link, error) {
			return link.Kprobe("do_nanosleep", p, nil)
		}, Attachment{Kind: "kprobe", To: "do_nanosleep"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, id := load(t, &test.spec)
			l, err := test.attach(p)
			if errors.Is(err, unix.ENOENT) && !require.IsGuest() {
				t.Skipf("this kernel has no kprobes: %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			test.want.Program, test.want.Link = id, linkID(t, l)
			if !described {
				test.want.Kind, test.want.To = "perf_event", ""
			}
			if diff := cmp.Diff([]Attachment{test.want}, attached(t, id)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func kernelAtLeast(t *testing.T, major, minor int) bool {
	t.Helper()
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		t.Fatal(err)
	}
	var have [2]int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(uts.Release[:]), "%d.%d", &have[0], &have[1]); err != nil {
		t.Fatal(err)
	}
	return slices.Compare(have[:], []int{major, minor}) >= 0
}

// TestTracing attaches to a kernel function and to a program.
func TestTracing(t *testing.T) {
	require.Root(t)
	target, targetID := load(t, &ebpf.ProgramSpec{Name: longName, Type: ebpf.RawTracepoint, Instructions: twoFunctions()})
	for _, test := range []struct {
		name string
		spec ebpf.ProgramSpec
		to   string
	}{
		{"kernel", ebpf.ProgramSpec{Type: ebpf.Tracing, AttachType: ebpf.AttachTraceFEntry, AttachTo: "bpf_fentry_test1"}, "fentry bpf_fentry_test1"},
		{"sub-program", ebpf.ProgramSpec{Type: ebpf.Tracing, AttachType: ebpf.AttachTraceFExit, AttachTo: "inner_work", AttachTarget: target},
			"fexit inner_work of program " + decimal(targetID)},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.spec.License = "GPL"
			test.spec.Instructions = asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}
			p, err := ebpf.NewProgram(&test.spec)
			if errors.Is(err, os.ErrPermission) && !require.IsGuest() {
				t.Skipf("this kernel refuses fentry and fexit: %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			l, err := link.AttachTracing(link.TracingOptions{Program: p})
			if err != nil {
				t.Fatal(err)
			}
			info, err := p.Info()
			if err != nil {
				t.Fatal(err)
			}
			id, _ := info.ID()
			want := []Attachment{{Program: uint32(id), Link: linkID(t, l), Kind: "tracing", To: test.to}}
			if diff := cmp.Diff(want, attached(t, uint32(id))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestNewerLinks reads kinds of links that need newer kernels; each test has its minimum version.
func TestNewerLinks(t *testing.T) {
	require.Root(t)
	file := readlink(t, "/proc/self/exe")
	self, err := link.OpenExecutable(file)
	if err != nil {
		t.Fatal(err)
	}
	start := entry(t, file)
	for _, test := range []struct {
		name         string
		major, minor int
		spec         ebpf.ProgramSpec
		attach       func(*ebpf.Program) (link.Link, error)
		want         Attachment
	}{
		{"iterator", 5, 8, ebpf.ProgramSpec{Type: ebpf.Tracing, AttachType: ebpf.AttachTraceIter, AttachTo: "task"}, func(p *ebpf.Program) (link.Link, error) {
			return link.AttachIter(link.IterOptions{Program: p})
		}, Attachment{Kind: "iter", To: "task"}},
		{"LSM", 5, 7, ebpf.ProgramSpec{Type: ebpf.LSM, AttachType: ebpf.AttachLSMMac, AttachTo: "path_chroot"}, func(p *ebpf.Program) (link.Link, error) {
			return link.AttachLSM(link.LSMOptions{Program: p})
		}, Attachment{Kind: "tracing", To: "lsm_mac bpf_lsm_path_chroot"}},
		{"kprobe multi", 6, 6, ebpf.ProgramSpec{Type: ebpf.Kprobe, AttachType: ebpf.AttachTraceKprobeMulti}, func(p *ebpf.Program) (link.Link, error) {
			return link.KprobeMulti(p, link.KprobeMultiOptions{Symbols: []string{"do_nanosleep", "hrtimer_nanosleep"}})
		}, Attachment{Kind: "kprobe_multi", To: "2 functions"}},
		{"uprobe", 6, 6, ebpf.ProgramSpec{Type: ebpf.Kprobe}, func(p *ebpf.Program) (link.Link, error) {
			return self.Uprobe("", p, &link.UprobeOptions{Address: start})
		}, Attachment{Kind: "uprobe", To: fmt.Sprintf("%s+%#x", file, start)}},
		{"uprobe multi", 6, 8, ebpf.ProgramSpec{Type: ebpf.Kprobe, AttachType: ebpf.AttachTraceUprobeMulti}, func(p *ebpf.Program) (link.Link, error) {
			return self.UprobeMulti(nil, p, &link.UprobeMultiOptions{Addresses: []uint64{start}})
		}, Attachment{Kind: "uprobe_multi", To: file + ", 1 place"}},
		{"tcx", 6, 6, ebpf.ProgramSpec{Type: ebpf.SchedCLS, AttachType: ebpf.AttachTCXIngress}, func(p *ebpf.Program) (link.Link, error) {
			return link.AttachTCX(link.TCXOptions{Interface: 1, Program: p, Attach: ebpf.AttachTCXIngress})
		}, Attachment{Kind: "tcx", To: "tcx_ingress lo (interface 1)"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if !kernelAtLeast(t, test.major, test.minor) {
				t.Skipf("needs Linux %d.%d", test.major, test.minor)
			}
			test.spec.License = "GPL"
			test.spec.Instructions = asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}
			p, err := ebpf.NewProgram(&test.spec)
			var l link.Link
			if err == nil {
				defer p.Close()
				l, err = test.attach(p)
			}
			if err != nil && (!require.IsGuest() || errors.Is(err, link.ErrNotSupported)) { // some kernels have no kprobe_multi
				t.Skipf("this kernel does not allow it: %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			info, err := p.Info()
			if err != nil {
				t.Fatal(err)
			}
			id, _ := info.ID()
			test.want.Program, test.want.Link = uint32(id), linkID(t, l)
			if diff := cmp.Diff([]Attachment{test.want}, attached(t, uint32(id))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// entry returns the file offset of the first instruction of an executable.
func entry(t *testing.T, file string) uint64 {
	t.Helper()
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Vaddr <= f.Entry && f.Entry < p.Vaddr+p.Filesz {
			return f.Entry - p.Vaddr + p.Off
		}
	}
	t.Fatalf("%s has no entry point", file)
	return 0
}

// TestUnlinked attaches to a cgroup without a link, as systemd does it.
func TestUnlinked(t *testing.T) {
	require.Root(t)
	dir, name := cgroup(t)
	p, id := load(t, &ebpf.ProgramSpec{Type: ebpf.CGroupDevice, Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()}})
	group, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	if err := link.RawAttachProgram(link.RawAttachProgramOptions{Target: int(group.Fd()), Program: p, Attach: ebpf.AttachCGroupDevice}); err != nil {
		t.Fatal(err)
	}
	want := []Attachment{{Program: id, Kind: "cgroup", To: "cgroup_device " + name}}
	if diff := cmp.Diff(want, attached(t, id)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestMachine selects programs of this test with each kind of item.
func TestMachine(t *testing.T) {
	require.Root(t)
	require.BPFFS(t)
	m, err := ebpf.NewMap(&ebpf.MapSpec{Name: "bperf_test_map", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	mapInfo, err := m.Info()
	if err != nil {
		t.Fatal(err)
	}
	mapID, _ := mapInfo.ID()
	prog, id := load(t, &ebpf.ProgramSpec{Name: longName, Type: ebpf.CGroupSKB, AttachType: ebpf.AttachCGroupInetIngress,
		Instructions: asm.Instructions{
			btf.WithFuncMetadata(asm.LoadMapPtr(asm.R1, m.FD()).WithSymbol(longName), btf.FuncMetadata(&twoFunctions()[0])),
			asm.Mov.Imm(asm.R0, 1), asm.Return()}})
	dir, name := cgroup(t)
	l, err := link.AttachCgroup(link.CgroupOptions{Path: dir, Attach: ebpf.AttachCGroupInetIngress, Program: prog})
	if err != nil {
		t.Fatal(err)
	}
	linked := linkID(t, l)
	pins, err := os.MkdirTemp("/sys/fs/bpf", "bperf-test-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(pins) })
	for file, pin := range map[string]func(string) error{"/prog": prog.Pin, "/link": l.Pin, "/map": m.Pin} {
		if err := pin(pins + file); err != nil {
			t.Fatal(err)
		}
	}
	r, err := NewReader(Detail{})
	if err != nil {
		t.Fatal(err)
	}
	all, err := r.all()
	if err != nil {
		t.Fatal(err)
	}
	tag := read(t, id).Tag
	for _, item := range []string{
		decimal(id), "all", "name:count_what_nobody_*_before", "tag:" + tag, "type:cgroup_skb", "map:" + decimal(uint32(mapID)), "map:bperf_test_map",
		"link:" + decimal(linked), "pinned:" + pins + "/prog", "pinned:" + pins + "/link", "cgroup:" + name, "cgroup:" + dir, "pid:" + decimal(uint32(os.Getpid())),
	} {
		s, err := Parse(item)
		if err != nil {
			t.Errorf("%s: %v", item, err)
			continue
		}
		selected, missing := s.Select(all, Machine{})
		if !slices.ContainsFunc(selected, func(p *Program) bool { return p.ID == id }) || missing != nil {
			t.Errorf("%s does not select program %d: %v", item, id, missing)
		}
	}
	for item, want := range map[string]string{
		"pinned:" + pins + "/map":      "what is pinned at " + pins + "/map is neither a program nor a link",
		"pinned:" + pins + "/none":     "open what is pinned at " + pins + "/none: no such file or directory",
		"map:bperf_no_map":             `no BPF map has the name "bperf_no_map"`,
		"map:2147483647":               "none of those that are loaded matches",
		"link:2147483647":              "there is no BPF link with the ID 2147483647",
		"cgroup:" + name + "/nothing":  "there is no cgroup " + name + "/nothing in " + cgroupMount(),
		"cgroup:" + filepath.Dir(name): "none of those that are loaded matches",
		"pid:2147483647":               "there is no process 2147483647",
		"2147483647":                   "none of those that are loaded matches",
	} {
		s, err := Parse(item)
		if err != nil {
			t.Errorf("%s: %v", item, err)
			continue
		}
		selected, missing := s.Select(all, Machine{})
		if len(selected) != 0 || len(missing) != 1 || missing[0].Error() != `no BPF program is selected by "`+item+`": `+want {
			t.Errorf("%s: %v, %v; want %s", item, selected, missing, want)
		}
	}
}

func decimal(n uint32) string { return strconv.FormatUint(uint64(n), 10) }
