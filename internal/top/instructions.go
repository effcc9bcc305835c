package top

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/bperf/bperf/internal/allowance"
	"github.com/bperf/bperf/internal/annotate"
	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/internal/bpfprog/linear"
	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/replay"
)

// watched is the function whose samples are also added up by instruction.
type watched struct {
	id     uint64
	since  time.Time
	dso    *replay.DSO // nil before the first sample
	symbol replay.Symbol
	at     map[uint64]*addressSum
	others addressSum // all samples of the event, also those of other functions
	full   uint64     // samples that found no room in at

	listing *annotate.Listing // nil until it was read
}

// addressSum is the samples at an address: those of the interval that has not ended, of the last one, and all.
type addressSum struct{ now, last, total sampleSum }

func (s *addressSum) add(o sampleSum) {
	s.now.add(o)
	s.total.add(o)
}

func (s *addressSum) turn() { s.last, s.now = s.now, sampleSum{} }

// Limits of what is kept and shown of a function.
const (
	mostAddresses = 1 << 16
	mostCode      = 1 << 20 // bytes
)

// add adds a sample of the first event.
func (w *watched) add(f *function, address uint64, sum sampleSum) {
	w.others.add(sum)
	if f.id != w.id {
		return
	}
	at := w.at[address]
	if at == nil {
		if len(w.at) >= mostAddresses {
			w.full += sum.samples
			return
		}
		at = new(addressSum)
		w.at[address] = at
	}
	at.add(sum)
}

// find remembers the code of the function, from the frame of one of its samples.
func (w *watched) find(p *profile.Profile, frame profile.FrameID, dsoOf func(profile.ModuleID) *replay.DSO) {
	one := p.Frames()[frame]
	found := dsoOf(one.Module)
	if found == nil {
		return
	}
	dso := *found
	if len(dso.BuildID) == 0 { // another file may be at its path, where other processes see another root
		dso.BuildID, _ = hex.DecodeString(p.Strings.At(p.Modules.At(one.Module).BuildID))
	}
	of := p.Functions.At(one.Function)
	w.dso, w.symbol = &dso, replay.Symbol{Name: p.Strings.At(of.Name), Linkage: p.Strings.At(of.Name), Start: of.Start, End: of.End}
	if of.Linkage != 0 {
		w.symbol.Linkage = p.Strings.At(of.Linkage)
	}
}

// turn begins another interval.
func (w *watched) turn() {
	w.others.turn()
	for _, at := range w.at {
		at.turn()
	}
}

// values returns the samples by address, and their events: the last interval, and all time.
func (w *watched) values() ([]annotate.Event, map[uint64][]annotate.Value) {
	value := func(s sampleSum) annotate.Value { return annotate.Value{Samples: s.samples, Value: s.value} }
	event := func(name string, s sampleSum) annotate.Event {
		return annotate.Event{Name: name, Samples: s.samples, Value: s.value}
	}
	at := make(map[uint64][]annotate.Value, len(w.at))
	for address, sum := range w.at {
		at[address] = []annotate.Value{value(sum.last), value(sum.total)}
	}
	return []annotate.Event{event("the last interval", w.others.last), event("all since "+w.since.Format(time.TimeOnly), w.others.total)}, at
}

// watch makes a function the watched one, unless it is already.
func (s *functionSums) watch(id uint64) error {
	if s.watched != nil && s.watched.id == id {
		return nil
	}
	f := s.find(id)
	switch {
	case f == nil:
		return s.forgotten()
	case f == s.rest:
		return errors.New("these are several functions")
	case f.name == nameless:
		return fmt.Errorf("%s has no symbols here, so that its functions are not known", f.object)
	}
	s.watched = &watched{id: id, since: s.ended, at: make(map[uint64]*addressSum)}
	return nil
}

// Instructions describes the instructions of a function with their shares of its samples: of the last interval, and since the first call for
// this function, when it forgets those of the function before. It may be called while Next is running.
func (f *Functions) Instructions(id uint64) (string, error) {
	f.listings.Lock()
	defer f.listings.Unlock()
	f.mu.Lock()
	err := f.sums.watch(id)
	w := f.sums.watched
	if err != nil {
		f.mu.Unlock()
		return "", err
	}
	dso, symbol, full := w.dso, w.symbol, w.full
	events, at := w.values()
	f.mu.Unlock()
	if dso == nil {
		return fmt.Sprintf("Samples are added up by instruction from %s on. There is none yet.\n", w.since.Format(time.TimeOnly)), nil
	}
	if w.listing == nil {
		if w.listing, err = listing(dso, symbol); err != nil {
			return "", err
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Left: shares of the last interval; right: since %s, when the function was chosen.\n", w.since.Format(time.TimeOnly))
	if full > 0 {
		fmt.Fprintf(&b, "%d samples at more addresses than %d are left out.\n", full, mostAddresses)
	}
	b.WriteByte('\n')
	r := annotate.Report{Events: events, Functions: []*annotate.Function{w.listing.Function(events, at)}}
	err = r.Text(&b, annotate.TextOptions{})
	return b.String(), err
}

// listing reads the code of a function that runs on this machine.
func listing(dso *replay.DSO, symbol replay.Symbol) (*annotate.Listing, error) {
	if size := symbol.End - symbol.Start; size > mostCode {
		return nil, fmt.Errorf("the function has %d bytes: instructions of at most %d are shown", size, mostCode)
	}
	var programs []*linear.Program
	if dso.Program != 0 {
		p, err := readProgram(dso.Program)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("BPF program %d is not loaded any more", dso.Program)
		}
		if err != nil {
			return nil, fmt.Errorf("read the code of BPF program %d: %w", dso.Program, err)
		}
		programs = append(programs, p)
	}
	code := annotate.LiveCode(programs, &annotate.Options{Allowance: allowance.New(allowance.DefaultMemory)})
	return code.Listing(dso, symbol)
}

// readProgram reads a program with its machine code. Functions and lines lack what cannot be read.
func readProgram(id uint32) (*linear.Program, error) {
	h, err := bpfprog.Open(id)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	info, err := h.Info()
	if err != nil {
		return nil, err
	}
	if info.BTF == 0 {
		p, _ := info.Program(nil)
		return p, nil
	}
	types, err := bpfprog.ReadBTF(info.BTF)
	if err != nil {
		return nil, err
	}
	spec, _ := linear.LoadBTF(types.Data) // without it the program has no lines
	p, _ := info.Program(spec)
	return p, nil
}
