package userprog

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/bperf/bperf/internal/printable"
)

// Rings read the records that programs write to maps of type RINGBUF. They are not safe for concurrent use.
type Rings struct {
	all    []ring
	record ringbuf.Record // the last record; its memory is reused
}

type ring struct {
	name   string
	fd     int // descriptor of the map
	reader *ringbuf.Reader
}

// OpenRings opens the maps that RingBuffers names. Load must come first. p may be nil.
func (p *Programs) OpenRings() (*Rings, error) {
	r := &Rings{}
	for _, name := range p.RingBuffers() {
		for _, o := range p.objects {
			m := o.loaded.Maps[name]
			if m == nil || m.Type() != ebpf.RingBuf {
				continue
			}
			reader, err := ringbuf.NewReader(m)
			if err != nil {
				r.Close()
				return nil, fmt.Errorf("%s: read the ring buffer %s: %w", o.file, printable.Text(name), err)
			}
			reader.SetDeadline(time.Unix(1, 0)) // in the past, so that Read does not wait
			r.all = append(r.all, ring{name, m.FD(), reader})
		}
	}
	return r, nil
}

// FDs returns file descriptors that epoll(7) reports as readable when a ring has a record.
func (r *Rings) FDs() []int {
	var fds []int
	for _, ring := range r.all {
		fds = append(fds, ring.fd)
	}
	return fds
}

// Read calls do with the map's name and the bytes of each available record. It does not wait for more. b is valid until do returns.
func (r *Rings) Read(do func(name string, b []byte) error) error {
	for _, ring := range r.all {
		for {
			err := ring.reader.ReadInto(&r.record)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				return fmt.Errorf("read the ring buffer %s: %w", printable.Text(ring.name), err)
			}
			if err := do(ring.name, r.record.RawSample); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close closes the rings. r may be nil.
func (r *Rings) Close() {
	if r == nil {
		return
	}
	for _, ring := range r.all {
		ring.reader.Close()
	}
}
