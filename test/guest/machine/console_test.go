package machine

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
)

func TestConsole(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"silence", "\r\n", "; its console was silent"},
		{"the monitor's prompt", "(qemu) \x1b[Kinfo\r\nRIP=1\r\n(qemu) ", "; its console ended with:\nRIP=1"},
		{"all of little", "[ 0.1] Kernel panic\r\n", "; its console ended with:\n[ 0.1] Kernel panic"},
		{
			"the end of much", strings.Repeat("x", 3*keptOfConsole) + "end",
			"; its console ended with:\n" + strings.Repeat("x", keptOfConsole-3) + "end",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ours, qemu := net.Pipe()
			c := newConsole(ours)
			go func() {
				fmt.Fprint(qemu, tt.in)
				qemu.Close()
			}()
			c.read()
			if got := c.String(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestInterview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, qemu := net.Pipe()
		c := newConsole(ours)
		go c.read()
		go func() {
			buf := make([]byte, 4<<10)
			for {
				n, err := qemu.Read(buf)
				if err != nil {
					return
				}
				fmt.Fprintf(qemu, "%q:\r\n%s.\r\n", buf[:n], strings.Repeat("r", keptOfConsole))
			}
		}()
		c.interview()
		qemu.Close()
		got := c.String()
		for _, want := range []string{`"\x01cinfo cpus\n":`, `"info registers -a\n":`, `"info registers -a\n\x01c":`, `"\x01b9":`, `"\x01bl":`, `"\x01bt":`} {
			if !strings.Contains(got, want) {
				t.Errorf("no answer to %s in %.2000q", want, got)
			}
		}
	})
}
