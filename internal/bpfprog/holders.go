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

// Holder is a process that keeps a program loaded by a descriptor: of the program itself, or of a link.
type Holder struct {
	PID  int    `json:"pid"`
	Comm string `json:"comm"` // its name, of at most 15 bytes
}

func (h Holder) String() string { return h.Comm + " (" + strconv.Itoa(h.PID) + ")" }

// holding is what open files of processes tell of programs.
type holding struct {
	files []file // in the order of programs and PIDs
	perf  []perfFile
}

// mostScanners is how many threads look at open files: all of them wait for each other when they go over the same directories.
const mostScanners = 4

// holders goes over all processes but one, of a procfs that is mounted at root. Processes that end meanwhile, and those that this one may not
// look at, are left out.
func holders(root string, except int) (holding, error) {
	pids, err := procfs.Processes(os.DirFS(root))
	if err != nil {
		return holding{}, fmt.Errorf("look for the processes that hold BPF programs: %w", err)
	}
	pids = slices.DeleteFunc(pids, func(pid int) bool { return pid == except })
	scanners := make([]scanner, min(mostScanners, runtime.GOMAXPROCS(0)))
	var left atomic.Int64 // the newest are first, so that kernel threads, which have no files, are left for whoever has time
	left.Store(int64(len(pids)))
	var ended sync.WaitGroup
	for i := range scanners {
		s := &scanners[i]
		s.root = root
		ended.Go(func() {
			for i := left.Add(-1); i >= 0; i = left.Add(-1) {
				s.scan(pids[i]) // whatever hides a process, others are there
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

// of are the processes that hold a program, in the order of their PIDs, and its memory in bytes, which descriptors of its own tell; 0 if there is none.
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

// Held are the IDs of the programs that a process holds, in ascending order.
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

// scanner goes over the open files of processes. Its buffers are used again and again: there are many.
type scanner struct {
	root    string
	found   []file
	perf    []perfFile
	entries [16384]byte
	fdinfo  [4096]byte
	link    [32]byte // more than the names of BPF objects have
}

// file is an open file: a program, or a link to one.
type file struct {
	Holder
	program uint32
	memlock uint64 // 0 for a link
}

// scan finds those of a process (https://docs.kernel.org/filesystems/proc.html, 3.8).
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
			case err == unix.EACCES: // for all of them: this process may see their names alone
				return err
			case err != nil: // it was closed
			case string(link) == "anon_inode:[perf_event]":
				fd, _ := strconv.Atoi(text(name)) // as procfs names them
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

// read reads what a file tells, if it is still open.
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

// openProcess is a process with such files: of most, no more is opened than the list of their files.
type openProcess struct {
	path   string
	holder Holder
	fdinfo int // its directory, as paths from the root of procfs take longer; -1 if it is not open
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

// isBPF tells whether the target of an open file is one that can hold a program: a BPF program or link.
func isBPF(target []byte) bool {
	name, ok := bytes.CutPrefix(target, []byte("anon_inode:"))
	return ok && (string(name) == "bpf-prog" || string(name) == "bpf_link" || string(name) == "bpf-link")
}
