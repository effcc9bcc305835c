package kernel

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseModules(t *testing.T) {
	const text = `second 8192 0 - Live 0xffffffffc0003000
first 16384 2 second,third, Live 0xffffffffc0001000 (OE)
hidden 4096 0 - Live 0x0000000000000000
bare 4096 0 - Live ffffffffc0009000
huge 4294967296 0 - Live 0xffffffffc0009000
noise 4096 0 - Live 0xnoise
short 4096 0
`
	want := []Module{{"first", 0xffffffffc0001000, 0x2000}, {"second", 0xffffffffc0003000, 8192}}
	if diff := cmp.Diff(want, ParseModules(text)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := ParseModules(""); got != nil {
		t.Errorf("nothing is %v", got)
	}
}
