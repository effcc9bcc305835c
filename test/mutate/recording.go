package main

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// recordingCommands returns the commands that read recordings, in every format.
func recordingCommands(mutant, sound, empty string) [][]string {
	var all [][]string
	add := func(args ...string) {
		all = append(all, append(args, "-i", mutant, "--symfs", empty, "--kallsyms", "/dev/null"))
	}
	for _, f := range []string{"json", "csv", "folded", "pprof", "flamegraph", "html", "speedscope", "firefox"} {
		add("report", "--format", f)
	}
	add("report", "--header", "-n", "--show-total-period", "--sort", "comm,dso,symbol,srcline,cpu,cgroup,time,parent,prog")
	add("report", "--no-children", "-g", "caller", "--group", "--sort", "pid,tid,addr,dso_size,comm_nodigit")
	add("report", "-b", "--sort", "dso_from,symbol_from,dso_to,symbol_to,srcline_from,srcline_to,mispredict,in_tx,abort,cycles,socket")
	add("report", "--mem-mode", "-g", "fractal")
	add("report", "--no-branch-stack", "--sort", "weight,ins_lat,transaction,addr,phys_daddr,code_page_size,data_page_size,dcacheline,symbol_iaddr,cgroup_id")
	add("report", "-F", "weight1,weight2,weight3,mem,sym")
	add("report", "--stats")
	add("report", "--header-only")
	add("report", "--pid", "100", "--time", "0.1,", "-t", ",")
	add("script")
	add("script", "--header", "--ns", "-F", "comm,tid,pid,time,cpu,event,trace,ip,sym,dso,addr,symoff,srcline,period,iregs,uregs,brstack,brstacksym,brstackoff,data_src,weight,"+
		"bpf-output,phys_addr,data_page_size,code_page_size,ins_lat,retire_lat,misc,tod,cgroup,dsoff,flags,insn,insnlen,callindent,synth")
	add("script", "-F", "ip,brstackinsn,brstackinsnlen,srcline,srccode")
	add("script", "--json")
	add("script", "-D", "--header", "-I", "-F", "comm,ip,disasm")
	add("report", "-D")
	add("script", "--show-bpf-events", "--show-cgroup-events", "--show-lost-events", "--show-mmap-events", "--show-namespace-events", "--show-round-events",
		"--show-switch-events", "--show-task-events", "--show-text-poke-events")
	for _, f := range []string{"text", "json", "html"} {
		add("annotate", "-l", "--format", f)
	}
	return append(all,
		[]string{"evlist", "-v", "--trace-fields", "-i", mutant},
		[]string{"evlist", "-g", "-i", mutant},
		[]string{"stat", "report", "-i", mutant},
		[]string{"stat", "report", "-A", "-j", "-i", mutant},
		[]string{"stat", "report", "--per-core", "-x,", "-i", mutant},
		[]string{"buildid-list", "-i", mutant},
		[]string{"buildid-list", "-H", "-i", mutant},
		[]string{"diff", "--symfs", empty, "--kallsyms", "/dev/null", sound, mutant},
		[]string{"report", "--symfs", empty, "--kallsyms", "/dev/null", "-i", sound, "--diff", mutant})
}

// byteOrder is the little-endian or big-endian byte order.
type byteOrder interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

// recording is a recording that is split into its parts.
type recording struct {
	order   byteOrder
	front   []byte   // the bytes before the records
	records [][]byte // each with the data that follow it
	tail    []byte   // in a file: the table of features and the features
	pipe    bool
}

const (
	magicLittle, magicBig = "PERFILE2", "2ELIFREP"
	headerSize            = 104 // size of a file's header
	dataAt                = 40  // offset in the header of the records' offset, which their size follows
	featureBits           = 72  // offset in the header of the bitmap of features
)

// parse splits a sound recording into its parts.
func parse(b []byte) *recording {
	r := &recording{order: binary.LittleEndian}
	if bytes.HasPrefix(b, []byte(magicBig)) {
		r.order = binary.BigEndian
	}
	r.pipe = r.order.Uint64(b[8:]) == 16
	start, end := uint64(16), uint64(len(b))
	if !r.pipe {
		start = r.order.Uint64(b[dataAt:])
		end = start + r.order.Uint64(b[dataAt+8:])
	}
	r.front, r.tail = slices.Clone(b[:start]), slices.Clone(b[end:])
	for data := b[start:end]; len(data) >= 8; {
		size := uint64(r.order.Uint16(data[6:]))
		switch r.order.Uint32(data) {
		case 66: // HEADER_TRACING_DATA
			size += (uint64(r.order.Uint32(data[8:])) + 7) &^ 7
		case 71: // AUXTRACE
			size += r.order.Uint64(data[8:])
		}
		r.records = append(r.records, slices.Clone(data[:size]))
		data = data[size:]
	}
	return r
}

// bytes joins the parts of a recording. It updates the offsets and sizes in a file to match the parts.
func (r *recording) bytes() []byte {
	b := slices.Clone(r.front)
	for _, rec := range r.records {
		b = append(b, rec...)
	}
	if r.pipe || len(r.front) < headerSize {
		return b
	}
	old := r.order.Uint64(b[dataAt+8:])
	now := uint64(len(b) - len(r.front))
	r.order.PutUint64(b[dataAt+8:], now)
	tail := slices.Clone(r.tail)
	for n := range r.features() {
		if at := tail[16*n:]; r.order.Uint64(at) >= old {
			r.order.PutUint64(at, r.order.Uint64(at)+now-old)
		}
	}
	return append(b, tail...)
}

