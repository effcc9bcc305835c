package sample

import (
	"encoding/binary"
	"errors"
	"unsafe"
)

// decoder decodes data of the BPF programs (bpf/encode.h), in which numbers take as few bytes as they need. Reads behind the end return 0 and set err.
type decoder struct {
	data []byte
	err  error
}

var errShort = errors.New("what a BPF program has written ends early")

func (d *decoder) take(n int) []byte {
	if n > len(d.data) {
		d.data, d.err = nil, errShort
		return nil
	}
	b := d.data[:n]
	d.data = d.data[n:]
	return b
}

func (d *decoder) number() uint64 {
	if len(d.data) == 0 {
		d.err = errShort
		return 0
	}
	more := int(d.data[0] & 7)
	if more == 7 {
		d.data = d.data[1:]
		if b := d.take(8); b != nil {
			return binary.LittleEndian.Uint64(b)
		}
		return 0
	}
	if len(d.data) >= 8 { // nearly always
		n := binary.LittleEndian.Uint64(d.data)
		d.data = d.data[1+more:]
		above := 8 * (7 - more) // bits of what follows
		return n << above >> (above + 3)
	}
	var whole [8]byte
	copy(whole[:], d.take(1+more))
	return binary.LittleEndian.Uint64(whole[:]) >> 3
}

// signed returns a number whose sign is encoded in the lowest bit.
func (d *decoder) signed() int64 {
	n := d.number()
	return int64(n>>1) ^ -int64(n&1)
}

// Flags of a record of the ring buffer, and what its ID is shifted by: IN_GENERATION_1, IS_PART and RECORD_SHIFT of bpf/sample.bpf.c.
const (
	inGeneration1 = 1 << iota
	isPart

	recordShift = 2
)

// header returns the ID and the flags with which a record of the ring buffer begins.
func (d *decoder) header() (id uint32, flags uint64) {
	n := d.number()
	return uint32(n >> recordShift), n & (1<<recordShift - 1)
}

// part returns the addresses that are the rest of a record of a part.
func (d *decoder) part() []uint64 {
	addresses := make([]uint64, 0, len(d.data))
	for address := uint64(0); len(d.data) > 0; {
		address += uint64(d.signed())
		addresses = append(addresses, address)
	}
	return addresses
}

// chain returns the addresses of the parts whose IDs are the rest of a record of a chain. It returns false if a part is unknown.
func (d *decoder) chain(parts map[uint32][]uint64) (addresses []uint64, ok bool) {
	for len(d.data) > 0 {
		part, ok := parts[uint32(d.number())]
		if !ok {
			return nil, false
		}
		addresses = append(addresses, part...)
	}
	return addresses, true
}

// Flags in the lowest bits of a sum's first number: HAS_SUBJECT, HAS_VALUE and HAS_KERNEL of bpf/drain.h.
const (
	hasSubject = 1 << iota
	hasValue
	hasKernel
)

// What is above the flags of a sum's first number: COUNT_SHIFT, MAX_COUNT and USER_SHIFT of bpf/drain.h.
const (
	countShift = 3
	mostCount  = 3 // a larger number of samples follows
	userShift  = 5
)

// timeShift is TIME_SHIFT of bpf/drain.h: the time of a sum is in units of 1<<timeShift ns.
const timeShift = 10

// drained is the state of decoding sums: a sum only encodes what differs from the previous one.
type drained struct {
	subject          sampleSubject
	period, first    uint64
	userIP, kernelIP uint64
}

// sum decodes the next sum.
func (last *drained) sum(d *decoder) (e entry) {
	what := d.number()
	e.User, e.Count = uint32(what>>userShift), what>>countShift&mostCount
	if e.Count == 0 {
		e.Count = d.number()
	}
	if what&hasSubject != 0 {
		if b := d.take(int(unsafe.Sizeof(last.subject))); b != nil {
			if _, err := binary.Decode(b, binary.LittleEndian, &last.subject); err != nil {
				d.err = err
			}
		}
	}
	e.Subject = last.subject
	ip := &last.userIP
	if what&hasKernel != 0 {
		e.Kernel, ip = uint32(d.number()), &last.kernelIP
	}
	*ip += uint64(d.signed())
	e.Ip = *ip
	e.Value = e.Count * last.period
	if what&hasValue != 0 {
		e.Value = d.number()
		if e.Count > 0 {
			last.period = e.Value / e.Count
		}
	}
	last.first += uint64(d.signed())
	e.First = last.first << timeShift
	return e
}
