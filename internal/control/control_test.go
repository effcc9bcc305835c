package control

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestControl(t *testing.T) {
	dir := t.TempDir()
	ctl, ack := filepath.Join(dir, "ctl"), filepath.Join(dir, "ack")
	for _, f := range []string{ctl, ack} {
		if err := syscall.Mkfifo(f, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	warnings := make(chan string, 1)
	c, err := Open("fifo:"+ctl+","+ack, func(s string) { warnings <- s })
	if err != nil {
		t.Fatal(err)
	}
	w, err := os.OpenFile(ctl, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r, err := os.OpenFile(ack, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := w.WriteString("enable\nfly\n\ndisable\x00\nstop\n"); err != nil {
		t.Fatal(err)
	}
	acks := bufio.NewReader(r)
	for _, want := range []Command{Enable, Disable, Stop} {
		if got := <-c.Commands(); got != want {
			t.Fatalf("command = %q, want %q", got, want)
		}
		if err := c.Ack(); err != nil {
			t.Fatal(err)
		}
		if line, err := acks.ReadString('\n'); line != "ack\n" {
			t.Fatalf("acknowledged with %q, %v", line, err)
		}
	}
	if w := <-warnings; !strings.Contains(w, `"fly" is not a command`) {
		t.Errorf("warning = %q", w)
	}
}

func TestControlErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for arg, want := range map[string]string{
		"3":                "--control takes fd:CTL[,ACK] or fifo:CTL[,ACK]",
		"fd:x":             `"x" is not the number of a descriptor`,
		"fd:-1":            `"-1" is not the number of a descriptor`,
		"fd:987":           "descriptor 987 is not open",
		"fifo:/nonexisten": "no such file",
		"fifo:" + file:     "is not a FIFO",
	} {
		if _, err := Open(arg, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open(%q) = %v, want it to say %q", arg, err, want)
		}
	}
}
