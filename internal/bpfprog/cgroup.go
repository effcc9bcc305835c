package bpfprog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/procfs"
)

// cgroupMount returns where the cgroup v2 hierarchy is mounted; empty if it is not. Programs can only be attached to cgroups of v2.
func cgroupMount() string {
	mounts, err := procfs.Mounts(os.DirFS("/proc"), "self")
	if err != nil {
		return ""
	}
	dir, _ := procfs.FindMount(mounts, "cgroup2", "")
	return dir
}

// fileidKernfs is FILEID_KERNFS from include/linux/exportfs.h: the type of a file handle that is a cgroup ID (Linux 5.5).
const fileidKernfs = 0xfe

// cgroups is the cgroup v2 hierarchy.
type cgroups struct {
	root string // mount point; empty if it is not mounted
}

// CgroupName returns the path of the cgroup v2 with an ID, from the root of the hierarchy that this process sees, and its directory. ok is false
// if it cannot be found.
func CgroupName(id uint64) (name, dir string, ok bool) {
	c := cgroups{root: cgroupMount()}
	name, ok = c.find(id)
	return name, path.Join(c.root, name), ok
}

// CgroupPath returns the path of the cgroup v2 with an ID, from the root of the hierarchy that is mounted on root. ok is false if it cannot
// be found, and without CAP_DAC_READ_SEARCH.
func CgroupPath(root string, id uint64) (name string, ok bool) { return cgroups{root: root}.find(id) }

// path returns the path of a cgroup from the root of the hierarchy, or "cgroup ID" if it cannot be found.
func (c cgroups) path(id uint64) string {
	if name, ok := c.find(id); ok {
		return name
	}
	return fmt.Sprintf("cgroup %d", id)
}

// find returns the path of the cgroup with an ID, from the root of the hierarchy.
func (c cgroups) find(id uint64) (string, bool) {
	mount, err := unix.Open(c.root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", false
	}
	defer unix.Close(mount)
	handle := unix.NewFileHandle(fileidKernfs, binary.NativeEndian.AppendUint64(nil, id))
	dir, err := unix.OpenByHandleAt(mount, handle, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return "", false
	}
	defer unix.Close(dir)
	full, err := os.Readlink(fmt.Sprint("/proc/self/fd/", dir))
	if err != nil {
		return "", false
	}
	return c.name(full)
}

// name returns the path of a directory from the root of the hierarchy, and whether the directory is in it.
func (c cgroups) name(dir string) (string, bool) {
	below, err := filepath.Rel(c.root, dir)
	if err != nil || below == ".." || strings.HasPrefix(below, "../") {
		return "", false
	}
	return path.Clean("/" + below), true
}

// attachTypes has the attach types of each type of program that can be attached to a cgroup.
var attachTypes = map[ebpf.ProgramType][]ebpf.AttachType{
	ebpf.CGroupSKB: {ebpf.AttachCGroupInetIngress, ebpf.AttachCGroupInetEgress},
	ebpf.CGroupSock: {ebpf.AttachCGroupInetSockCreate, ebpf.AttachCGroupInet4PostBind, ebpf.AttachCGroupInet6PostBind,
		ebpf.AttachCgroupInetSockRelease},
	ebpf.SockOps:      {ebpf.AttachCGroupSockOps},
	ebpf.CGroupDevice: {ebpf.AttachCGroupDevice},
	ebpf.CGroupSockAddr: {ebpf.AttachCGroupInet4Bind, ebpf.AttachCGroupInet6Bind, ebpf.AttachCGroupInet4Connect,
		ebpf.AttachCGroupInet6Connect, ebpf.AttachCGroupUDP4Sendmsg, ebpf.AttachCGroupUDP6Sendmsg, ebpf.AttachCGroupUDP4Recvmsg,
		ebpf.AttachCGroupUDP6Recvmsg, ebpf.AttachCgroupInet4GetPeername, ebpf.AttachCgroupInet6GetPeername,
		ebpf.AttachCgroupInet4GetSockname, ebpf.AttachCgroupInet6GetSockname, ebpf.AttachCgroupUnixConnect,
		ebpf.AttachCgroupUnixSendmsg, ebpf.AttachCgroupUnixRecvmsg, ebpf.AttachCgroupUnixGetpeername,
		ebpf.AttachCgroupUnixGetsockname},
	ebpf.CGroupSysctl:  {ebpf.AttachCGroupSysctl},
	ebpf.CGroupSockopt: {ebpf.AttachCGroupGetsockopt, ebpf.AttachCGroupSetsockopt},
	ebpf.LSM:           {ebpf.AttachLSMCgroup},
}

