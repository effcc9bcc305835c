package bpfprog

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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

func (h Holder) String() string { return fmt.Sprintf("%s (%d)", h.Comm, h.PID) }

// Holders are the processes that hold programs, by ID of the program and in the order of their PIDs. They are read from a
// procfs that is mounted at root. Processes that end meanwhile, and those that this one may not look at, are left out.
func Holders(root string) (map[uint32][]Holder, error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, fmt.Errorf("look for the processes that hold BPF programs: %w", err)
	}
	s := newScanner(root)
	all := make(map[uint32][]Holder)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		ids, err := s.held(pid)
		if err != nil {
			continue
		}
		for _, id := range ids {
			all[id] = append(all[id], Holder{pid, s.comm(pid)})
		}
	}
	for _, holders := range all {
		slices.SortFunc(holders, func(a, b Holder) int { return cmp.Compare(a.PID, b.PID) })
	}
	return all, nil
}

// Held are the IDs of the programs that a process holds, in ascending order.
func Held(root string, pid int) ([]uint32, error) {
	ids, err := newScanner(root).held(pid)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no process %d", pid)
	case err != nil:
		return nil, fmt.Errorf("look at the open files of process %d: %w%s", pid, err, remedy(err))
	}
	return ids, nil
}

// scanner goes over open files. Its buffers are used again and again: there are many.
type scanner struct {
	root         string
	comms        map[int]string
	link, fdinfo [4096]byte
}

func newScanner(root string) *scanner { return &scanner{root: root, comms: make(map[int]string)} }

// held reads what a process holds (https://docs.kernel.org/filesystems/proc.html, 3.8).
func (s *scanner) held(pid int) ([]uint32, error) {
	process := filepath.Join(s.root, strconv.Itoa(pid))
	dir, err := os.Open(process + "/fd")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var ids []uint32
	for _, name := range names {
		n, err := unix.Readlinkat(int(dir.Fd()), name, s.link[:])
		if err != nil || !isBPF(string(s.link[:n])) {
			continue
		}
		data, err := readInto(s.fdinfo[:], process+"/fdinfo/"+name)
		if err != nil { // closed meanwhile
			continue
		}
		if id, ok := field(data, "prog_id"); ok {
			ids = append(ids, uint32(id))
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// isBPF tells whether an open file can hold a program: BPF programs and links; they are anonymous inodes.
func isBPF(target string) bool {
	name, ok := strings.CutPrefix(target, "anon_inode:")
	return ok && (name == "bpf-prog" || name == "bpf_link" || name == "bpf-link")
}

// comm is the name of a process; empty if it has just ended.
func (s *scanner) comm(pid int) string {
	name, known := s.comms[pid]
	if !known {
		data, _ := os.ReadFile(filepath.Join(s.root, strconv.Itoa(pid), "comm"))
		name = strings.TrimSuffix(string(data), "\n")
		s.comms[pid] = name
	}
	return name
}