// features returns the number of features, but at most the number that fit into the tail.
func (r *recording) features() int {
	n := 0
	for at := featureBits; at+8 <= min(len(r.front), headerSize); at += 8 {
		for bits := r.order.Uint64(r.front[at:]); bits != 0; bits &= bits - 1 {
			n++
		}
	}
	return min(n, len(r.tail)/16)
}

// nasty returns a number that readers are likely to handle wrongly. now is the number that it replaces.
func nasty(random *rand.Rand, now uint64) uint64 {
	numbers := []uint64{0, 1, 7, 8, 255, 4096, 65528, 1 << 20, 1 << 31, 1<<32 - 1, 1 << 32, 1 << 40, 1 << 62, math.MaxInt64, 1 << 63, math.MaxUint64, math.MaxUint64 - 7,
		math.MaxUint64 - 4095, math.MaxUint64 - 127, math.MaxUint64 - 511, now + 1, now - 1, now + 8, now * 2, now ^ 1<<random.IntN(64), random.Uint64(), random.Uint64() >> random.IntN(64)}
	return numbers[random.IntN(len(numbers))]
}

// scribble changes a number or some bits of b.
func scribble(random *rand.Rand, b []byte, order byteOrder) {
	if len(b) == 0 {
		return
	}
	at := random.IntN(len(b))
	switch kind := random.IntN(5); {
	case kind < 2 && len(b) >= 8:
		at = min(at&^7, len(b)-8)
		order.PutUint64(b[at:], nasty(random, order.Uint64(b[at:])))
	case kind == 2 && len(b) >= 4:
		at = min(at&^3, len(b)-4)
		order.PutUint32(b[at:], uint32(nasty(random, uint64(order.Uint32(b[at:])))))
	case kind == 3 && len(b) >= 2:
		at = min(at&^1, len(b)-2)
		order.PutUint16(b[at:], uint16(nasty(random, uint64(order.Uint16(b[at:])))))
	default:
		for range 1 + random.IntN(4) {
			b[random.IntN(len(b))] ^= 1 << random.IntN(8)
		}
	}
}

// mutateRecording returns a mutant of one of the recordings, with one to four changes.
func mutateRecording(random *rand.Rand, recordings [][]byte) []byte {
	r := parse(recordings[random.IntN(len(recordings))])
	for range 1 + random.IntN(4) {
		r.mutate(random, recordings)
	}
	b := r.bytes()
	switch random.IntN(12) {
	case 0:
		b = b[:random.IntN(len(b)+1)]
	case 1:
		scribble(random, b, r.order)
	case 2: // the magic number of the other byte order
		copy(b, map[bool]string{true: magicLittle, false: magicBig}[r.order == binary.BigEndian])
	}
	return b
}

func (r *recording) mutate(random *rand.Rand, recordings [][]byte) {
	if len(r.records) == 0 {
		scribble(random, r.front, r.order)
		return
	}
	n := random.IntN(len(r.records))
	rec := r.records[n]
	switch random.IntN(14) {
	case 0: // the header, after the magic number
		scribble(random, r.front[min(8, len(r.front)):min(headerSize, len(r.front))], r.order)
	case 1: // IDs and attributes
		scribble(random, r.front[min(headerSize, len(r.front)):], r.order)
	case 2: // the table of features
		scribble(random, r.tail[:16*r.features()], r.order)
	case 3: // features
		scribble(random, r.tail[16*r.features():], r.order)
	case 4: // a record's header
		scribble(random, rec[:8], r.order)
	case 5, 6, 7: // the body of a record
		scribble(random, rec[8:], r.order)
	case 8: // a record gets another type
		r.order.PutUint32(rec, uint32(random.IntN(92)))
	case 9: // many copies of a record, some of them with changes
		var more [][]byte
		for range random.IntN(1 << random.IntN(16)) {
			again := slices.Clone(rec)
			if random.IntN(2) == 0 {
				scribble(random, again[8:], r.order)
			}
			more = append(more, again)
		}
		r.records = slices.Insert(r.records, n, more...)
	case 10: // another order
		random.Shuffle(len(r.records), func(i, j int) { r.records[i], r.records[j] = r.records[j], r.records[i] })
	case 11: // records of another recording
		other := parse(recordings[random.IntN(len(recordings))])
		for _, o := range other.records {
			if random.IntN(2) == 0 {
				r.records = slices.Insert(r.records, random.IntN(len(r.records)+1), o)
			}
		}
	case 12: // a record of any type and contents
		body := make([]byte, 8*random.IntN(40))
		for i := range body {
			if random.IntN(3) == 0 {
				body[i] = byte(random.Uint32())
			}
		}
		r.records = slices.Insert(r.records, n, r.record(uint32(random.IntN(92)), body))
	case 13:
		r.compress(n)
	}
}

func (r *recording) record(kind uint32, body []byte) []byte {
	b := r.order.AppendUint32(nil, kind)
	b = r.order.AppendUint16(b, 0)
	b = r.order.AppendUint16(b, uint16(8+len(body)))
	return append(b, body...)
}

// compress replaces the records from the nth on, about 32 KiB of them, by one COMPRESSED record, if they fit into one.
func (r *recording) compress(n int) {
	var raw []byte
	end := n
	for ; end < len(r.records) && len(raw) < 32<<10; end++ {
		raw = append(raw, r.records[end]...)
	}
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err)
	}
	packed := e.EncodeAll(raw, nil)
	if len(packed) > math.MaxUint16-16 {
		return
	}
	packed = append(packed, make([]byte, -len(packed)&7)...) // perf pads it with zeros
	r.records = slices.Replace(r.records, n, end, r.record(81, packed))
}
