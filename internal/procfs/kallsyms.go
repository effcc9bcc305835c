package procfs

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"strings"
)

// KernelSymbol is a line of /proc/kallsyms (proc_kallsyms(5)).
type KernelSymbol struct {
	Address uint64
	Type    byte // as in nm(1)
	Name    string
	Module  string // empty for the kernel itself; bpf or __builtin__… for code that comes and goes without a module
}

// MaxKernelSymbol is the length of the longest line that is read, in bytes. KSYM_NAME_LEN is 512.
const MaxKernelSymbol = 64 << 10

// KernelSymbols returns the lines of /proc/kallsyms, or of a copy. It ends with an error at the first malformed line. Where the kernel
// hides addresses, all of them are 0.
func KernelSymbols(r io.Reader) iter.Seq2[KernelSymbol, error] {
	return func(yield func(KernelSymbol, error) bool) {
		line := 0
		for text, err := range lines(r) {
			if err != nil {
				yield(KernelSymbol{}, fmt.Errorf("kallsyms, behind line %d: %w", line, err))
				return
			}
			line++
			e, ok := parseKernelSymbol(text)
			if !ok {
				yield(KernelSymbol{}, fmt.Errorf("kallsyms, line %d: %.100q is not an address, a type and a name", line, text))
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// lines returns the lines of r. It reads up to MaxKernelSymbol bytes at a time, and lines that are read together share one string. It
// splits longer lines.
func lines(r io.Reader) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		buffer := make([]byte, MaxKernelSymbol)
		for have := 0; ; {
			n, err := r.Read(buffer[have:])
			have += n
			whole := bytes.LastIndexByte(buffer[:have], '\n') + 1
			if whole == 0 && (err == io.EOF || have == len(buffer)) {
				whole = have
			}
			for text := string(buffer[:whole]); text != ""; {
				line, rest, _ := strings.Cut(text, "\n")
				if !yield(line, nil) {
					return
				}
				text = rest
			}
			have = copy(buffer, buffer[whole:have])
			if err == io.EOF && have == 0 {
				return
			}
			if err != nil && err != io.EOF {
				yield("", err)
				return
			}
		}
	}
}

func parseKernelSymbol(line string) (e KernelSymbol, ok bool) {
	i := 0
	for ; i < len(line) && i < 16; i++ {
		digit, ok := hexDigit(line[i])
		if !ok {
			break
		}
		e.Address = e.Address<<4 | digit
	}
	if i == 0 || len(line) < i+4 || line[i] != ' ' || line[i+2] != ' ' {
		return KernelSymbol{}, false
	}
	e.Type, e.Name = line[i+1], line[i+3:]
	if tab := strings.IndexByte(e.Name, '\t'); tab >= 0 {
		module := e.Name[tab+1:]
		if len(module) < 2 || module[0] != '[' || module[len(module)-1] != ']' {
			return KernelSymbol{}, false
		}
		e.Name, e.Module = e.Name[:tab], module[1:len(module)-1]
	}
	return e, e.Name != ""
}

func hexDigit(c byte) (n uint64, ok bool) {
	switch {
	case c >= '0' && c <= '9':
		return uint64(c - '0'), true
	case c >= 'a' && c <= 'f':
		return uint64(c - 'a' + 10), true
	}
	return 0, false
}
