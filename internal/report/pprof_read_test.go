package report

import (
	"bytes"
	"compress/gzip"
	"slices"
	"strings"
	"testing"

	"github.com/bperf/bperf/internal/profile"
)

// TestPprofBack reads what WritePprof wrote: stacks, names, threads and values are unchanged.
func TestPprofBack(t *testing.T) {
	keys := profile.Comm | profile.TID
	p := mixed(keys, 1, nasty...)
	var written bytes.Buffer
	if err := WritePprof(&written, p, &Options{}); err != nil {
		t.Fatal(err)
	}
	back, err := ReadPprof(bytes.NewReader(written.Bytes()), keys)
	if err != nil {
		t.Fatal(err)
	}
	var want, got, changes bytes.Buffer
	if err := WriteFolded(&want, p, &Options{}); err != nil {
		t.Fatal(err)
	}
	if err := WriteFolded(&got, back, &Options{}); err != nil {
		t.Fatal(err)
	}
	if lines(&want) != lines(&got) {
		t.Errorf("%s\nread back:\n%s", &want, &got)
	}
	if err := WriteDiff(&changes, []*profile.Profile{back, p}, nil, &Options{}, DefaultDiff()); err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(changes.String()) {
		if strings.Contains(line, "main.s") { // main.s is inlined into the other function where mixed has a sample; recordings have no such samples
			continue
		}
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] != "#" {
			if rows++; fields[1] != "+0.00%" {
				t.Errorf("it has not changed: %s", line)
			}
		}
	}
	if rows < 4 {
		t.Errorf("%d rows:\n%s", rows, &changes)
	}
}

// lines returns the lines in sorted order.
func lines(b *bytes.Buffer) string {
	all := slices.Sorted(strings.Lines(b.String()))
	return strings.Join(all, "")
}

func TestPprofErrors(t *testing.T) {
	compressed := func(text string) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		z.Write([]byte(text))
		z.Close()
		return b.Bytes()
	}
	for _, test := range []struct {
		name, want string
		in         []byte
	}{
		{"nothing", "EOF", nil},
		{"no profile", "gzip: invalid header", []byte("PERFILE2 and so on")},
		{"cut", "unexpected EOF", compressed(strings.Repeat("x", 100))[:20]},
		{"text", "wire type", compressed("hello")},
		{"a string alone", "it does not say what it has counted", compressed("\x32\x00")},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := ReadPprof(bytes.NewReader(test.in), 0); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %s", err, test.want)
			}
		})
	}
}

func FuzzReadPprof(f *testing.F) {
	var written bytes.Buffer
	if err := WritePprof(&written, mixed(profile.Comm, 1), &Options{}); err != nil {
		f.Fatal(err)
	}
	f.Add(written.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := ReadPprof(bytes.NewReader(b), profile.Comm); err == nil {
			if err := Text(&bytes.Buffer{}, p, &Options{Children: true, CallGraph: defaultCallGraph()}); err != nil {
				t.Error(err)
			}
		}
	})
}
