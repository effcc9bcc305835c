package filter

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/internal/target"
)

// resolved returns the expression with all names replaced by numbers.
func (n *node) resolved() (*node, error) {
	if n.kind == comparison {
		switch n.field.name {
		case "cgroup":
			return n.cgroup()
		case "bpf_prog":
			return n.program()
		}
		return n, nil
	}
	r := *n
	r.operands = make([]*node, len(n.operands))
	for i, o := range n.operands {
		var err error
		if r.operands[i], err = o.resolved(); err != nil {
			return nil, err
		}
	}
	return &r, nil
}

// cgroup replaces a cgroup's name by its ID, the inode number of its directory.
func (n *node) cgroup() (*node, error) {
	r := *n
	var err error
	if r.value, err = strconv.ParseUint(n.text, 0, 64); err == nil {
		return &r, nil
	}
	if v1, err := target.PerfCgroupsAreV1(); err != nil {
		return nil, err
	} else if v1 {
		return nil, fmt.Errorf("filter: %v: BPF programs see cgroups v2, and perf events of this machine those of v1. Filter by the ID", n)
	}
	t, err := target.Spec{System: true, Cgroups: []string{n.text}}.Resolve()
	if err != nil {
		return nil, fmt.Errorf("filter: %v: %w", n, err)
	}
	info, err := os.Stat(t.Cgroups[0].Path)
	if err != nil {
		return nil, fmt.Errorf("filter: %v: %w", n, err)
	}
	r.value = info.Sys().(*syscall.Stat_t).Ino
	return &r, nil
}

// selector parses a selection of BPF programs: an ID, or a selector of package bpfprog. Any other text is a name.
func selector(text string) (bpfprog.Selector, error) {
	if strings.Trim(text, "0123456789") != "" && !strings.Contains(text, ":") {
		text = "name:" + text
	}
	return bpfprog.Parse(text)
}

// program replaces a comparison with BPF programs by comparisons of the instruction pointer with the addresses of their functions.
func (n *node) program() (*node, error) {
	s, err := selector(n.text)
	if err != nil {
		return nil, err
	}
	programs, err := bpfprog.ReadAll(bpfprog.Detail{Functions: true})
	if err != nil {
		return nil, err
	}
	selected, missing := s.Select(programs, bpfprog.Machine{})
	if len(missing) > 0 {
		return nil, fmt.Errorf("filter: %v: %w. Programs that are loaded later are not found", n, missing[0])
	}
	within := &node{kind: anyOf}
	for _, p := range selected {
		for _, f := range p.Functions {
			if f.Address == 0 || f.Size == 0 {
				return nil, fmt.Errorf("filter: %v: the kernel does not show the address of BPF program %d: "+
					"it is not compiled (sysctl net.core.bpf_jit_enable), or hidden (kernel.kptr_restrict, net.core.bpf_jit_harden)", n, p.ID)
			}
			within.operands = append(within.operands, ipWithin(uint64(f.Address), uint64(f.Size)))
		}
	}
	if len(within.operands) == 0 {
		return nil, fmt.Errorf("filter: %v: the kernel does not show the address of the program", n)
	}
	if n.operator == notEqual {
		return &node{kind: not, operands: []*node{within}}, nil
	}
	return within, nil
}

func ipWithin(start, size uint64) *node {
	ip := byName["ip"]
	return &node{kind: all, operands: []*node{
		{field: ip, operator: greaterOrEqual, value: start},
		{field: ip, operator: less, value: start + size},
	}}
}
