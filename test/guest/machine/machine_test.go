package machine

import (
	"slices"
	"strings"
	"testing"
)

// TestPorts checks that the network device is behind the others, because the kernel numbers the virtio ports of Arch by their device.
func TestPorts(t *testing.T) {
	arch, err := FindArch("arm64")
	if err != nil {
		t.Fatal(err)
	}
	m := &Machine{Arch: arch, Ports: map[int]int{10001: 80}}
	args := m.args()
	if !slices.Contains(args, "user,id=network,restrict=on,hostfwd=tcp:127.0.0.1:10001-:80") {
		t.Errorf("no forwarded port: %q", args)
	}
	index := func(device string) int {
		return slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, device) })
	}
	if serial, network := index("virtio-serial-pci"), index("virtio-net-pci"); serial < 0 || network < serial {
		t.Errorf("the serial device is argument %d, and the network %d: %q", serial, network, args)
	}
	m.Ports = nil
	if args := m.args(); slices.Contains(args, "-netdev") {
		t.Errorf("a network without ports: %q", args)
	}
}
