package sample

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cilium/ebpf/ringbuf"

	"github.com/bperf/bperf/perfdata"
)

// ringPerCPU is how much room there is for new chains of callers of each CPU, in bytes: those of a second, if all samples have others.
const ringPerCPU = 1 << 20

// mostRing bounds the ring buffer, in bytes.
const mostRing = 64 << 20

// ringSize is a power of two that does for so many CPUs.
func ringSize(cpus int) uint32 {
	size := ringPerCPU
	for size < cpus*ringPerCPU && size < mostRing {
		size *= 2
	}
	return uint32(size)
}

// crowdedRing reports whether a quarter of the room for new chains is used.
func (c *counter) crowdedRing() bool { return c.ring.AvailableBytes() > c.ring.BufferSize()/4 }

// readChains takes the callers that were met since the last time.
func (c *counter) readChains() error {
	var record ringbuf.Record
	c.ring.SetDeadline(time.Unix(1, 0)) // that is over: nobody is waited for
	for {
		err := c.ring.ReadInto(&record)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the BPF map %s: %w", sampleMapRing, err)
		}
		const header = 8 // BPF_RINGBUF_HDR_SZ
		c.bytes += uint64(header + (len(record.RawSample)+7)&^7)
		d := decoder{data: record.RawSample}
		id, generation, addresses := d.chain()
		if d.err != nil {
			return fmt.Errorf("the BPF map %s: %w", sampleMapRing, d.err)
		}
		c.chains[generation].known[id] = addresses
	}
}

// appendChain appends the callers of an ID, without the marks that the kernel puts into the callchains of some events, and what is in place of the
// innermost frame.
func (c *counter) appendChain(to []uint64, g int, id uint32) (all []uint64, ok bool) {
	const none = 0
	if id == none {
		return to, true
	}
	addresses, ok := c.chains[g].known[id]
	for _, a := range addresses {
		if a != 0 && !perfdata.IsContext(a) {
			to = append(to, a)
		}
	}
	return to, ok
}

// stackOf is the stack of a sum, from the innermost frame on, up to the next one. Where its callers are not known there is no more than this frame.
func (c *counter) stackOf(g int, e *entry) stack {
	kernel, user := c.kernel[:0], c.user[:0]
	if int64(e.Ip) < 0 { // the kernel has the upper half of the addresses
		kernel = append(kernel, e.Ip)
	} else if e.Ip != 0 {
		user = append(user, e.Ip)
	}
	kernel, all := c.appendChain(kernel, g, e.Kernel)
	user, also := c.appendChain(user, g, e.User)
	c.kernel, c.user = kernel, user
	if !all || !also {
		c.noStack += e.Count
		if int64(e.Ip) < 0 {
			return stack{kernel: kernel[:1]}
		}
		return stack{user: user[:min(1, len(user))]}
	}
	return stack{kernel, user}
}
