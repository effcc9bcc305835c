package perfdata

import (
	"fmt"
	"math/bits"
)

// bpfProgInfoSize is that of struct bpf_prog_info since Linux 6.0.
const bpfProgInfoSize = 232

const maxBPFProgInfoSize = 4096

// bpfPrograms decodes a number of struct perf_bpil: the size of the information, that of the arrays behind it, which arrays there are,
// struct bpf_prog_info with offsets into the arrays where there were pointers, and the arrays.
func (c *cursor) bpfPrograms() (BPFPrograms, error) {
	programs := make(BPFPrograms, c.count(uint64(c.u32()), 16))
	for i := range programs {
		size, dataSize := c.u32(), c.u32()
		arrays := c.u64()
		if size > maxBPFProgInfoSize {
			return nil, fmt.Errorf("program %d of %d: a bpf_prog_info of %d bytes", i+1, len(programs), size)
		}
		info := c.bytes(int(size))
		data := c.bytes(c.count(uint64(dataSize), 1))
		if c.short {
			return nil, nil
		}
		if err := programs[i].decode(info, data, arrays, c.big); err != nil {
			return nil, fmt.Errorf("program %d of %d: %w", i+1, len(programs), err)
		}
	}
	return programs, nil
}

// bpfArray is where an array stands: its offset in the data, number and size of its elements.
type bpfArray struct {
	what          string
	at            uint64
	count, stride uint32
}

func (p *BPFProgram) decode(info, data []byte, arrays uint64, big bool) error {
	p.InfoSize, p.Arrays = uint32(len(info)), arrays
	if len(info) > bpfProgInfoSize {
		p.InfoRest = info[bpfProgInfoSize:]
	}
	var full [bpfProgInfoSize]byte
	copy(full[:], info)
	c := cursor{b: full[:], big: big}
	p.Type, p.ID = c.u32(), c.u32()
	copy(p.Tag[:], c.bytes(8))
	p.JITedLen, p.XlatedLen = c.u32(), c.u32()
	jited := bpfArray{"JITed code", c.u64(), p.JITedLen, 1}
	xlated := bpfArray{"instructions", c.u64(), p.XlatedLen, 1}
	p.LoadTime, p.CreatedByUID = c.u64(), c.u32()
	maps := bpfArray{"map IDs", 0, c.u32(), 4}
	maps.at = c.u64()
	p.Name = c.text(16)
	p.IfIndex, p.GPLCompatible = c.u32(), gplBit(c.u32(), big)
	p.NetnsDev, p.NetnsInode = c.u64(), c.u64()
	ksyms := bpfArray{"addresses of functions", 0, c.u32(), 8}
	lens := bpfArray{"lengths of functions", 0, c.u32(), 4}
	ksyms.at, lens.at = c.u64(), c.u64()
	p.BTFID = c.u32()
	funcs := bpfArray{"functions", 0, 0, c.u32()}
	funcs.at, funcs.count = c.u64(), c.u32()
	lines := bpfArray{"lines", 0, c.u32(), 0}
	lines.at = c.u64()
	jitedLines := bpfArray{"addresses of lines", c.u64(), c.u32(), 0}
	lines.stride, jitedLines.stride = c.u32(), c.u32()
	tags := bpfArray{"tags", 0, c.u32(), 8}
	tags.at = c.u64()
	p.RunTime, p.RunCount, p.RecursionMisses = c.u64(), c.u64(), c.u64()
	p.VerifiedInsns, p.AttachBTFObjID, p.AttachBTFID = c.u32(), c.u32(), c.u32()

	p.counts = [...]uint32{p.JITedLen, p.XlatedLen, maps.count, ksyms.count, lens.count, funcs.count, lines.count, jitedLines.count,
		tags.count}

	r := bpfArrayReader{data: data, arrays: arrays, big: big}
	p.JITedInsns = r.bytes(BPFArrayJITedInsns, jited)
	p.XlatedInsns = r.bytes(BPFArrayXlatedInsns, xlated)
	r.each(BPFArrayMapIDs, maps, 4, func(c *cursor) { p.MapIDs = append(p.MapIDs, c.u32()) })
	r.each(BPFArrayJITedKSyms, ksyms, 8, func(c *cursor) { p.JITedKSyms = append(p.JITedKSyms, c.u64()) })
	r.each(BPFArrayJITedFuncLens, lens, 4, func(c *cursor) { p.JITedFuncLens = append(p.JITedFuncLens, c.u32()) })
	r.each(BPFArrayFuncInfo, funcs, 8, func(c *cursor) {
		p.FuncInfo = append(p.FuncInfo, BPFFuncInfo{InsnOff: c.u32(), TypeID: c.u32()})
	})
	r.each(BPFArrayLineInfo, lines, 16, func(c *cursor) {
		p.LineInfo = append(p.LineInfo, BPFLineInfo{InsnOff: c.u32(), FileNameOff: c.u32(), LineOff: c.u32(), LineCol: c.u32()})
	})
	r.each(BPFArrayJITedLineInfo, jitedLines, 8, func(c *cursor) { p.JITedLineInfo = append(p.JITedLineInfo, c.u64()) })
	r.each(BPFArrayProgTags, tags, 8, func(c *cursor) { p.ProgTags = append(p.ProgTags, [8]byte(c.bytes(8))) })
	return r.err
}

// gplBit is the first bit field of its word: the highest bit on a big-endian machine.
func gplBit(word uint32, big bool) bool {
	if big {
		return word>>31 != 0
	}
	return word&1 != 0
}

type bpfArrayReader struct {
	data   []byte
	arrays uint64
	big    bool
	err    error
}

