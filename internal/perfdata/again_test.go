package perfdata

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// onceReader fails when it is to read something again, if it is told to.
type onceReader struct {
	*bytes.Reader
	end   int64 // of what was read
	again int64 // bytes that were read another time
	fail  bool
}

func (r *onceReader) ReadAt(b []byte, at int64) (int, error) {
	if at+int64(len(b)) <= r.end {
		if r.again += int64(len(b)); r.fail {
			return 0, errors.New("gone")
		}
	}
	n, err := r.Reader.ReadAt(b, at)
	r.end = max(r.end, at+int64(n))
	return n, err
}

// TestLargeRounds reads rounds that are larger than what is kept in memory: samples come in order from the file and from a pipe, and where the file
// cannot be read again, the error says where.
func TestLargeRounds(t *testing.T) {
	const samples, perRound = 60_000, 20_000 // 17 MB
	b := synthetic(t, samples, perRound, 0)
	if n := countSamples(t, b); n != samples {
		t.Errorf("%d samples, want %d", n, samples)
	}
	for _, fail := range []bool{false, true} {
		source := &onceReader{Reader: bytes.NewReader(b)}
		r, err := NewReader(source, int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		source.end, source.again, source.fail = chunkSize, 0, fail // the headers may have been read in any order
		n := 0
		var failed error
		for rec, err := range r.Records() {
			if err != nil {
				failed = err
				break
			}
			if _, is := rec.Value.(*Sample); is {
				n++
			}
		}
		r.Close()
		if !fail && (failed != nil || n != samples || source.again < int64(len(b))/2) {
			t.Errorf("%d samples, %v; %d bytes of %d were read again", n, failed, source.again, len(b))
		}
		if fail && (failed == nil || !strings.Contains(failed.Error(), "read again: gone") || n >= samples) {
			t.Errorf("after %d samples: %v; want an error of reading", n, failed)
		}
	}
	if n := countSamples(t, synthetic(t, samples, perRound, 1)); n != samples {
		t.Errorf("compressed: %d samples, want %d", n, samples)
	}
}
