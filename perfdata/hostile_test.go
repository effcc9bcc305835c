package perfdata

import (
	"bytes"
	"encoding/binary"
	"os"
	"runtime"
	"testing"
)

const gigabyte = 1 << 30

// hostileFiles returns small files that claim a large content.
func hostileFiles(t *testing.T) map[string][]byte {
	b, err := os.ReadFile("testdata/bpf.data")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	numbers := map[string]int{"size of attributes": 16, "attributes' offset": 24, "attributes": 32, "data's offset": 40, "data": 48}
	for name, at := range numbers {
		files[name] = with(b, at, gigabyte)
	}
	attrs := binary.LittleEndian.Uint64(b[24:])
	files["IDs' offset"] = with(b, int(attrs)+128, gigabyte)
	files["IDs"] = with(b, int(attrs)+136, gigabyte)
	table := binary.LittleEndian.Uint64(b[40:]) + binary.LittleEndian.Uint64(b[48:])
	for at := int(table); at < int(table)+16*16; at += 16 {
		files["a feature"+string(rune('a'+(at-int(table))/16))] = with(b, at+8, gigabyte)
		section := int(binary.LittleEndian.Uint64(b[at:]))
		files["in a feature"+string(rune('a'+(at-int(table))/16))] = with(b, section, 1<<30|1<<62)
	}
	return files
}

// with returns a copy of b with v at offset at.
func with(b []byte, at int, v uint64) []byte {
	b = bytes.Clone(b)
	binary.LittleEndian.PutUint64(b[at:], v)
	return b
}

// hostilePipes returns pipes with one record that claims a large content.
func hostilePipes() map[string][]byte {
	begin := appendU64([]byte(magicLittle), pipeHeaderSize)
	claim := func(t RecordType, body ...uint64) []byte {
		b := appendRecordHeader(nil, t)
		b = appendU64s(b, body)
		endRecord(b, 0, 0)
		return append(bytes.Clone(begin), b...)
	}
	// A zstd frame with one segment of 1 GiB, and one with the largest possible window.
	segment := append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0xa0}, 0, 0, 0, 0x40, 1, 0, 0, 0)
	window := append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xff}, 1, 0, 0, 0, 0, 0)
	return map[string][]byte{
		"index":      claim(RecordIDIndex, gigabyte),
		"threads":    claim(RecordThreadMap, gigabyte),
		"config":     claim(RecordStatConfig, gigabyte),
		"metadata":   claim(RecordBPFMetadata, append(make([]uint64, 64), gigabyte)...),
		"formats":    claim(RecordHeaderTracingData, gigabyte),
		"AUX area":   claim(RecordAuxtrace, gigabyte, 0, 0, 0, 0),
		"compressed": claim(RecordCompressed2, gigabyte),
		"segment":    claim(RecordCompressed, asWords(segment)...),
		"window":     claim(RecordCompressed, asWords(window)...),
		"mappings":   claim(RecordHeaderFeature, uint64(FeaturePMUMappings), gigabyte|gigabyte<<32),
		"caps":       claim(RecordHeaderFeature, uint64(FeaturePMUCaps), gigabyte|gigabyte<<32, gigabyte),
	}
}

func asWords(b []byte) (words []uint64) {
	for b = append(b, make([]byte, roundUp(len(b), 8)-len(b))...); len(b) > 0; b = b[8:] {
		words = append(words, le.Uint64(b))
	}
	return words
}

// TestHostileClaims reads files of a few KiB that claim a gigabyte. That may not cost memory.
func TestHostileClaims(t *testing.T) {
	check := func(name string, b []byte, pipe bool) {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			readAll(b, pipe)
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used >= 64<<20 {
				t.Errorf("%d bytes were allocated for %d", used, len(b))
			}
		})
	}
	for name, b := range hostileFiles(t) {
		check(name, b, false)
	}
	for name, b := range hostilePipes() {
		check(name, b, true)
		check(name+" in a file", b, false)
	}
}

// TestErrorsNameThePlace checks that errors name the offset of the damage.
func TestErrorsNameThePlace(t *testing.T) {
	begin := appendU64([]byte(magicLittle), pipeHeaderSize)
	tests := []struct {
		name string
		b    []byte
		want string
	}{
		{"empty", nil, "0 bytes are no recording of perf"},
		{"text", []byte("#!/bin/sh\nexit 0\n"), `it begins with "#!/bin/s" and not with "PERFILE2": no recording of perf`},
		{"old", append([]byte("PERFFILE"), make([]byte, 200)...), "a file of perf before 2.6.37, whose format is not read"},
		{"size", append(bytes.Clone(begin), 9, 0, 0, 0, 0, 0, 7, 0),
			"at 16: a record of type SAMPLE says that it has 7 bytes: less than its header"},
		{"attribute", append(bytes.Clone(begin), 64, 0, 0, 0, 0, 0, 8, 0), "at 16: ATTR of 8 bytes: it ends before its last field"},
		{"index", append(bytes.Clone(begin), 69, 0, 0, 0, 0, 0, 8, 0), "at 16: ID_INDEX of 8 bytes: it ends before its last field"},
		{"compressed", append(bytes.Clone(begin), 81, 0, 0, 0, 0, 0, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8),
			"at 16: COMPRESSED: decompress: invalid input: magic number mismatch"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r, err := NewReader(bytes.NewReader(test.b), int64(len(test.b)))
			if err == nil {
				for _, err = range r.Records() {
				}
			}
			if err == nil || err.Error() != test.want {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

func TestDirectoryIsRefused(t *testing.T) {
	if _, err := Open(t.TempDir()); err == nil {
		t.Error("a directory was opened")
	}
}
