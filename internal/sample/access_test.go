package sample

import (
	"encoding/binary"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
)

// TestAccessTags writes values where the generated code writes them, and reads them after they have left the kernel.
func TestAccessTags(t *testing.T) {
	require.NoKernel(t)
	numbers := map[string]uint64{"weight": 0xfedcba98, "phys_addr": 0xfedcba9876543210, "data_src": 4 | 8<<5 | 2<<5 | 2<<24}
	all := Keys{PhysAddr: true, DataSrc: true, Weight: true}
	subject := sampleSubject{Pid: 1, Event: 2, Addr: 3}
	bytes := (*[unsafe.Sizeof(subject)]byte)(unsafe.Pointer(&subject))
	for _, v := range all.accessValues() {
		var number [8]byte
		binary.LittleEndian.PutUint64(number[:], numbers[v.Field])
		copy(bytes[v.Offset:][:v.Size], number[:])
	}
	var last drained
	encoded, err := binary.Append(encode(nil, first(0, 1, hasSubject)), binary.LittleEndian, &subject)
	check(t, err)
	d := decoder{data: encode(encoded, 0, 0)}
	e := last.sum(&d)
	check(t, d.err)
	want := []replay.SumTag{{Key: "phys_addr", Value: "0xfedcba9876543210"}, {Key: "data_src", Value: "|OP STORE|LVL L1 hit|SNP N/A|TLB N/A|LCK Yes|BLK N/A"},
		{Key: "weight", Value: "4275878552"}}
	if got := all.accessTags(&e.Subject); !reflect.DeepEqual(got, want) || e.Subject.Pid != 1 || e.Subject.Event != 2 || e.Subject.Addr != 3 {
		t.Errorf("%+v with the tags %q, want %q", e.Subject, got, want)
	}
	if got := (Keys{Weight: true}).accessTags(&e.Subject); !reflect.DeepEqual(got, want[2:]) {
		t.Errorf("%q, want %q", got, want[2:])
	}
}

func TestAccessSampleType(t *testing.T) {
	require.NoKernel(t)
	for _, tt := range []struct {
		by   Keys
		want perfdata.SampleType
	}{
		{Keys{Addr: true, IP: true}, 0},
		{Keys{Weight: true}, perfdata.SampleWeightStruct},
		{Keys{DataSrc: true}, perfdata.SampleDataSrc},
		{Keys{PhysAddr: true}, perfdata.SamplePhysAddr | perfdata.SampleAddr},
	} {
		if got := tt.by.accessValues().SampleType(); got != tt.want || tt.by.hasAccess() != (tt.want != 0) {
			t.Errorf("%+v: %#x, want %#x", tt.by, got, tt.want)
		}
	}
}

// needsSamples skips a test if BPF programs cannot read the kernel's samples, and checks that the kernel is older than Linux 6.2.
func needsSamples(t *testing.T) {
	t.Helper()
	require.Root(t)
	_, err := Keys{Weight: true}.accessCode()
	if err == nil {
		return
	}
	release, readErr := os.ReadFile("/proc/sys/kernel/osrelease")
	check(t, readErr)
	var major, minor int
	if _, scanErr := fmt.Sscanf(string(release), "%d.%d", &major, &minor); scanErr != nil || major > 6 || major == 6 && minor >= 2 {
		t.Fatalf("Linux %s: %v", release, err)
	}
	t.Skipf("needs Linux 6.2: %v", err)
}

// TestAccessRefused checks that keys are refused before measuring if BPF programs cannot read their values, and not otherwise.
func TestAccessRefused(t *testing.T) {
	require.Root(t)
	_, old := Keys{Weight: true}.accessCode()
	for key, options := range map[string]string{"weight": "--weight", "data_src": "--data", "phys_addr": "--phys-data"} {
		cfg := config(t, "page-faults", "true")
		began := false
		cfg.Record.Verbose = func(string) { began = true }
		var err error
		cfg.By, err = ParseKeys([]string{key})
		check(t, err)
		_, err = Run(cfg)
		if old == nil {
			if err != nil || !began {
				t.Errorf("%s: %v", key, err)
			}
			continue
		}
		start, end := fmt.Sprintf("--by %s needs Linux 6.2 or later: ", key), fmt.Sprintf(" Use bperf record %s and bperf script -F +%s", options, key)
		if err == nil || began || !strings.HasPrefix(err.Error(), start) || !strings.HasSuffix(err.Error(), end) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v (began: %t), want %q…%q", key, err, began, start, end)
		}
	}
}

