package target

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	os.Exit(m.Run())
}

// BenchmarkCommand is what it takes to start a command that waits, to let it go, and to reap it.
func BenchmarkCommand(b *testing.B) {
	for b.Loop() {
		c, err := StartCommand([]string{"/bin/true"})
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Exec(); err != nil {
			b.Fatal(err)
		}
		c.Wait()
	}
}
