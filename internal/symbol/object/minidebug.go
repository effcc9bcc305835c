package object

import "fmt"

// miniDebugInfo returns the ELF file in .gnu_debugdata, or nil if there is none. Fedora and others ship the names of local functions there.
func (i *image) miniDebugInfo() (*image, error) {
	s := i.section(".gnu_debugdata")
	if s == nil {
		return nil, nil
	}
	packed, err := i.contents(s)
	if err != nil {
		return nil, err
	}
	data, err := unxz(packed, mostUnpacked(packed))
	if err != nil {
		return nil, fmt.Errorf("decompress .gnu_debugdata: %w", err)
	}
	return newImage(data)
}
