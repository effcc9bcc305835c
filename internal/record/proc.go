package record

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"

	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/perfdata"
)

// read reads a file that is no longer than the buffer, which has the result until the next call.
func (s *synthesizer) read(name string) ([]byte, error) {
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

// processStatus is what is used of /proc/PID/status.
type processStatus struct {
	comm    string
	parent  int32
	threads int
	kernel  bool // a thread of the kernel: it has no memory of its own
}

// status reads /proc/PID/status (proc_pid_status(5)).
func (s *synthesizer) status(dir string) (processStatus, error) {
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

// unescapeName turns \n and \\ back: only these are escaped in the line Name.
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
func (s *synthesizer) maps(dir string, pid int32) error {
	f, err := os.Open(dir + "/maps")
	if err != nil {
		return nil // it has ended, or may not be seen
	}
	defer f.Close()
	m := &perfdata.Mmap2{PID: pid, TID: pid}
	for mapping := range procfs.Mappings(f, s.buf) {
		if !s.describe(mapping, m) {
			continue
		}
		if err := s.emit(perfdata.MiscUser, m); err != nil {
			return err
		}
	}
	return nil
}

const (
	protRead  = 1 // PROT_READ, …, MAP_SHARED, MAP_PRIVATE, as in <sys/mman.h>
	protWrite = 2
	protExec  = 4

	mapShared  = 1
	mapPrivate = 2
)

// describe makes the record of a mapping; false for one that is not recorded.
func (s *synthesizer) describe(from *procfs.Mapping, to *perfdata.Mmap2) bool {
	to.Data = !from.Executable()
	if to.Data && (!s.data || from.Perms[0] != 'r') {
		return false
	}
	to.Start, to.Length, to.Offset = from.Start, from.End-from.Start, from.Offset
	to.Major, to.Minor, to.Inode = from.Major, from.Minor, from.Inode
	to.Protection, to.Flags = 0, mapPrivate
	for i, bit := range []uint32{protRead, protWrite, protExec} {
		if from.Perms[i] != '-' {
			to.Protection |= bit
		}
	}
	if from.Perms[3] == 's' {
		to.Flags = mapShared
	}
	to.Filename = s.name(from.Path)
	return to.Filename != "[vsyscall]" // which is in all processes, and where nothing runs: the kernel acts in its place
}

// name is the name of a mapping as the kernel has it in records. Most names are there often, and are kept.
func (s *synthesizer) name(text []byte) string {
	if len(text) == 0 || bytes.HasPrefix(text, []byte("/anon_hugepage")) || bytes.HasPrefix(text, []byte("[anon:")) {
		return "//anon"
	}
	if name, known := s.names[string(text)]; known {
		return name
	}
	const most = 1 << 16 // names in memory, however many there are
	name := string(bytes.ReplaceAll(text, []byte(`\012`), []byte("\n")))
	if len(s.names) < most {
		s.names[string(text)] = name
	}
	return name
}

// namespacesOf tells which namespaces a process is in: links of /proc/PID/ns, in the order of the kernel's record.
func (s *synthesizer) namespacesOf(dir string, pid int32) error {
	n := &perfdata.Namespaces{PID: pid, TID: pid}
	for _, name := range []string{"net", "uts", "ipc", "pid", "user", "mnt", "cgroup"} {
		n.Links = append(n.Links, namespaceLink(dir+"/ns/"+name))
	}
	return s.emit(0, n)
}
