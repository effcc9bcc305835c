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
	"strings"
	"sync"
	"sync/atomic"

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
}

// holders goes over all processes but one: first their open files, then what those tell that are of BPF. Both are shared by as many
// threads as there are CPUs, as procfs makes each file anew, and often it is one process that holds most.
func holders(root, except string) (holding, error) {
	pids, err := listPIDs(root, except)
	if err != nil {
		return holding{}, fmt.Errorf("look for the processes that hold BPF programs: %w", err)
	}
	files := share(len(pids), func(s *scanner, i int) { s.scan(root, pids[i]) }) // whatever hides a process, others are there
	defer closeAll(files)
	found := share(len(files), func(s *scanner, i int) { s.read(files[i]) })
	all := holding{make(map[uint32][]Holder), make(map[uint32]uint64)}
	for _, f := range found {
		all.holders[f.program] = append(all.holders[f.program], Holder{f.process.pid, f.process.comm})
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

// share does n pieces of work with a scanner for each CPU and returns what they have found.
func share(n int, work func(s *scanner, i int)) []file {
	scanners := make([]scanner, min(runtime.GOMAXPROCS(0), 8))
	var next atomic.Int64
	var wait sync.WaitGroup
	for i := range scanners {
		wait.Go(func() {
			for k := int(next.Add(1)) - 1; k < n; k = int(next.Add(1)) - 1 {
				work(&scanners[i], k)
			}
		})
	}
	wait.Wait()
	var all []file
	for i := range scanners {
		all = append(all, scanners[i].found...)
	}
	return all
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
	var files, held scanner
	err := files.scan(root, pid)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no process %d", pid)
	case err != nil:
		return nil, fmt.Errorf("look at the open files of process %d: %w%s", pid, err, remedy(err))
	}
	defer closeAll(files.found)
	var ids []uint32
	for _, f := range files.found {
		held.read(f)
	}
	for _, f := range held.found {
		ids = append(ids, f.program)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// scanner goes over the open files of processes. Its buffers are used again and again: there are many.
type scanner struct {
	found   []file
	names   []string
	entries [16384]byte
	fdinfo  [4096]byte
	link    [32]byte // more than the names of BPF objects have
}

// file is an open file: a program, or a link to one.
type file struct {
	process *process
	fd      string
	program uint32
	memlock uint64 // 0 for a link
}

// process is one with such files.
type process struct {
	pid    int
	comm   string
	fdinfo int // its directory, as paths from the root of procfs take longer
}

// closeAll closes the directories of the processes of files, those of a process being next to each other.
func closeAll(files []file) {
	for i, f := range files {
		if i == 0 || f.process != files[i-1].process {
			unix.Close(f.process.fdinfo)
		}
	}
}

// scan finds those of a process (https://docs.kernel.org/filesystems/proc.html, 3.8).
func (s *scanner) scan(root string, pid int) error {
	path := root + "/" + strconv.Itoa(pid)
	dir, err := unix.Open(path+"/fd", directory, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	var holder *process
	for {
		n, err := unix.ReadDirent(dir, s.entries[:])
		if err != nil || n == 0 {
			return err
		}
		_, _, s.names = unix.ParseDirent(s.entries[:n], -1, s.names[:0])
		for _, name := range s.names {
			n, err := unix.Readlinkat(dir, name, s.link[:])
			if err != nil || !isBPF(s.link[:n]) {
				continue
			}
			if holder == nil {
				if holder, err = openProcess(path, pid); err != nil {
					return err
				}
			}
			s.found = append(s.found, file{process: holder, fd: name})
		}
	}
}

const directory = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC

func openProcess(path string, pid int) (*process, error) {
	fdinfo, err := unix.Open(path+"/fdinfo", directory, 0)
	if err != nil {
		return nil, err
	}
	comm, _ := os.ReadFile(path + "/comm") // empty if it has just ended
	return &process{pid, strings.TrimSuffix(string(comm), "\n"), fdinfo}, nil
}

// read reads what one tells, if it is still open.
func (s *scanner) read(f file) {
	data, err := readInto(s.fdinfo[:], f.process.fdinfo, f.fd)
	if err != nil {
		return
	}
	id, ok := field(data, "prog_id")
	if !ok {
		return
	}
	f.program = uint32(id)
	f.memlock, _ = field(data, "memlock")
	s.found = append(s.found, f)
}

// isBPF tells whether the target of an open file is one that can hold a program: a BPF program or link.
func isBPF(target []byte) bool {
	name, ok := bytes.CutPrefix(target, []byte("anon_inode:"))
	return ok && (string(name) == "bpf-prog" || string(name) == "bpf_link" || string(name) == "bpf-link")
}
