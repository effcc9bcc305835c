package main

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// address is the guest's address in QEMU's user network 10.0.2.0/24.
var address = &net.IPNet{IP: net.IPv4(10, 0, 2, 15), Mask: net.CIDRMask(24, 32)}

// startNetwork loads the modules of a network driver, and sets up the interface. Without modules there is none.
func startNetwork(modules []string) error {
	if len(modules) == 0 {
		return nil
	}
	for _, name := range modules {
		if err := loadModule(name); err != nil {
			return fmt.Errorf("load %s: %w", name, err)
		}
	}
	return interfaceUp("eth0", address)
}

// loadModule loads a compressed module.
func loadModule(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.FinitModule(int(f.Fd()), "", unix.MODULE_INIT_COMPRESSED_FILE)
}

// interfaceUp gives a network interface its IPv4 address, if any, and switches it on.
func interfaceUp(name string, address *net.IPNet) error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	request, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	if address != nil {
		for _, set := range []struct {
			what  uint
			value net.IP
		}{{unix.SIOCSIFADDR, address.IP}, {unix.SIOCSIFNETMASK, net.IP(address.Mask)}} {
			if err := request.SetInet4Addr(set.value.To4()); err != nil {
				return err
			}
			if err := unix.IoctlIfreq(s, set.what, request); err != nil {
				return fmt.Errorf("address of %s: %w", name, err)
			}
		}
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, request)
}
