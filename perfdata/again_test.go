package perfdata

import (
	"bytes"
	"errors"
	"io"
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

// smallReader reads 100 bytes at a time, as of a pipe into which a few records are written now and then.
type smallReader struct{ r io.Reader }

func (r smallReader) Read(b []byte) (int, error) { return r.r.Read(b[:min(len(b), 100)]) }

// TestSmallReads has a round of records that come in small pieces: they take as much memory as they are long.
func TestSmallReads(t *testing.T) {
	const samples = 2000
	b := synthetic(t, samples, samples, 0)
	r, err := NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.stream.r = smallReader{r.stream.r}
	made, create := 0, r.stream.chunks.New
	r.stream.chunks.New = func() any {
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