// physical returns the physical address of this process's memory.
func physical(t *testing.T, address uintptr) uint64 {
	t.Helper()
	const present, frames = 1 << 63, 1<<55 - 1 // Documentation/admin-guide/mm/pagemap.rst
	pagemap, err := os.Open("/proc/self/pagemap")
	check(t, err)
	defer pagemap.Close()
	page := uintptr(os.Getpagesize())
	var entry [8]byte
	_, err = pagemap.ReadAt(entry[:], int64(address/page*8))
	check(t, err)
	bits := binary.NativeEndian.Uint64(entry[:])
	if bits&present == 0 || bits&frames == 0 {
		t.Fatalf("pagemap has %#x for %#x", bits, address)
	}
	return bits&frames*uint64(page) + uint64(address%page)
}

// pagesOf returns new memory that is not backed by huge pages.
func pagesOf(t *testing.T, pages int) []byte {
	t.Helper()
	memory, err := syscall.Mmap(-1, 0, pages*os.Getpagesize(), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	check(t, err)
	t.Cleanup(func() { syscall.Munmap(memory) })
	check(t, syscall.Madvise(memory, syscall.MADV_NOHUGEPAGE))
	return memory
}

// samplesByTags returns the samples of a profile by their tags.
func samplesByTags(p *profile.Profile) map[string]uint64 {
	found := make(map[string]uint64)
	for _, s := range p.Samples() {
		found[strings.Join(tagsOf(p, &s), " ")] += s.Count
	}
	return found
}

// softwareTags returns the tags of a sample of an event that has only the address.
func softwareTags(address uintptr, physical uint64) string {
	return fmt.Sprintf("addr=%#x phys_addr=%#x data_src=%s weight=0", address, physical, perfdata.DataSourceNA.AppendWords(nil))
}

// TestByAccess samples page faults at addresses whose physical address is in /proc/self/pagemap. The kernel takes the samples of minor-faults when the
// page is present, and those of page-faults before.
func TestByAccess(t *testing.T) {
	needsSamples(t)
	const pages = 50
	memory := pagesOf(t, pages)
	cfg := config(t, "minor-faults:u,page-faults:u")
	var err error
	cfg.By, err = ParseKeys([]string{"addr", "phys_addr", "data_src", "weight"})
	check(t, err)
	cfg.Keep = profile.Other
	want := make(map[string]uint64)
	r := onThread(t, cfg, func() {
		for i := range pages {
			at := &memory[i*os.Getpagesize()+8*i]
			*at = 1
			address := uintptr(unsafe.Pointer(at))
			want[softwareTags(address, physical(t, address))]++
			want[softwareTags(address, 0)]++
		}
	})
	got := samplesByTags(r.Profile)
	missing := uint64(0)
	for tags, n := range want {
		if got[tags] > n {
			t.Errorf("%d samples with %s, want %d", got[tags], tags, n)
		}
		missing += n - min(n, got[tags])
	}
	if missing > r.Totals.NotRun {
		t.Errorf("%d of %d samples are missing, and the program did not run for %d: got %v, want among these %v", missing, 2*pages, r.Totals.NotRun, got, want)
	}
}

// TestByPhysicalBreakpoint samples writes with a hardware breakpoint, at an address whose physical address is in /proc/self/pagemap.
func TestByPhysicalBreakpoint(t *testing.T) {
	require.Breakpoints(t)
	needsSamples(t)
	const writes = 30
	target := (*uint64)(unsafe.Pointer(&pagesOf(t, 1)[64]))
	atomic.StoreUint64(target, 1)
	address := uintptr(unsafe.Pointer(target))
	cfg := config(t, fmt.Sprintf("mem:%#x/8:w", address))
	var err error
	cfg.By, err = ParseKeys([]string{"addr", "phys_addr", "data_src", "weight"})
	check(t, err)
	cfg.Keep = profile.Other
	var tags string
	r := onThread(t, cfg, func() {
		for range writes {
			atomic.StoreUint64(target, 2)
		}
		tags = softwareTags(address, physical(t, address))
	})
	// On arm64 some writes are reported twice: docs/kernel-notes.md.
	got := samplesByTags(r.Profile)
	if n := got[tags]; len(got) != 1 || n < writes || n > writes && runtime.GOARCH != "arm64" {
		t.Errorf("%v, want %d samples with %s", got, writes, tags)
	}
}
