package sample

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/internal/symbol/kernel"
)

// symbol returns the kernel's symbol of a kernel address (bpf/symbol.h). Reading kallsyms instead, of which a hundredth is needed, takes more CPU time
// than everything else. If an address has several symbols, it returns the one in the kernel's own stack traces. It is safe for concurrent use.
func (c *counter) symbol(address uint64) (replay.Symbol, bool) {
	c.asking.Lock()
	defer c.asking.Unlock()
	at, known := slices.BinarySearchFunc(c.named, address, func(s replay.Symbol, address uint64) int {
		switch {
		case s.End <= address:
			return -1
		case s.Start > address:
			return 1
		}
		return 0
	})
	if known {
		return c.named[at], true
	}
	if err := c.first.Variables[sampleVarAsked].Set(address); err != nil {
		return replay.Symbol{}, false
	}
	if _, err := c.first.Programs[sampleProgOnSymbol].Run(&ebpf.RunOptions{Context: [8]byte{}}); err != nil {
		return replay.Symbol{}, false
	}
	var text [640]byte // symbol of bpf/symbol.h
	if err := c.first.Variables[sampleVarSymbol].Get(&text); err != nil {
		return replay.Symbol{}, false
	}
	end := max(0, bytes.IndexByte(text[:], 0))
	s, ok := parseSymbol(string(text[:end]), address)
	if ok && address < s.End && !bytes.Contains(text[:end], []byte(" [")) { // do not cache symbols of modules, which can be unloaded
		c.named = slices.Insert(c.named, at, s)
	}
	return s, ok
}

// parseSymbol parses the output of the kernel's format %pS: NAME+0xOFFSET/0xSIZE [MODULE].
func parseSymbol(text string, address uint64) (replay.Symbol, bool) {
	text, module, _ := strings.Cut(text, " [")
	module = strings.TrimSuffix(module, "]")
	plus := strings.LastIndex(text, "+0x")
	if plus <= 0 || kernel.ComesAndGoes(module) {
		return replay.Symbol{}, false
	}
	offset, size, ok := strings.Cut(text[plus+len("+0x"):], "/0x")
	if !ok {
		return replay.Symbol{}, false
	}
	from, err := strconv.ParseUint(offset, 16, 64)
	if err != nil {
		return replay.Symbol{}, false
	}
	long, err := strconv.ParseUint(size, 16, 64)
	if err != nil || from > address {
		return replay.Symbol{}, false
	}
	name, start := text[:plus], address-from
	return replay.Symbol{Name: name, Linkage: name, Start: start, End: start + long, Module: module}, true
}
