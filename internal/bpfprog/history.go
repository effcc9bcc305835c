package bpfprog

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/bperf/bperf/internal/perfevent"
)

// Change reports a program that was loaded or unloaded, or loads and unloads that were missed. One type has the fields of all
// kinds, because each line of JSON is one Change.
type Change struct {
	Event ChangeKind `json:"event"` // load, unload, lost (records) or unseen (loads without a record)
	Time  time.Time  `json:"-"`
	ID    uint32     `json:"id,omitempty"`   // of the program; for unseen, the first
	Name  string     `json:"name,omitempty"` // as in prog list; empty if unknown
	Tag   string     `json:"tag,omitempty"`  // as in prog list; empty if unknown
	Type  string     `json:"type,omitempty"` // empty if unknown

	// Only for Loaded:
	PID       int        `json:"pid,omitempty"`       // of the process that loaded it; 0 if it is not in this PID namespace
	Comm      string     `json:"comm,omitempty"`      // of that process; empty if it has ended
	User      string     `json:"user,omitempty"`      // empty if the program was unloaded already
	Functions []Function `json:"functions,omitempty"` // from the program, or from the records if it could not be read
	Maps      []Map      `json:"maps,omitempty"`      // those that it uses
	Program   *Program   `json:"program,omitempty"`   // nil if it could not be read
	Missed    string     `json:"missed,omitempty"`    // why bperf could not read the program, or has no record of its load; empty if nothing is missing

	// Only for unload: how long the program was loaded; nil if its load was not seen.
	Lived *time.Duration `json:"lived_ns,omitempty"`

	// Only for lost: the number of lost records.
	Records uint64 `json:"records,omitempty"`

	// Only for unseen: the last missing ID.
	LastID uint32 `json:"last_id,omitempty"`
}

// ChangeKind is the kind of a Change.
type ChangeKind string

// The kinds of changes.
const (
	Loaded   ChangeKind = "load"
	Unloaded ChangeKind = "unload"
	LostSome ChangeKind = "lost"
	Unseen   ChangeKind = "unseen" // loads without a record; Time is that of the first load after them
)

// Gone is Change.Missed of a program that was unloaded before it could be opened.
const Gone = "gone before its details could be read"

// Unrecorded is Change.Missed of a loaded program without a record of its load.
const Unrecorded = "there was no record of its load"

// history turns records into changes.
type history struct {
	boot    time.Time // wall-clock time at which CLOCK_BOOTTIME, the clock of the records, was 0
	loaded  map[uint32]past
	symbols map[int32][]perfevent.KSymbol // by thread: its symbols since its last BPF event
	unseen  unseen
}

// past is what an unload needs to know of the load.
type past struct {
	name, kind string
	since      time.Time
}

// newHistory returns a history that begins with the programs that are loaded already.
func newHistory(boot time.Time, programs []*Program) history {
	h := history{boot: boot, loaded: make(map[uint32]past), symbols: make(map[int32][]perfevent.KSymbol)}
	for _, p := range programs {
		h.loaded[p.ID] = past{p.Name, p.Type.String(), p.Loaded}
	}
	return h
}

// add adds a record. It returns false if the record does not complete a change.
func (h *history) add(s *seen) (Change, bool) {
	at, thread := h.boot.Add(time.Duration(s.trailer.Time)), s.trailer.TID
	switch {
	case s.symbol != nil:
		h.addSymbol(thread, *s.symbol)
		return Change{}, false
	case s.event == nil:
		clear(h.symbols) // their BPF events may be among the lost records
		return Change{Event: LostSome, Time: at, Records: s.lost}, true
	}
	symbols := h.symbols[thread]
	delete(h.symbols, thread)
	c := Change{Time: at, ID: s.event.ID, Tag: hex.EncodeToString(s.event.Tag[:])}
	if len(symbols) > 0 && symbols[0].Gone == (s.event.Type == perfevent.BPFUnload) {
		c.Name = symbolName(symbols[0].Name) // the first symbol is that of the program itself
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

// symbolPrefix begins the symbols of programs' functions. Symbols of trampolines and dispatchers do not have it.
const symbolPrefix = "bpf_prog_"

func (h *history) addSymbol(thread int32, k perfevent.KSymbol) {
	if k.Type != perfevent.KSymbolBPF || !strings.HasPrefix(k.Name, symbolPrefix) {
		return
	}
	before := h.symbols[thread]
	if len(before) > 0 && before[0].Gone != k.Gone {
		before = nil // their BPF event was lost
	}
	h.symbols[thread] = append(before, k)
}

// symbolName returns NAME of a symbol bpf_prog_TAG_NAME; empty for bpf_prog_TAG.
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

// found adds a loaded program without a record of its load, and returns the change for it.
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
