package bpfprog

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/bperf/bperf/internal/perfevent"
)

// Change is a program that was loaded or unloaded, or what is known of such that were missed.
type Change struct {
	Event ChangeKind `json:"event"`
	Time  time.Time  `json:"time"`
	ID    uint32     `json:"id,omitempty"`
	Name  string     `json:"name,omitempty"` // as Program has it, as far as it is known
	Tag   string     `json:"tag,omitempty"`
	Type  string     `json:"type,omitempty"` // empty if it is not known

	// Of a load:
	PID       int        `json:"pid,omitempty"`       // who loaded it; 0 for a process that this PID namespace does not have
	Comm      string     `json:"comm,omitempty"`      // name of that process; empty if it has ended
	User      string     `json:"user,omitempty"`      // empty if the program was gone
	Functions []Function `json:"functions,omitempty"` // from what was read, or else from the records
	Maps      []Map      `json:"maps,omitempty"`
	Program   *Program   `json:"program,omitempty"` // nil if nothing could be read; without functions
	Missed    string     `json:"missed,omitempty"`  // why nothing could be read, or what is not known

	// Of an unload: how long it was loaded, nil if nobody saw when that was.
	Lived *time.Duration `json:"lived_ns,omitempty"`

	// Of lost records: how many.
	Records uint64 `json:"records,omitempty"`

	// Of unseen programs, whose IDs go from ID on: up to which.
	LastID uint32 `json:"last_id,omitempty"`
}

// ChangeKind is what happened.
type ChangeKind string

// The kinds of changes.
const (
	Loaded   ChangeKind = "load"
	Unloaded ChangeKind = "unload"
	LostSome ChangeKind = "lost"
	Unseen   ChangeKind = "unseen" // loads of which there was no record; the time is that of the first one after them
)

// Gone is what is said of a program that was unloaded before it could be opened.
const Gone = "gone before its details could be read"

// Unrecorded is what is said of a program that was found loaded, with no record of that.
const Unrecorded = "there was no record of its load"

// history makes changes of records.
type history struct {
	boot    time.Time // when the clock of the records was 0
	loaded  map[uint32]past
	symbols map[int32][]perfevent.KSymbol // by thread: those that it left since its last event of a program
	unseen  unseen
}

// past is what is known of a program that is loaded.
type past struct {
	name, kind string
	since      time.Time
}

// newHistory begins with what is loaded already.
func newHistory(boot time.Time, programs []*Program) history {
	h := history{boot: boot, loaded: make(map[uint32]past), symbols: make(map[int32][]perfevent.KSymbol)}
	for _, p := range programs {
		h.loaded[p.ID] = past{p.Name, p.Type.String(), p.Loaded}
	}
	return h
}

// add adds a record. Many are only a part of a change.
func (h *history) add(s *seen) (Change, bool) {
	at, thread := h.boot.Add(time.Duration(s.trailer.Time)), s.trailer.TID
	switch {
	case s.symbol != nil:
		h.addSymbol(thread, *s.symbol)
		return Change{}, false
	case s.event == nil:
		clear(h.symbols) // what they belong to may be among the lost
		return Change{Event: LostSome, Time: at, Records: s.lost}, true
	}
	symbols := h.symbols[thread]
	delete(h.symbols, thread)
	c := Change{Time: at, ID: s.event.ID, Tag: hex.EncodeToString(s.event.Tag[:])}
	if len(symbols) > 0 && symbols[0].Gone == (s.event.Type == perfevent.BPFUnload) {
		c.Name = symbolName(symbols[0].Name) // the first is the program itself
	} else {
		symbols = nil
	}
	switch s.event.Type {
	case perfevent.BPFLoad:
		h.unseen.add(c.ID, s.trailer.Time)
		h.load(&c, s, symbols)
		return c, true
	case perfevent.BPFUnload:
		h.unload(&c)
		return c, true
	}
	return Change{}, false
}

// symbolPrefix stands before the tag of functions of programs. There are also symbols of trampolines and dispatchers.
const symbolPrefix = "bpf_prog_"

func (h *history) addSymbol(thread int32, k perfevent.KSymbol) {
	if k.Type != perfevent.KSymbolBPF || !strings.HasPrefix(k.Name, symbolPrefix) {
		return
	}
	before := h.symbols[thread]
	if len(before) > 0 && before[0].Gone != k.Gone {
		before = nil // their event was lost
	}
	h.symbols[thread] = append(before, k)
}

// symbolName takes the prefix and the tag from a symbol: bpf_prog_TAG_NAME, or without name.
func symbolName(symbol string) string {
	_, name, _ := strings.Cut(strings.TrimPrefix(symbol, symbolPrefix), "_")
	return name
}

func (h *history) load(c *Change, s *seen, symbols []perfevent.KSymbol) {
	c.Event, c.PID, c.Comm, c.Maps, c.User = Loaded, max(int(s.trailer.PID), 0), s.details.comm, s.details.maps, s.details.user
	for _, k := range symbols {
		tag, _, _ := strings.Cut(strings.TrimPrefix(k.Name, symbolPrefix), "_")
		c.Functions = append(c.Functions, Function{Name: symbolName(k.Name), Tag: tag, Address: Address(k.Address), Size: k.Size})
	}
	switch p := s.details.program; {
	case p != nil:
		program := *p
		c.Name, c.Type, c.Functions = p.Name, p.Type.String(), p.Functions
		program.Functions = nil
		c.Program = &program
	case errors.Is(s.details.err, fs.ErrNotExist):
		c.Missed = Gone
	default:
		c.Missed = "its details could not be read: " + s.details.err.Error()
	}
	h.loaded[c.ID] = past{c.Name, c.Type, c.Time}
}

// found is a program of which there was no record.
func (h *history) found(p *Program, user string, maps []Map) Change {
	program := *p
	program.Functions = nil
	h.loaded[p.ID] = past{p.Name, p.Type.String(), p.Loaded}
	return Change{Event: Loaded, Time: p.Loaded, ID: p.ID, Name: p.Name, Tag: p.Tag, Type: p.Type.String(), User: user,
		Functions: p.Functions, Maps: maps, Program: &program, Missed: Unrecorded}
}

func (h *history) unload(c *Change) {
	c.Event = Unloaded
	if p, known := h.loaded[c.ID]; known {
		lived := c.Time.Sub(p.since)
		c.Name, c.Type, c.Lived = p.name, p.kind, &lived
		delete(h.loaded, c.ID)
	}
}
