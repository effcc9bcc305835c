package perfdata

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

// onceReader counts the bytes that are read a second time. With fail, such a read fails.
type onceReader struct {
	*bytes.Reader
	end   int64 // end of the bytes that were read
	again int64 // bytes that were read again
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

// TestLargeRounds reads rounds that are larger than maxResident. Samples come in order from a file and from a pipe. If the file
// cannot be read again, the error names the offset.
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

// smallReader reads 100 bytes at a time, like a pipe that gets a few records now and then.
type smallReader struct{ r io.Reader }

func (r smallReader) Read(b []byte) (int, error) { return r.r.Read(b[:min(len(b), 100)]) }

// TestSmallReads reads a round that arrives in small pieces. The memory that it takes does not depend on the number of pieces.
func TestSmallReads(t *testing.T) {
	const samples = 2000
	b := synthetic(t, samples, samples, 0)
	r, err := NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.stream.r = smallReader{r.stream.r}
	made, create := 0, r.stream.chunks.pool.New
	r.stream.chunks.pool.New = func() any {
		made++
		return create()
	}
	n := 0
	for rec, err := range r.Records() {
		if err != nil {
			t.Fatal(err)
		}
		if _, is := rec.Value.(*Sample); is {
			n++
		}
	}
	if most := len(b)/chunkSize + 1; n != samples || made > most {
		t.Errorf("%d samples of %d in %d pieces of memory, want %d at most", n, samples, made, most)
	}
}
