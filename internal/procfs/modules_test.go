package procfs

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestModules(t *testing.T) {
	const text = `second 8192 0 - Live 0xffffffffc0003000
first 16384 2 second,third, Live 0xffffffffc0001000 (OE)
hidden 4096 0 - Live 0x0000000000000000
bare 4096 0 - Live ffffffffc0009000
huge 4294967296 0 - Live 0xffffffffc0009000
noise 4096 0 - Live 0xnoise
short 4096 0
`
	want := []Module{{"first", 0xffffffffc0001000, 0x2000}, {"second", 0xffffffffc0003000, 8192}}
	got, err := Modules(fstest.MapFS{"modules": {Data: []byte(text)}})
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v, -want +got:\n%s", err, diff)
	}
	if got, err := Modules(fstest.MapFS{"modules": {}}); got != nil || err != nil {
		t.Errorf("no modules are %v, error %v", got, err)
	}
	if _, err := Modules(fstest.MapFS{}); err == nil || err.Error() != "read /proc/modules: file does not exist" {
		t.Errorf("a kernel without modules: error %v", err)
	}
}
