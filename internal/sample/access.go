package sample

import (
	"errors"
	"fmt"
	"strconv"
	"unsafe"

	"github.com/cilium/ebpf/asm"

	"github.com/bperf/bperf/internal/filter"
	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/perfdata"
)

// accessKeys are the keys of --by whose values BPF programs read from the kernel's sample (struct perf_sample_data).
var accessKeys = []struct {
	name   string // also the name of the field in package filter
	chosen func(Keys) bool
	offset uintptr
	size   uintptr
	text   func(*sampleSubject) string
	record string // options of bperf record that record it
}{
	{"phys_addr", func(k Keys) bool { return k.PhysAddr },
		unsafe.Offsetof(sampleSubject{}.WakerComm) + unsafe.Offsetof(sampleAccess{}.PhysAddr), unsafe.Sizeof(sampleAccess{}.PhysAddr),
		func(s *sampleSubject) string { return fmt.Sprintf("%#x", s.access().PhysAddr) }, "--phys-data"},
	{"data_src", func(k Keys) bool { return k.DataSrc },
		unsafe.Offsetof(sampleSubject{}.WakerComm) + unsafe.Offsetof(sampleAccess{}.DataSrc), unsafe.Sizeof(sampleAccess{}.DataSrc),
		func(s *sampleSubject) string { return string(perfdata.DataSource(s.access().DataSrc).AppendWords(nil)) }, "--data"},
	{"weight", func(k Keys) bool { return k.Weight }, unsafe.Offsetof(sampleSubject{}.Weight), unsafe.Sizeof(sampleSubject{}.Weight),
		func(s *sampleSubject) string { return strconv.FormatUint(uint64(s.Weight), 10) }, "--weight"},
}

// access returns the access of a sample. It shares its memory with the waker of a blocked thread (a union in bpf/sample.bpf.c).
func (s *sampleSubject) access() *sampleAccess { return (*sampleAccess)(unsafe.Pointer(&s.WakerComm)) }

// accessValues returns the fields of the kernel's sample that the keys need, and their offsets in a subject.
func (k Keys) accessValues() (values filter.Values) {
	for _, a := range accessKeys {
		if a.chosen(k) {
			values = append(values, filter.Value{Field: a.name, Offset: int16(a.offset), Size: int(a.size)})
		}
	}
	return values
}

// hasAccess reports whether one of accessKeys is chosen.
func (k Keys) hasAccess() bool { return k.Weight || k.DataSrc || k.PhysAddr }

// accessCode returns the BPF code that reads these fields. It fails before Linux 6.2.
func (k Keys) accessCode() (asm.Instructions, error) {
	code, err := k.accessValues().Function()
	if unseen := (*filter.UnseenError)(nil); errors.As(err, &unseen) {
		return nil, k.unseen(unseen)
	}
	return code, err
}

// unseen explains that BPF programs cannot read a field, and which options of bperf record record it.
func (k Keys) unseen(err *filter.UnseenError) error {
	for _, a := range accessKeys {
		if a.name == err.Field {
			return fmt.Errorf("--by %s needs Linux 6.2 or later: before, BPF programs do not see that part of a sample (%w). Use bperf record %s and bperf script -F +%s",
				a.name, err.Err, a.record, a.name)
		}
	}
	return err
}

// noAccess returns a subject without an access, like that of events without these values. Blocked threads have it too.
func noAccess() *sampleSubject {
	s := &sampleSubject{}
	s.access().DataSrc = uint64(perfdata.DataSourceNA)
	return s
}

// accessTags returns the labels of the chosen accessKeys.
func (k Keys) accessTags(from *sampleSubject) (tags []replay.SumTag) {
	for _, a := range accessKeys {
		if a.chosen(k) {
			tags = append(tags, replay.SumTag{Key: a.name, Value: a.text(from)})
		}
	}
	return tags
}
