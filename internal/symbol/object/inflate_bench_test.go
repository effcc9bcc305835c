package object

import (
	"io"
	"testing"
)

// BenchmarkInflate decompresses .debug_info of the C library, as lookups of addresses near its end do.
func BenchmarkInflate(b *testing.B) {
	f, err := DefaultSearch("").Open("/lib/x86_64-linux-gnu/libc.so.6", "")
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	i := f.debugImage()
	if i == nil {
		b.Fatal("the C library has no debugging information: apt-get install libc6-dbg")
	}
	s := i.section(".debug_info")
	for b.Loop() {
		r, size, err := i.decompressor(s)
		if err != nil || r == nil {
			b.Fatalf("%v, compressed: %v", err, r != nil)
		}
		b.SetBytes(int64(size))
		if n, err := io.CopyN(io.Discard, r, int64(size)); err != nil {
			b.Fatalf("%d of %d bytes: %v", n, size, err)
		}
	}
}
