// Replay reads the records of a recording in the order of time, and does nothing else: what the file takes alone for `script` and `report`.
// With -inlined it also decompresses .debug_info of the C library, in a goroutine of its own. An address near the end of that section
// needs all of it.
package main

import (
	"bytes"
	"debug/elf"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zlib"

	"github.com/bperf/bperf/perfdata"
)

func main() {
	inlined := flag.Bool("inlined", false, "decompress what functions inlined in the C library need")
	flag.Parse()
	samples, err := replay(flag.Arg(0), *inlined)
	if err != nil {
		fmt.Fprintln(os.Stderr, "replay:", err)
		os.Exit(1)
	}
	fmt.Println(samples)
}

// replay returns the number of samples.
func replay(recording string, inlined bool) (samples int, err error) {
	r, err := perfdata.Open(recording)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	decompressed := make(chan error, 1)
	if inlined {
		go func() { decompressed <- inflate(r.Features()) }()
	} else {
		decompressed <- nil
	}
	for batch, err := range r.Batches() {
		if err != nil {
			return 0, err
		}
		for i := range batch {
			if _, ok := batch[i].Value.(*perfdata.Sample); ok {
				samples++
			}
		}
	}
	return samples, <-decompressed
}

// inflate decompresses .debug_info of the C library of a recording. Without a sample in the C library it does nothing, like bperf.
func inflate(f *perfdata.Features) error {
	ids, err := f.Get(perfdata.FeatureBuildID)
	if err != nil {
		return err
	}
	for _, id := range ids.(perfdata.BuildIDs) {
		if name := filepath.Base(id.Filename); strings.HasPrefix(name, "libc.so") || strings.HasPrefix(name, "libc-") {
			hexadecimal := hex.EncodeToString(id.BuildID)
			return inflateFile(filepath.Join("/usr/lib/debug/.build-id", hexadecimal[:2], hexadecimal[2:]+".debug"))
		}
	}
	return nil
}

func inflateFile(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("%w: apt-get install libc6-dbg", err)
	}
	defer file.Close()
	object, err := elf.NewFile(file)
	if err != nil {
		return err
	}
	const header = 24 // size of Elf64_Chdr
	s := object.Section(".debug_info")
	if s == nil || s.Flags&elf.SHF_COMPRESSED == 0 || s.FileSize < header {
		return fmt.Errorf("%s has no compressed .debug_info", name)
	}
	packed := make([]byte, s.FileSize-header)
	if _, err := file.ReadAt(packed, int64(s.Offset)+header); err != nil {
		return err
	}
	r, err := zlib.NewReader(bytes.NewReader(packed))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	_, err = io.CopyN(io.Discard, r, int64(s.Size))
	return err
}
