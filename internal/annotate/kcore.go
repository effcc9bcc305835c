package annotate

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/internal/symbol/kernel"
)

// liveKernel reads code of the running kernel. It reads code of a recording only if the kernel still has the same symbol at the same
// address: code of the kernel itself until a reboot; code of modules, BPF programs and trampolines as long as they are loaded.
type liveKernel struct {
	core    *elf.File
	symbols map[uint64]string // by address
	err     error
}

const maxFunction = 16 << 20 // bytes; no kernel function is as long

func openKernel(proc string) *liveKernel {
	k := new(liveKernel)
	kallsyms, err := os.Open(proc + "/kallsyms")
	if err != nil {
		k.err = err
		return k
	}
	defer kallsyms.Close()
	k.symbols = make(map[uint64]string)
	for e, err := range procfs.KernelSymbols(kallsyms) {
		if err != nil {
			k.err = err
			return k
		}
		if e.Address != 0 {
			k.symbols[e.Address] = e.Name
		}
	}
	if len(k.symbols) == 0 {
		k.err = kernel.ErrHidden
		return k
	}
	k.core, err = elf.Open(proc + "/kcore")
	k.err = explainKcore(err)
	return k
}

// explainKcore adds to an error of opening /proc/kcore why it is so and what can be done.
func explainKcore(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: this kernel was built without it (CONFIG_PROC_KCORE)", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: run as root; with lockdown=confidentiality the kernel refuses root, too", err)
	case errors.Is(err, io.EOF):
		return errors.New("/proc/kcore is empty, as in containers, which hide it: run bperf outside, or in a privileged container")
	}
	return err
}

// has reports whether a symbol is still at the address that it has in the recording.
func (k *liveKernel) has(name string, start uint64) bool { return k.symbols[start] == name }

// read returns the code of a symbol.
func (k *liveKernel) read(name string, start, end uint64) ([]byte, error) {
	if k.err != nil {
		return nil, k.err
	}
	if !k.has(name, start) {
		return nil, fmt.Errorf("the kernel that runs has no %s at %#x", name, start)
	}
	if end <= start || end-start > maxFunction {
		return nil, fmt.Errorf("it cannot be from %#x to %#x", start, end)
	}
	for _, p := range k.core.Progs {
		if p.Type != elf.PT_LOAD || start < p.Vaddr || end-p.Vaddr > p.Memsz {
			continue
		}
		code := make([]byte, end-start)
		if _, err := p.ReadAt(code, int64(start-p.Vaddr)); err != nil && err != io.EOF {
			return nil, err
		}
		return code, nil
	}
	return nil, fmt.Errorf("/proc/kcore does not have %#x", start)
}
