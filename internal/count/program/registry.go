package program

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/bperf/bperf/internal/count/shared"
)

// registry is the path of the pinned map through which sessions find each other's probes. The map has only IDs, which keep nothing alive: probes
// live as long as a session has them open. Sessions use it with the lock held.
type registry string

// function identifies a function with probes; it is the key of the registry.
type function struct {
	Program uint32
	_       uint32
	Name    uint64 // a hash of the function's name
}

// probeIDs has the IDs of the maps, programs and links of one function's probes.
type probeIDs struct {
	Maps     [len(sharedMaps)]uint32
	Programs [len(probePrograms)]uint32
	Links    [2]uint32 // at the exit, at the entry
}

// maxFunctions is the maximum number of functions with probes.
const maxFunctions = 1 << 16

// registryVersion changes if the meaning of the maps changes while the programs stay the same.
const registryVersion = 1

func registryOf(c *shared.Counter) registry {
	layout := sha256.Sum256(append(_ProbesBytes, registryVersion))
	return registry(c.Pin(fmt.Sprintf("programs-%x", layout[:8])))
}

// open opens the map. The error wraps fs.ErrNotExist if there is none.
func (r registry) open() (*ebpf.Map, error) {
	m, err := ebpf.LoadPinnedMap(string(r), nil)
	if err != nil {
		return nil, fmt.Errorf("look for the probes of other sessions: open %s: %w", string(r), err)
	}
	return m, nil
}

// noPrealloc is BPF_F_NO_PREALLOC of include/uapi/linux/bpf.h.
const noPrealloc = 1

func functionOf(t Target) function {
	h := fnv.New64a()
	h.Write([]byte(t.Function))
	return function{Program: t.ID, Name: h.Sum64()}
}

// find opens the probes of a function. It returns nil if no session has any.
func (r registry) find(t Target) (*probes, error) {
	m, err := r.open()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer m.Close()
	var ids probeIDs
	err = m.Lookup(functionOf(t), &ids)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for the probes of other sessions: %w", err)
	}
	p, err := openProbes(ids)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return p, err
}

// add registers probes, so that other sessions find them.
func (r registry) add(t Target, p *probes) error {
	ids, err := p.ids()
	if err != nil {
		return err
	}
	m, err := shared.OpenPin(string(r), &ebpf.MapSpec{Name: "bperf_probes", Type: ebpf.Hash, Flags: noPrealloc, MaxEntries: maxFunctions,
		KeySize: uint32(unsafe.Sizeof(function{})), ValueSize: uint32(unsafe.Sizeof(probeIDs{}))})
	if err != nil {
		return err
	}
	defer m.Close()
	if err := m.Put(functionOf(t), ids); err != nil {
		return fmt.Errorf("let other sessions find the probes of BPF program %s: %w", t, err)
	}
	return nil
}

// sweep deletes the entries of probes that no session has open, and the map if it has no other entries.
func (r registry) sweep() error {
	m, err := r.open()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer m.Close()
	var gone []function
	left := false
	var f function
	var ids probeIDs
	all := m.Iterate()
	for all.Next(&f, &ids) {
		l, err := link.NewFromID(link.ID(ids.Links[0]))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			gone = append(gone, f)
		case err != nil:
			return fmt.Errorf("look for probes that no session needs: %w", err)
		default:
			l.Close()
			left = true
		}
	}
	if err := all.Err(); err != nil {
		return fmt.Errorf("look for probes that no session needs: %w", err)
	}
	if !left {
		return os.Remove(string(r))
	}
	for _, f := range gone {
		if err := m.Delete(f); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("delete probes that no session needs: %w", err)
		}
	}
	return nil
}
