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

// appendChain appends the addresses of a chain. It returns false if the chain is unknown.
func (g *generations) appendChain(to []uint64, of int, id uint32) (all []uint64, ok bool) {
	const none = 0
	if id == none {
		return to, true
	}
	addresses, ok := g.chains[of].known[id]
	return append(to, addresses...), ok
}

// stackOf returns the stack of a sum, from the innermost frame on. It is valid until the next call. If the callers are unknown, it has only the
// innermost frame.
func (g *generations) stackOf(of int, e *entry) stack {
	kernel, user := g.kernel[:0], g.user[:0]
	if int64(e.Ip) < 0 { // kernel addresses are in the upper half
		kernel = append(kernel, e.Ip)
	} else if e.Ip != 0 {
		user = append(user, e.Ip)
	}
	kernel, all := g.appendChain(kernel, of, e.Kernel)
	user, also := g.appendChain(user, of, e.User)
	g.kernel, g.user = kernel, user
	if !all || !also {
		g.noStack += e.Count
		if int64(e.Ip) < 0 {
			return stack{kernel: kernel[:1]}
		}
		return stack{user: user[:min(1, len(user))]}
	}
	return stack{kernel, user}
}
