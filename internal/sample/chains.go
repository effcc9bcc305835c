package sample

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/cilium/ebpf/ringbuf"

	"github.com/bperf/bperf/perfdata"
)

// ringPerCPU is the room for new chains in the ring buffer per CPU, in bytes. It lasts for a second if every sample has a new chain.
const ringPerCPU = 1 << 20

// mostRing is the maximum size of the ring buffer, in bytes.
const mostRing = 64 << 20

// ringSize returns the size of the ring buffer in bytes, a power of two, for a number of CPUs.
func ringSize(cpus int) uint32 {
	size := ringPerCPU
	for size < cpus*ringPerCPU && size < mostRing {
		size *= 2
	}
	return uint32(size)
}

// crowdedRing reports whether more than a quarter of the ring buffer is used.
func (g *generations) crowdedRing() bool { return g.ring.AvailableBytes() > g.ring.BufferSize()/4 }

// readChains reads the chains that programs have found for the first time since the last call, and their parts.
func (g *generations) readChains() error {
	var record ringbuf.Record
	g.ring.SetDeadline(time.Unix(1, 0)) // in the past, so that reads do not wait
	for {
		err := g.ring.ReadInto(&record)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the BPF map %s: %w", sampleMapRing, err)
		}
		const header = 8 // BPF_RINGBUF_HDR_SZ
		g.bytes += uint64(header + (len(record.RawSample)+7)&^7)
		d := decoder{data: record.RawSample}
		id, flags := d.header()
		g.chains[flags&inGeneration1].readChain(id, flags, &d)
		if d.err != nil {
			return fmt.Errorf("the BPF map %s: %w", sampleMapRing, d.err)
		}
	}
}

// readChain reads the rest of a record about a chain or a part. It leaves out context markers, which the kernel puts into the callchains of some
// events, and 0. A chain with a part that is not known stays unknown.
func (t *table) readChain(id uint32, flags uint64, d *decoder) {
	if flags&isPart != 0 {
		t.parts[id] = slices.DeleteFunc(d.part(), func(a uint64) bool { return a == 0 || perfdata.IsContext(a) })
		return
	}
	if addresses, ok := d.chain(t.parts); ok {
		t.known[id] = addresses
	}
}

// chain returns the addresses of a chain. It returns false if the chain is unknown.
func (t *table) chain(id uint32) (addresses []uint64, ok bool) {
	const none = 0
	if id == none {
		return nil, true
	}
	addresses, ok = t.known[id]
	return addresses, ok
}

// callersOf returns the callers of a sum's innermost frame, which other sums share; none if they are unknown.
func (g *generations) callersOf(of int, e *entry) stack {
	kernel, ok := g.chains[of].chain(e.Kernel)
	user, also := g.chains[of].chain(e.User)
	if !ok || !also {
		g.noStack += e.Count
		return stack{}
	}
	return stack{kernel, user}
}
