package linear

import "encoding/binary"

// AppendPrograms appends the feature BPF_PROG_INFO to b.
func AppendPrograms(b []byte, order binary.AppendByteOrder, all []*Info) []byte {
	b = order.AppendUint32(b, uint32(len(all)))
	for _, i := range all {
		b = i.Append(b, order)
	}
	return b
}

// AppendBTF appends the feature BPF_BTF to b.
func AppendBTF(b []byte, order binary.AppendByteOrder, all []BTF) []byte {
	b = order.AppendUint32(b, uint32(len(all)))
	for _, one := range all {
		b = order.AppendUint32(b, one.ID)
		b = order.AppendUint32(b, uint32(len(one.Data)))
		b = append(b, one.Data...)
	}
	return b
}

// Append appends one program of the feature BPF_PROG_INFO to b. It marks empty arrays as missing.
func (i *Info) Append(b []byte, order binary.AppendByteOrder) []byte {
	e := encoder{order: order, offsets: make(map[uint]uint64)}
	e.array(jitedCode, len(i.JITed), func() { e.data = append(e.data, i.JITed...) })
	e.array(addresses, len(i.Addresses), func() { e.u64(i.Addresses...) })
	e.array(sizes, len(i.Sizes), func() { e.u32(i.Sizes...) })
	e.array(functionInfo, len(i.Functions), func() {
		for _, f := range i.Functions {
			e.u32(f.Instruction, f.Type)
		}
	})
	e.array(lineInfo, len(i.Lines), func() {
		for _, l := range i.Lines {
			e.u32(l.Instruction, l.File, l.Text, l.LineColumn)
		}
	})
	e.array(jitedLines, len(i.JITedLines), func() { e.u64(i.JITedLines...) })
	e.array(tags, len(i.Tags), func() {
		for _, t := range i.Tags {
			e.data = append(e.data, t[:]...)
		}
	})
	b = order.AppendUint32(b, infoSize)
	b = order.AppendUint32(b, uint32(len(e.data)))
	b = order.AppendUint64(b, e.arrays)
	return append(e.head(b, i), e.data...)
}

type encoder struct {
	order   binary.AppendByteOrder
	data    []byte
	arrays  uint64
	offsets map[uint]uint64 // of arrays in the data, by bit
}

func (e *encoder) u32(all ...uint32) {
	for _, v := range all {
		e.data = e.order.AppendUint32(e.data, v)
	}
}

func (e *encoder) u64(all ...uint64) {
	for _, v := range all {
		e.data = e.order.AppendUint64(e.data, v)
	}
}

// array appends an array of n elements to the data, and pads it to a multiple of 8 bytes.
func (e *encoder) array(a array, n int, write func()) {
	if n == 0 {
		return
	}
	e.arrays |= 1 << a.bit
	e.offsets[a.bit] = uint64(len(e.data))
	write()
	for len(e.data)%8 != 0 {
		e.data = append(e.data, 0)
	}
}

// head appends struct bpf_prog_info up to run_cnt.
func (e *encoder) head(b []byte, i *Info) []byte {
	u32 := func(all ...uint32) {
		for _, v := range all {
			b = e.order.AppendUint32(b, v)
		}
	}
	u64 := func(all ...uint64) {
		for _, v := range all {
			b = e.order.AppendUint64(b, v)
		}
	}
	u32(i.Type, i.ID)
	b = append(b, i.Tag[:]...)
	u32(i.JITedSize, i.TranslatedSize)
	u64(e.offsets[jitedCode.bit], 0, i.LoadTime)
	u32(i.UID, i.Maps)
	u64(0)
	var name [16]byte
	copy(name[:15], i.Name)
	b = append(b, name[:]...)
	gpl := uint32(0)
	if i.GPLCompatible {
		gpl = firstBit(e.order.String())
	}
	u32(i.InterfaceIndex, gpl)
	u64(i.NetNSDevice, i.NetNSInode)
	u32(uint32(len(i.Addresses)), uint32(len(i.Sizes)))
	u64(e.offsets[addresses.bit], e.offsets[sizes.bit])
	u32(i.BTF, functionLen)
	u64(e.offsets[functionInfo.bit])
	u32(uint32(len(i.Functions)), uint32(len(i.Lines)))
	u64(e.offsets[lineInfo.bit], e.offsets[jitedLines.bit])
	u32(uint32(len(i.JITedLines)), lineLen, 8, uint32(len(i.Tags)))
	u64(e.offsets[tags.bit], i.RunTime, i.Runs)
	return b
}