func (r *bpfArrayReader) bytes(bit uint64, a bpfArray) []byte {
	if r.arrays&bit == 0 || a.count == 0 || r.err != nil {
		return nil
	}
	size := uint64(a.count) * uint64(a.stride)
	if a.at > uint64(len(r.data)) || size > uint64(len(r.data))-a.at {
		r.err = fmt.Errorf("its %s are %d bytes at %d, outside of %d bytes of data", a.what, size, a.at, len(r.data))
		return nil
	}
	return r.data[a.at : a.at+size : a.at+size]
}

// each calls f for each element, of which at least so many bytes must be there.
func (r *bpfArrayReader) each(bit uint64, a bpfArray, least uint32, f func(*cursor)) {
	if r.arrays&bit == 0 || a.count == 0 || r.err != nil {
		return
	}
	if a.stride < least {
		r.err = fmt.Errorf("its %s have %d bytes each, not at least %d", a.what, a.stride, least)
		return
	}
	b := r.bytes(bit, a)
	for ; len(b) > 0; b = b[a.stride:] {
		f(&cursor{b: b[:a.stride], big: r.big})
	}
}

func (f BPFPrograms) appendFeature(b []byte) []byte {
	b = appendU32(b, uint32(len(f)))
	for i := range f {
		b = f[i].append(b)
	}
	return b
}

func (p *BPFProgram) append(b []byte) []byte {
	var data []byte
	// place puts an array behind those before it, each at a multiple of 8 as perf does, and returns where.
	place := func(bit uint64, array []byte) uint64 {
		if p.Arrays&bit == 0 || len(array) == 0 {
			return 0
		}
		at := len(data)
		data = append(data, array...)
		data = appendZeros(data, roundUp(len(data), 8)-len(data))
		return uint64(at)
	}
	var maps, ksyms, lens, funcs, lines, tags []byte
	for _, v := range p.MapIDs {
		maps = appendU32(maps, v)
	}
	ksyms = appendU64s(ksyms, p.JITedKSyms)
	for _, v := range p.JITedFuncLens {
		lens = appendU32(lens, v)
	}
	for _, f := range p.FuncInfo {
		funcs = appendU32(appendU32(funcs, f.InsnOff), f.TypeID)
	}
	for _, l := range p.LineInfo {
		lines = appendU32(appendU32(appendU32(appendU32(lines, l.InsnOff), l.FileNameOff), l.LineOff), l.LineCol)
	}
	for _, t := range p.ProgTags {
		tags = append(tags, t[:]...)
	}
	jitedAt := place(BPFArrayJITedInsns, p.JITedInsns)
	xlatedAt := place(BPFArrayXlatedInsns, p.XlatedInsns)
	mapsAt := place(BPFArrayMapIDs, maps)
	ksymsAt := place(BPFArrayJITedKSyms, ksyms)
	lensAt := place(BPFArrayJITedFuncLens, lens)
	funcsAt := place(BPFArrayFuncInfo, funcs)
	linesAt := place(BPFArrayLineInfo, lines)
	jitedLinesAt := place(BPFArrayJITedLineInfo, appendU64s(nil, p.JITedLineInfo))
	tagsAt := place(BPFArrayProgTags, tags)

	// count is the length of an array, and where it is not there what the kernel said that there are.
	count := func(bit uint64, n int) uint32 {
		if p.Arrays&bit == 0 && n == 0 {
			return p.counts[bits.TrailingZeros64(bit)]
		}
		return uint32(n)
	}
	size := int(p.InfoSize)
	if size == 0 {
		size = bpfProgInfoSize + len(p.InfoRest)
	}
	b = appendU64(appendU32(appendU32(b, uint32(size)), uint32(len(data))), p.Arrays)
	start := len(b)
	b = append(appendU32(appendU32(b, p.Type), p.ID), p.Tag[:]...)
	b = appendU64(appendU64(appendU32(appendU32(b, p.JITedLen), p.XlatedLen), jitedAt), xlatedAt)
	b = appendU32(appendU64(b, p.LoadTime), p.CreatedByUID)
	b = appendU64(appendU32(b, count(BPFArrayMapIDs, len(p.MapIDs))), mapsAt)
	b = appendText(b, p.Name, 16)
	gpl := uint32(0)
	if p.GPLCompatible {
		gpl = 1
	}
	b = appendU32(appendU32(b, p.IfIndex), gpl)
	b = appendU64(appendU64(b, p.NetnsDev), p.NetnsInode)
	b = appendU32(appendU32(b, count(BPFArrayJITedKSyms, len(p.JITedKSyms))), count(BPFArrayJITedFuncLens, len(p.JITedFuncLens)))
	b = appendU64(appendU64(b, ksymsAt), lensAt)
	b = appendU32(appendU32(b, p.BTFID), 8)
	b = appendU32(appendU64(b, funcsAt), count(BPFArrayFuncInfo, len(p.FuncInfo)))
	b = appendU64(appendU32(b, count(BPFArrayLineInfo, len(p.LineInfo))), linesAt)
	b = appendU32(appendU64(b, jitedLinesAt), count(BPFArrayJITedLineInfo, len(p.JITedLineInfo)))
	b = appendU32(appendU32(b, 16), 8)
	b = appendU64(appendU32(b, count(BPFArrayProgTags, len(p.ProgTags))), tagsAt)
	b = appendU64(appendU64(appendU64(b, p.RunTime), p.RunCount), p.RecursionMisses)
	b = appendU32(appendU32(appendU32(b, p.VerifiedInsns), p.AttachBTFObjID), p.AttachBTFID)
	b = append(appendU32(b, 0), p.InfoRest...)
	if n := start + size - len(b); n > 0 {
		b = appendZeros(b, n)
	}
	return append(b[:start+size], data...)
}
