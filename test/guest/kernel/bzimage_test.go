package kernel

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// bzImage returns a bzImage whose setup has two sectors after the first, with the payload offset bytes after the setup.
func bzImage(content string, offset, length uint32) []byte {
	const setup = 3 * 512
	b := make([]byte, setup+16, setup+16+len(content))
	b[0x1f1] = 2
	copy(b[0x202:], "HdrS")
	binary.LittleEndian.PutUint32(b[0x248:], offset)
	binary.LittleEndian.PutUint32(b[0x24c:], length)
	return append(b, content...)
}

func TestPayload(t *testing.T) {
	tests := []struct {
		name    string
		image   []byte
		want    string
		wantErr string
	}{
		{"without the size at its end", bzImage("kernelSIZE", 16, 10), "kernel", ""},
		{"with something behind it", bzImage("kernelSIZEsignature", 16, 10), "kernel", ""},
		{"empty file", nil, "", "the kernel is not a bzImage: it has no setup header"},
		{"arm64 Image", make([]byte, 4096), "", "the kernel is not a bzImage: it has no setup header"},
		{"cut short", bzImage("kern", 16, 10), "", "the bzImage of 1556 bytes says that its payload is at 1552 to 1562"},
		{"no room for the size", bzImage("kern", 16, 3), "", "the bzImage of 1556 bytes says that its payload is at 1552 to 1555"},
		{"offsets that do not fit 32 bits", bzImage("kern", 0xffffffff, 0xffffffff), "",
			"the bzImage of 1556 bytes says that its payload is at 4294968831 to 8589936126"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := payload(tt.image)
			if tt.wantErr != "" {
				if err == nil || err.Error() != tt.wantErr {
					t.Fatalf("got error %v, want %s", err, tt.wantErr)
				}
				return
			}
			if err != nil || !bytes.Equal(got, []byte(tt.want)) {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func TestDecompressRefusesWhatItDoesNotKnow(t *testing.T) {
	const want = "the kernel is compressed in an unknown way: it starts with 1f 8b 08 00"
	if _, err := decompress([]byte{0x1f, 0x8b, 8, 0, 1, 2}); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