// addUnlinked adds the programs that are attached to cgroups without a link, as systemd does it. It queries all cgroups, but only if a program
// without a link has a type for cgroups.
func (c cgroups) addUnlinked(attached map[uint32][]Attachment, all []*Program) error {
	loose := make(map[uint32]bool)
	var types []ebpf.AttachType
	for _, p := range all {
		t := ebpf.ProgramType(p.Type)
		if t == ebpf.LSM || attachTypes[t] == nil || len(attached[p.ID]) > 0 {
			continue
		}
		loose[p.ID] = true
		for _, a := range attachTypes[t] {
			if !slices.Contains(types, a) {
				types = append(types, a)
			}
		}
	}
	if len(loose) == 0 || c.root == "" {
		return nil
	}
	return filepath.WalkDir(c.root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() { // the cgroup was removed during the walk
			return nil
		}
		hooks, err := hooksOf(name, types)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		below, _ := c.name(name)
		for _, h := range hooks {
			if loose[h.program] {
				attached[h.program] = append(attached[h.program], Attachment{
					Program: h.program, Kind: "cgroup", To: nameOf(attachNames, uint32(h.attach)) + " " + below})
			}
		}
		return nil
	})
}

// hooksOf returns the programs that are attached to the cgroup in a directory.
func hooksOf(dir string, types []ebpf.AttachType) ([]hook, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open cgroup %s: %w", dir, err)
	}
	defer unix.Close(fd)
	hooks, err := cgroupHooks(fd, types)
	if err != nil {
		return nil, fmt.Errorf("cgroup %s: %w", dir, err)
	}
	return hooks, nil
}

// programs returns the IDs of the programs that are attached to a cgroup itself, with or without a link, in no particular order. name is the
// cgroup's directory, or its path from the root of the hierarchy.
func (c cgroups) programs(name string) ([]uint32, error) {
	if c.root == "" {
		return nil, errors.New("cgroups v2, to which programs are attached, are not mounted. Try: mount -t cgroup2 none /sys/fs/cgroup")
	}
	below, inside := c.name(name)
	if !inside {
		below = path.Clean("/" + name)
	}
	var types []ebpf.AttachType
	for _, t := range attachTypes {
		types = append(types, t...)
	}
	hooks, err := hooksOf(path.Join(c.root, below), types)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no cgroup %s in %s", below, c.root)
	}
	if err != nil {
		return nil, err
	}
	var all []uint32
	for _, h := range hooks {
		all = append(all, h.program)
	}
	return all, nil
}

// hook is a program that is attached to a cgroup.
type hook struct {
	program uint32
	attach  ebpf.AttachType
}

// cgroupHooks returns the programs that a cgroup has at these attach types. dir is a descriptor of the cgroup's directory.
func cgroupHooks(dir int, types []ebpf.AttachType) ([]hook, error) {
	var all []hook
	for _, t := range types {
		result, err := link.QueryPrograms(link.QueryOptions{Target: dir, Attach: t})
		switch {
		case errors.Is(err, unix.EINVAL), errors.Is(err, ebpf.ErrNotSupported): // this kernel does not know the attach type
			continue
		case err != nil:
			return nil, fmt.Errorf("ask for BPF programs at %s: %w%s", nameOf(attachNames, uint32(t)), err, remedy(err))
		}
		for _, p := range result.Programs {
			all = append(all, hook{uint32(p.ID), t})
		}
	}
	return all, nil
}
