package bpfprog

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/internal/procfs"
)

// Holder is a process that keeps a program loaded with a descriptor of the program or of a link.
type Holder struct {
	PID  int    `json:"pid"`
	Comm string `json:"comm"` // name of the process, at most 15 bytes
}

func (h Holder) String() string { return h.Comm + " (" + strconv.Itoa(h.PID) + ")" }

// holding is what the open files of processes reveal about programs.
type holding struct {
	files []file // sorted by program and PID
	perf  []perfFile
}

// mostScanners limits the number of threads that scan open files, because they contend for the same directories.
const mostScanners = 4

// holders scans the open files of all processes except one. root is where procfs is mounted. It leaves out processes that end during the scan,
// and those that this process may not inspect.
func holders(root string, except int) (holding, error) {
	pids, err := procfs.Processes(os.DirFS(root))
	if err != nil {
		return holding{}, fmt.Errorf("look for the processes that hold BPF programs: %w", err)
	}
	pids = slices.DeleteFunc(pids, func(pid int) bool { return pid == except })
	scanners := make([]scanner, min(mostScanners, runtime.GOMAXPROCS(0)))
	var left atomic.Int64 // counts down, so that kernel threads, which have no files, come last and even out the scanners
	left.Store(int64(len(pids)))
	var ended sync.WaitGroup
	for i := range scanners {
		s := &scanners[i]
		s.root = root
		ended.Go(func() {
			for i := left.Add(-1); i >= 0; i = left.Add(-1) {
				s.scan(pids[i]) // an error concerns this process only
			}
		})
	}
	ended.Wait()
	var all holding
	for _, s := range scanners {
		all.files, all.perf = append(all.files, s.found...), append(all.perf, s.perf...)
	}
	slices.SortFunc(all.files, func(a, b file) int { return cmp.Or(cmp.Compare(a.program, b.program), cmp.Compare(a.PID, b.PID)) })
	return all, nil
}

// of returns the processes that hold a program, in the order of their PIDs, and the memory charged for it in bytes. The memory is 0 if no
// process has a descriptor of the program itself.
func (h holding) of(program uint32) (held []Holder, memlock uint64) {
	first, _ := slices.BinarySearchFunc(h.files, program, func(f file, id uint32) int { return cmp.Compare(f.program, id) })
	for _, f := range h.files[first:] {
		if f.program != program {
			break
		}
		if len(held) == 0 || held[len(held)-1].PID != f.PID {
			held = append(held, f.Holder)
		}
		memlock = max(memlock, f.memlock)
	}
	return held, memlock
}

// Held returns the IDs of the programs that a process holds, in ascending order. root is where procfs is mounted.
func Held(root string, pid int) ([]uint32, error) {
	s := scanner{root: root}
	err := s.scan(pid)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no process %d", pid)
	case err != nil:
		return nil, fmt.Errorf("look at the open files of process %d: %w%s", pid, err, remedy(err))
	}
	var ids []uint32
	for _, f := range s.found {
		ids = append(ids, f.program)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// scanner scans the open files of processes. It reuses its buffers, because there are many files.
type scanner struct {
	root    string
	found   []file
	perf    []perfFile
	entries [16384]byte
	fdinfo  [4096]byte
	link    [32]byte // longer than the link of any BPF object
}

// file is an open file: a program or a link.
type file struct {
	Holder
	program uint32
	memlock uint64 // 0 for a link
}

// scan adds the open files of a process to found and perf (https://docs.kernel.org/filesystems/proc.html, 3.8).
func (s *scanner) scan(pid int) error {
	process := s.root + "/" + strconv.Itoa(pid)
	dir, err := openat(unix.AT_FDCWD, terminated(process+"/fd"))
	if err != nil {
		return err
	}
	defer closeFile(dir)
	p := openProcess{path: process, holder: Holder{PID: pid}, fdinfo: -1}
	defer p.close()
	for {
		entries, err := readEntries(s.entries[:], dir)
		if err != nil || len(entries) == 0 {
			return err
		}
		for name := range entryNames(entries) {
			link, err := readlinkInto(s.link[:], dir, name)
			switch {
			case err == unix.EACCES: // of every file: this process may only see their numbers
				return err
			case err != nil: // the file was closed
			case string(link) == "anon_inode:[perf_event]":
				fd, _ := strconv.Atoi(text(name)) // procfs names descriptors by their number
				s.perf = append(s.perf, perfFile{uint32(pid), uint32(fd)})
			case isBPF(link):
				if err := p.open(); err != nil {
					return err
				}
				s.read(&p, name)
			}
		}
	}
}

// read reads fdinfo of a file and adds it to found, if it is still open.
func (s *scanner) read(p *openProcess, fd []byte) {
	data, err := readInto(s.fdinfo[:], p.fdinfo, fd)
	if err != nil {
		return
	}
	if id, ok := field(data, "prog_id"); ok {
		memlock, _ := field(data, "memlock")
		s.found = append(s.found, file{p.holder, uint32(id), memlock})
	}
}

// openProcess is a process whose files are being scanned. Its comm and fdinfo are opened with the first BPF file, because most processes have
// none.
type openProcess struct {
	path   string
	holder Holder
	fdinfo int // descriptor of the directory, which makes paths shorter to look up; -1 if it is not open
}

func (p *openProcess) open() (err error) {
	if p.fdinfo >= 0 {
		return nil
	}
	p.holder.Comm, _ = procfs.Comm(os.DirFS(p.path), ".") // empty if it has just ended
	p.fdinfo, err = openat(unix.AT_FDCWD, terminated(p.path+"/fdinfo"))
	return err
}

func (p *openProcess) close() {
	if p.fdinfo >= 0 {
		closeFile(p.fdinfo)
	}
}

// isBPF reports whether the link of an open file in procfs is that of a BPF program or of a BPF link.
func isBPF(target []byte) bool {
	name, ok := bytes.CutPrefix(target, []byte("anon_inode:"))
	return ok && (string(name) == "bpf-prog" || string(name) == "bpf_link" || string(name) == "bpf-link")
}
