package job

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestStatus(t *testing.T) {
	var line bytes.Buffer
	want := Status{Exit: 137}
	if err := want.Write(&line); err != nil {
		t.Fatal(err)
	}
	got, err := ReadStatus(&line)
	if err != nil || got != want {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

func TestReadStatusOfNothing(t *testing.T) {
	if _, err := ReadStatus(strings.NewReader("")); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want %v", err, io.EOF)
	}
}
