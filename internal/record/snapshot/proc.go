package snapshot

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/perfdata"
)

// read returns the start of a file, at most 64 KiB. The result is valid until the next call.
func (s *Snapshot) read(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	n, err := io.ReadFull(f, s.buf)
	if errors.Is(err, io.ErrUnexpectedEOF) || err == io.EOF {
		err = nil
	}
	return s.buf[:n], err
}

// processStatus has the fields of /proc/PID/status that records need.
type processStatus struct {
	comm    string
	parent  int32
	threads int
	kernel  bool // a kernel thread, which has no memory of its own
}

// status reads /proc/PID/status (proc_pid_status(5)).
func (s *Snapshot) status(dir string) (processStatus, error) {
	text, err := s.read(dir + "/status")
	if err != nil {
		return processStatus{}, err
	}
	return parseStatus(procfs.Status(text))
}

func parseStatus(text procfs.Status) (processStatus, error) {
	status := processStatus{comm: unescapeName(text.Field("Name")), kernel: text.Field("VmSize") == ""}
	parent, _ := strconv.ParseInt(text.Field("PPid"), 10, 32)
	status.parent = int32(parent)
	status.threads, _ = strconv.Atoi(text.Field("Threads"))
	if status.threads == 0 {
		return status, errors.New("it has no threads")
	}
	return status, nil
}

// unescapeName replaces \n and \\, the only escapes of the field Name.
func unescapeName(name string) string {
	b := []byte(name)
	out := b[:0]
	for i := 0; i < len(b); i++ {
		if b[i] == '\\' && i+1 < len(b) && (b[i+1] == 'n' || b[i+1] == '\\') {
			i++
			if b[i] == 'n' {
				out = append(out, '\n')
				continue
			}
		}
		out = append(out, b[i])
	}
	return string(out)
}

// maps emits a record for each mapping of a process.
func (s *Snapshot) maps(dir string, pid int32) error {
	f, err := os.Open(dir + "/maps")
	if err != nil {
		return nil // it has ended, or is hidden
	}
	defer f.Close()
	m := &perfdata.Mmap2{PID: pid, TID: pid}
	for mapping := range procfs.Mappings(f, s.buf) {
		if !s.describe(mapping, m) {
			continue
		}
		m.BuildID = s.buildID(m)
		if err := s.emit(perfdata.MiscUser, m); err != nil {
			return err
		}
	}
	return nil
}

// buildID returns the build ID of an executable mapping. It reads each name once.
func (s *Snapshot) buildID(m *perfdata.Mmap2) []byte {
	if s.BuildID == nil || m.Data || !strings.HasPrefix(m.Filename, "/") || strings.HasPrefix(m.Filename, "//") {
		return nil
	}
	const most = 1 << 14 // names in the cache
	id, known := s.ids[m.Filename]
	if !known {
		id = s.BuildID(m.Filename, m.PID)
		if len(id) == 0 {
			id = nil
		}
		if len(s.ids) < most {
			s.ids[m.Filename] = id
		}
	}
	return id
}

// describe fills in the record of a mapping. It returns false if the mapping is not recorded.
func (s *Snapshot) describe(from *procfs.Mapping, to *perfdata.Mmap2) bool {
	to.Data = !from.Executable()
	if to.Data && (!s.Data || from.Perms[0] != 'r') {
		return false
	}
	to.Start, to.Length, to.Offset = from.Start, from.End-from.Start, from.Offset
	to.Major, to.Minor, to.Inode = from.Major, from.Minor, from.Inode
	to.Protection, to.Flags = 0, syscall.MAP_PRIVATE
	for i, bit := range []uint32{syscall.PROT_READ, syscall.PROT_WRITE, syscall.PROT_EXEC} {
		if from.Perms[i] != '-' {
			to.Protection |= bit
		}
	}
	if from.Perms[3] == 's' {
		to.Flags = syscall.MAP_SHARED
	}
	to.Filename = s.name(from.Path)
	return to.Filename != "[vsyscall]" // all processes have it, and none runs there: the kernel emulates the calls
}

// name returns the name of a mapping as the kernel's records have it. It caches names, because most occur in many processes.
func (s *Snapshot) name(text []byte) string {
	if len(text) == 0 || bytes.HasPrefix(text, []byte("/anon_hugepage")) || bytes.HasPrefix(text, []byte("[anon:")) {
		return "//anon"
	}
	if name, known := s.names[string(text)]; known {
		return name
	}
	const most = 1 << 16 // names in the cache
	name := string(bytes.ReplaceAll(text, []byte(`\012`), []byte("\n")))
	if len(s.names) < most {
		s.names[string(text)] = name
	}
	return name
}

// namespacesOf emits the namespaces of a process: the links of /proc/PID/ns, in the order of the kernel's record.
func (s *Snapshot) namespacesOf(dir string, pid int32) error {
	n := &perfdata.Namespaces{PID: pid, TID: pid}
	for _, name := range []string{"net", "uts", "ipc", "pid", "user", "mnt", "cgroup"} {
		n.Links = append(n.Links, namespaceLink(dir+"/ns/"+name))
	}
	return s.emit(0, n)
}

// namespaceLink returns the file in nsfs that a link names. It is zero if the link cannot be followed.
func namespaceLink(name string) perfdata.NamespaceLink {
	info, err := os.Stat(name)
	if err != nil {
		return perfdata.NamespaceLink{}
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return perfdata.NamespaceLink{}
	}
	return perfdata.NamespaceLink{Device: uint64(stat.Dev), Inode: stat.Ino}
}
