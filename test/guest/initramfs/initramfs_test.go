package initramfs

import (
	"bytes"
	"errors"
	"testing"
)

func TestWriter(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	w.File("/bin/x", 0o755, []byte("hello"))
	w.Dir("/bin")
	w.File("/a", 0o644, nil)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	// inode, mode, uid, gid, links, time, size, four device numbers, length of the name, checksum
	const zero4 = "00000000000000000000000000000000"
	want := "07070100000001000041ed" + "0000000000000000" + "00000001" + "00000000" + "00000000" + zero4 + "00000005" + "00000000" + "/bin\x00\x00" +
		"07070100000002000081ed" + "0000000000000000" + "00000001" + "00000000" + "00000005" + zero4 + "00000007" + "00000000" + "/bin/x\x00\x00\x00\x00" +
		"hello\x00\x00\x00" +
		"07070100000003000081a4" + "0000000000000000" + "00000001" + "00000000" + "00000000" + zero4 + "00000003" + "00000000" + "/a\x00\x00\x00\x00" +
		"0707010000000100000000" + "0000000000000000" + "00000001" + "00000000" + "00000000" + zero4 + "0000000b" + "00000000" + "TRAILER!!!\x00\x00\x00\x00"
	if got := b.String(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestWriterKeepsTheFirstError(t *testing.T) {
	w := NewWriter(&fullDisk{room: 200})
	w.File("/a", 0o644, make([]byte, 100))
	w.File("/b", 0o644, make([]byte, 100))
	if err := w.Close(); !errors.Is(err, errFull) {
		t.Errorf("got %v, want %v", err, errFull)
	}
}

var errFull = errors.New("disk full")

type fullDisk struct{ room int }

func (d *fullDisk) Write(b []byte) (int, error) {
	if d.room < len(b) {
		return 0, errFull
	}
	d.room -= len(b)
	return len(b), nil
}
