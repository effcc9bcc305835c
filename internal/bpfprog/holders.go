package bpfprog

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Holder is a process that keeps a program loaded by a descriptor: of the program itself, or of a link.
type Holder struct {
	PID  int    `json:"pid"`
	Comm string `json:"comm"` // its name, of at most 15 bytes
}

func (h Holder) String() string { return h.Comm + " (" + strconv.Itoa(h.PID) + ")" }

// Holders are the processes that hold programs, by ID of the program and in the order of their PIDs. They are read from a
// procfs that is mounted at root. Processes that end meanwhile, and those that this one may not look at, are left out.
func Holders(root string) (map[uint32][]Holder, error) {
	found, err := holders(root, "")
	return found.holders, err
}

// holding is what open files of processes tell of programs.
type holding struct {
	holders map[uint32][]Holder
	memlock map[uint32]uint64 // bytes, of programs that are held by descriptors of their own
	perf    []perfFile
}

// holders goes over all processes but one.
func holders(root, except string) (holding, error) {
	pids, err := listPIDs(root, except)
	if err != nil {
		return holding{}, fmt.Errorf("look for the processes that hold BPF programs: %w", err)
	}
	s := scanner{root: root}
	for _, pid := range pids {
		s.scan(pid) // whatever hides a process, others are there
	}
	all := holding{make(map[uint32][]Holder), make(map[uint32]uint64), s.perf}
	for _, f := range s.found {
		all.holders[f.program] = append(all.holders[f.program], f.Holder)
		if f.memlock > 0 {
			all.memlock[f.program] = f.memlock
		}
	}
	for id, list := range all.holders {
		slices.SortFunc(list, func(a, b Holder) int { return cmp.Compare(a.PID, b.PID) })
		all.holders[id] = slices.CompactFunc(list, func(a, b Holder) bool { return a.PID == b.PID })
	}
	return all, nil
}

func listPIDs(root, except string) ([]int, error) {
	dir, err := os.Open(root)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && name != except {
			pids = append(pids, pid)
		}
	}
	return pids, nil
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
	comm, _ := os.ReadFile(p.path + "/comm") // empty if it has just ended
	p.holder.Comm = strings.TrimSuffix(string(comm), "\n")
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
