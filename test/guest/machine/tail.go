package machine

import (
	"bytes"
	"io"
)

// tail keeps the last tailSize bytes that it reads.
type tail struct{ kept []byte }

const tailSize = 4 << 10

func (t *tail) read(r io.Reader) {
	buf := make([]byte, 4<<10)
	for {
		n, err := r.Read(buf)
		t.kept = append(t.kept, buf[:n]...)
		if cut := len(t.kept) - tailSize; cut > 0 {
			t.kept = append(t.kept[:0], t.kept[cut:]...)
		}
		if err != nil {
			return
		}
	}
}

// String returns the text as the end of an error message.
func (t *tail) String() string {
	said := bytes.TrimSpace(bytes.ReplaceAll(t.kept, []byte("\r"), nil))
	if len(said) == 0 {
		return "; its console was silent"
	}
	return "; its console ended with:\n" + string(said)
}
