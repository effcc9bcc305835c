package perfdata

import (
	"errors"
	"fmt"
)

// coder reads or writes fields one after the other: one method of a record or feature describes its layout for both directions.
type coder struct {
	writing bool
	in      cursor // what is read
	out     []byte // what was written

	misc    Misc   // bits of the header that are fields of the record
	attr    *Attr  // of the event, for records of the kernel
	cpus    uint32 // available CPUs, for CPU_TOPOLOGY
	unknown bool   // the record is of a kind that this package does not know
	err     error  // the first one
}

var errShort = errors.New("it ends before its last field")

// fail keeps an error of what is read. What follows a missing byte is zero and is no reason to complain.
func (k *coder) fail(format string, args ...any) {
	if k.err == nil && !k.in.short {
		k.err = fmt.Errorf(format, args...)
	}
}

// end returns what was wrong with what was read.
func (k *coder) end() error {
	if k.err == nil && k.in.short {
		return errShort
	}
	return k.err
}

func u16(k *coder, vs ...*uint16) {
	for _, v := range vs {
		if k.writing {
			k.out = appendU16(k.out, *v)
		} else {
			*v = k.in.u16()
		}
	}
}

func u32[T ~uint32 | ~int32](k *coder, vs ...*T) {
	for _, v := range vs {
		if k.writing {
			k.out = appendU32(k.out, uint32(*v))
		} else {
			*v = T(k.in.u32())
		}
	}
}

func u64[T ~uint64 | ~int64](k *coder, vs ...*T) {
	for _, v := range vs {
		if k.writing {
			k.out = appendU64(k.out, uint64(*v))
		} else {
			*v = T(k.in.u64())
		}
	}
}

// flag is a bit of the record's header.
func (k *coder) flag(set *bool, m Misc) {
	switch {
	case !k.writing:
		*set = k.misc&m != 0
	case *set:
		k.misc |= m
	}
}

// more reports whether an optional part follows: when writing, whether the record has it.
func (k *coder) more(has bool) bool {
	if k.writing {
		return has
	}
	return len(k.in.b) > 0
}

// array is as many bytes as b has.
func (k *coder) array(b []byte) {
	if k.writing {
		k.out = append(k.out, b...)
	} else {
		copy(b, k.in.bytes(len(b)))
	}
}

// bytes is n bytes, which are copied.
func (k *coder) bytes(b *[]byte, n int) {
	if k.writing {
		k.out = append(k.out, *b...)
	} else {
		*b = append([]byte(nil), k.in.bytes(n)...)
	}
}

// pad is n bytes of 0.
func (k *coder) pad(n int) {
	if k.writing {
		k.out = appendZeros(k.out, n)
	} else {
		k.in.bytes(n)
	}
}

func (k *coder) u64s(vs *[]uint64, n uint64) {
	if k.writing {
		k.out = appendU64s(k.out, *vs)
	} else {
		*vs = k.in.u64s(n)
	}
}

// text is a string in a field of size bytes, which a record may cut short.
func (k *coder) text(s *string, size int) {
	if k.writing {
		k.out = appendText(k.out, *s, size)
	} else {
		*s = k.in.text(min(size, len(k.in.b)))
	}
}

// rest is a string that ends with the record, padded to a multiple of align.
func (k *coder) rest(s *string, align int) {
	if k.writing {
		k.out = appendPadded(k.out, *s, align)
	} else {
		*s = cString(k.in.b)
	}
}

// headerString is struct perf_header_string.
func (k *coder) headerString(all ...*string) {
	for _, s := range all {
		if k.writing {
			k.out = appendPadded(appendU32(k.out, uint32(roundUp(len(*s)+1, nameAlign))), *s, nameAlign)
		} else {
			*s = k.in.text(k.in.count(uint64(k.in.u32()), 1))
		}
	}
}

func (k *coder) headerStrings(list *[]string) {
	for i := range elements32(k, list, 4) {
		k.headerString(&(*list)[i])
	}
}

// elements32 is the number of elements of a list, in 32 bits. It returns the list, whose elements follow and take at least size bytes each.
func elements32[S ~[]T, T any](k *coder, list *S, size int) S {
	n := uint32(len(*list))
	u32(k, &n)
	return room(k, list, uint64(n), size)
}

// elements64 is elements32 with a number of 64 bits.
func elements64[S ~[]T, T any](k *coder, list *S, size int) S {
	n := uint64(len(*list))
	u64(k, &n)
	return room(k, list, n, size)
}

// room makes room for n elements if it reads.
func room[S ~[]T, T any](k *coder, list *S, n uint64, size int) S {
	if !k.writing {
		*list = make(S, k.in.count(n, size))
	}
	return *list
}
