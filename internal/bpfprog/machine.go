package bpfprog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"unsafe"
)

// Machine is the Source that asks the kernel of this machine.
type Machine struct{}

// LinkProgram returns the ID of a link's program. The error is fs.ErrNotExist if there is no such link.
func (Machine) LinkProgram(link uint32) (uint32, error) {
	d, err := links.open(link)
	if err != nil {
		return 0, err
	}
	defer d.close()
	id, err := d.linkProgram()
	if err != nil {
		return 0, fmt.Errorf("read BPF link %d: %w", link, err)
	}
	return id, nil
}

func (d descriptor) linkProgram() (uint32, error) {
	var info linkInfo
	err := d.info(unsafe.Pointer(&info), unsafe.Sizeof(info))
	return info.word(offsetProgram), err
}

// PinnedProgram returns the ID of the program that is pinned at a path in a bpffs, or of the program of the link that is.
func (Machine) PinnedProgram(path string) (uint32, error) {
	d, err := getPinned(path)
	if err != nil {
		return 0, fmt.Errorf("open what is pinned at %s: %w", path, err)
	}
	defer d.close()
	file, err := os.Readlink(fmt.Sprint("/proc/self/fd/", int(d)))
	switch {
	case err != nil:
		return 0, err
	case file == "anon_inode:bpf-prog":
		var info programInfo
		if err := d.info(unsafe.Pointer(&info), unsafe.Sizeof(info)); err != nil {
			return 0, fmt.Errorf("read the BPF program that is pinned at %s: %w", path, err)
		}
		return info.id, nil
	case isBPF([]byte(file)):
		id, err := d.linkProgram()
		if err != nil {
			return 0, fmt.Errorf("read the BPF link that is pinned at %s: %w", path, err)
		}
		return id, nil
	}
	return 0, fmt.Errorf("what is pinned at %s is neither a program nor a link", path)
}

// CgroupPrograms returns the IDs of the programs that are attached to a cgroup v2 itself. cgroup is its directory, or its path from the root
// of the hierarchy.
func (Machine) CgroupPrograms(cgroup string) ([]uint32, error) {
	return cgroups{root: cgroupMount()}.programs(cgroup)
}

// Held returns the IDs of the programs that a process holds. It fails if there is no such process, or if this process may not inspect it.
func (Machine) Held(pid int) ([]uint32, error) { return Held("/proc", pid) }

// MapsNamed returns the IDs of the maps with a name. It compares the first 15 bytes, because the kernel does not keep more.
func (Machine) MapsNamed(name string) ([]uint32, error) {
	var found []uint32
	for id, err := range maps.ids() {
		if err != nil {
			return nil, err
		}
		m, err := readMap(id)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if m.Name == name[:min(len(name), 15)] {
			found = append(found, id)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no BPF map has the name %q", name)
	}
	return found, nil
}

// Map is a BPF map.
type Map struct {
	ID   uint32 `json:"id"`
	Name string `json:"name"` // first 15 bytes
}

func (m Map) String() string {
	return strings.TrimSpace(m.Name + " (" + strconv.FormatUint(uint64(m.ID), 10) + ")")
}

// readMaps returns the info of the maps that programs use, by ID. It leaves out maps that are freed while it runs.
func readMaps(programs []*Program) (map[uint32]mapInfo, error) {
	all := make(map[uint32]mapInfo)
	for _, p := range programs {
		for _, id := range p.MapIDs {
			if _, known := all[id]; known {
				continue
			}
			d, info, err := openMap(id)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			d.close()
			all[id] = info
		}
	}
	return all, nil
}

func readMap(id uint32) (Map, error) {
	d, info, err := openMap(id)
	if err != nil {
		return Map{}, err
	}
	d.close()
	return info.named(), nil
}

func (i *mapInfo) named() Map { return Map{i.id, text(i.name[:])} }

// MapDetail is a map as the kernel describes it.
type MapDetail struct {
	Map
	Type       MapType `json:"type"`
	KeySize    uint32  `json:"bytes_key"`
	ValueSize  uint32  `json:"bytes_value"` // per CPU for types that have a value for each
	MaxEntries uint32  `json:"max_entries"`
	Memlock    uint64  `json:"bytes_memlock"` // memory charged for the map
}

// ReadMapDetails returns the maps with these IDs, as far as they still exist.
func ReadMapDetails(ids []uint32) ([]MapDetail, error) {
	var all []MapDetail
	scratch := make([]byte, 4096)
	for _, id := range ids {
		m, err := readMapDetail(id, scratch)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

func readMapDetail(id uint32, scratch []byte) (MapDetail, error) {
	d, info, err := openMap(id)
	if err != nil {
		return MapDetail{}, err
	}
	defer d.close()
	m := MapDetail{Map: info.named(), Type: MapType(info.kind), KeySize: info.keySize, ValueSize: info.valueSize, MaxEntries: info.entries}
	m.Memlock, err = d.memlock(scratch)
	return m, err
}

// MapType is the type of a map: BPF_MAP_TYPE_* from include/uapi/linux/bpf.h.
type MapType uint32

// String returns the name of the type as in bpf.h, without the prefix and in lower case.
func (t MapType) String() string { return nameOf(mapTypeNames, uint32(t)) }

// MarshalText returns the name.
func (t MapType) MarshalText() ([]byte, error) { return []byte(t.String()), nil }
