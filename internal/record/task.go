package record

import (
	"bytes"
	"encoding/binary"

	"github.com/bperf/bperf/perfdata"
)

// decodeTask decodes a record of a task in a ring: MMAP2, FORK, EXIT and COMM of include/uapi/linux/perf_event.h. It returns nil for others.
func decodeTask(b []byte) perfdata.Value {
	ne := binary.NativeEndian
	misc := perfdata.Misc(ne.Uint16(b[4:]))
	kind := perfdata.RecordType(ne.Uint32(b))
	var least int
	switch kind {
	case perfdata.RecordMmap2:
		least = 72
	case perfdata.RecordFork, perfdata.RecordExit:
		least = 32
	case perfdata.RecordComm:
		least = 16
	default:
		return nil
	}
	if len(b) < least {
		return nil
	}
	text := func() string {
		name, _, _ := bytes.Cut(b[least:], []byte{0})
		return string(name)
	}
	id := func(at int) int32 { return int32(ne.Uint32(b[at:])) }
	switch kind {
	case perfdata.RecordFork:
		return &perfdata.Fork{PID: id(8), ParentPID: id(12), TID: id(16), ParentTID: id(20), TaskTime: ne.Uint64(b[24:])}
	case perfdata.RecordExit:
		return &perfdata.Exit{PID: id(8), ParentPID: id(12), TID: id(16), ParentTID: id(20), TaskTime: ne.Uint64(b[24:])}
	case perfdata.RecordComm:
		return &perfdata.Comm{PID: id(8), TID: id(12), Exec: misc&perfdata.MiscCommExec != 0, Comm: text()}
	}
	return &perfdata.Mmap2{PID: id(8), TID: id(12), Start: ne.Uint64(b[16:]), Length: ne.Uint64(b[24:]), Offset: ne.Uint64(b[32:]),
		Major: ne.Uint32(b[40:]), Minor: ne.Uint32(b[44:]), Inode: ne.Uint64(b[48:]), InodeGeneration: ne.Uint64(b[56:]),
		Protection: ne.Uint32(b[64:]), Flags: ne.Uint32(b[68:]), Data: misc&perfdata.MiscMmapData != 0, Filename: text()}
}
