package bpfprog

import (
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/bperf/bperf/internal/event"
)

// Selector selects BPF programs: those that at least one of its items selects.
type Selector []item

// item is one element of the comma-separated list.
type item struct {
	text   string // as written
	kind   kind
	value  string
	number uint32 // the ID or PID, if the item has one
}

// kind is the kind of an item.
type kind string

// The kinds of items. The first two have no word in front: they are written as a number and as "all".
const (
	byID     kind = "id"
	all      kind = "all"
	byName   kind = "name"
	byTag    kind = "tag"
	byPin    kind = "pinned"
	byType   kind = "type"
	byMap    kind = "map"
	byLink   kind = "link"
	byCgroup kind = "cgroup"
	byPID    kind = "pid"
)

// forms lists, for error messages, the items with a word in front.
const forms = "name:GLOB, tag:HEX, pinned:PATH, type:NAME, map:ID|NAME, link:ID, cgroup:PATH or pid:PID"

// words has the words in front.
var words = []string{"name", "tag", "pinned", "type", "map", "link", "cgroup", "pid"}

// SelectorKinds returns the words that stand before the colon of an item.
func SelectorKinds() []string { return slices.Clone(words) }

// syntaxError reports a syntax error in a selector.
type syntaxError struct {
	Item string // the wrong item; empty if the whole list is wrong
	Msg  string // no full stop at its end
}

func (e *syntaxError) Error() string {
	if e.Item == "" {
		return "BPF programs: " + e.Msg
	}
	return fmt.Sprintf("BPF programs: %q: %s", e.Item, e.Msg)
}

// NoMatchError reports that an item selects none of the loaded programs.
type NoMatchError struct {
	Item string
	Why  error // the error of the look-up; nil if it succeeded but nothing matches
}

func (e *NoMatchError) Error() string {
	if e.Why != nil {
		return fmt.Sprintf("no BPF program is selected by %q: %v", e.Item, e.Why)
	}
	return fmt.Sprintf("no BPF program is selected by %q: none of those that are loaded matches", e.Item)
}

func (e *NoMatchError) Unwrap() error { return e.Why }

// Parse parses a comma-separated list of items. Each is a program's ID, or all, or one of these:
//
//	name:GLOB     programs whose Name matches; GLOB may have *, ?, [a-z] and [!a-z]
//	tag:HEX       programs with the tag, 16 hexadecimal digits
//	pinned:PATH   program that is pinned at the path, or program of the link that is
//	type:NAME     programs of the type, as Type.String returns it
//	map:ID|NAME   programs that use the map; only the first 15 bytes of NAME count
//	link:ID       program of the link
//	cgroup:PATH   programs that are attached to the cgroup v2 itself
//	pid:PID       programs that the process holds with a descriptor of the program or of a link
//
// Errors are of type *syntaxError.
func Parse(list string) (Selector, error) {
	if strings.Trim(list, ", \t") == "" {
		return nil, &syntaxError{Msg: "the list is empty; give IDs, all, or " + forms}
	}
	var s Selector
	for i, text := range strings.Split(list, ",") {
		if text == "" {
			return nil, &syntaxError{list, fmt.Sprintf("item %d of the list is empty", i+1)}
		}
		parsed, msg := parseItem(text)
		if msg != "" {
			return nil, &syntaxError{text, msg}
		}
		s = append(s, parsed)
	}
	return s, nil
}

// parseItem parses an item, or returns what is wrong with it.
func parseItem(text string) (i item, wrong string) {
	word, value, hasWord := strings.Cut(text, ":")
	if !hasWord {
		return parsePlain(text)
	}
	i = item{text: text, kind: kind(word), value: value}
	if !slices.Contains(words, word) {
		return i, fmt.Sprintf("nothing is selected by %q%s; give IDs, all, or %s", word, meant(word, words), forms)
	}
	if value == "" {
		return i, fmt.Sprintf("nothing stands behind %q", word+":")
	}
	switch i.kind {
	case byName:
		if _, err := path.Match(globOf(value), ""); err != nil {
			return i, "this is no pattern: a bracket is not closed, or is empty, or a backslash is the last"
		}
	case byTag:
		i.value = strings.ToLower(value)
		if b, err := hex.DecodeString(value); err != nil || len(b) != 8 {
			return i, "a tag has 16 hexadecimal digits"
		}
	case byType:
		if !slices.Contains(typeNames, value) {
			return i, fmt.Sprintf("there is no type %q%s", value, meant(value, typeNames))
		}
	case byMap:
		i.number, _ = parseID(value)
	case byLink, byPID:
		var ok bool
		if i.number, ok = parseID(value); !ok {
			return i, fmt.Sprintf("%q is no number from 1 to %d", value, uint32(1<<31-1))
		}
	}
	return i, ""
}

// parsePlain parses an item without a word in front.
func parsePlain(text string) (i item, wrong string) {
	if text == string(all) {
		return item{text: text, kind: all}, ""
	}
	id, ok := parseID(text)
	switch {
	case ok:
		return item{text: text, kind: byID, number: id}, ""
	case strings.Trim(text, "+-0123456789") == "":
		return i, fmt.Sprintf("an ID is a number from 1 to %d", uint32(1<<31-1))
	}
	return i, fmt.Sprintf("this is no ID; a program is selected by its name as %q, and else as %s", "name:"+text, forms)
}

// parseID parses the ID of a BPF object or of a process. The kernel only assigns IDs below 2^31.
func parseID(s string) (uint32, bool) {
	n, err := strconv.ParseUint(s, 10, 31)
	return uint32(n), err == nil && n > 0
}

// meant returns the names that are similar to wrong, as an addition to an error message; empty if there are none.
func meant(wrong string, names []string) string {
	near := event.Nearest(wrong, names)
	if len(near) == 0 {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", strings.Join(near, ", "))
}

// globOf converts a shell pattern to the syntax of path.Match.
func globOf(pattern string) string { return strings.ReplaceAll(pattern, "[!", "[^") }

// Source answers what Select cannot read from a Program.
type Source interface {
	// MapsNamed returns the IDs of the maps with a name.
	MapsNamed(name string) ([]uint32, error)
	// LinkProgram returns the ID of a link's program.
	LinkProgram(link uint32) (uint32, error)
	// PinnedProgram returns the ID of the program that is pinned at a path, or of the program of the link that is.
	PinnedProgram(path string) (uint32, error)
	// CgroupPrograms returns the IDs of the programs that are attached to a cgroup.
	CgroupPrograms(cgroup string) ([]uint32, error)
	// Held returns the IDs of the programs that a process holds.
	Held(pid int) ([]uint32, error)
}

// Select returns the selected programs, each of them once: in the order of the items, and per item in the order of programs. It also returns
// an error for each item that selects nothing.
func (s Selector) Select(programs []*Program, source Source) (selected []*Program, missing []*NoMatchError) {
	taken := make(map[uint32]bool)
	for _, i := range s {
		matches, err := i.matcher(source)
		found := false
		for _, p := range programs {
			if err != nil || !matches(p) {
				continue
			}
			found = true
			if !taken[p.ID] {
				taken[p.ID] = true
				selected = append(selected, p)
			}
		}
		if !found {
			missing = append(missing, &NoMatchError{i.text, err})
		}
	}
	return selected, missing
}

// Names reports whether one of the items is the program's ID.
func (s Selector) Names(id uint32) bool {
	return slices.ContainsFunc(s, func(i item) bool { return i.kind == byID && i.number == id })
}

// matcher returns a function that reports whether the item selects a program. It asks the source once, if at all.
func (i item) matcher(source Source) (func(*Program) bool, error) {
	switch i.kind {
	case byName:
		return func(p *Program) bool {
			ok, _ := path.Match(globOf(i.value), p.Name)
			return ok
		}, nil
	case byTag:
		return func(p *Program) bool { return p.Tag == i.value }, nil
	case byType:
		return func(p *Program) bool { return p.Type.String() == i.value }, nil
	case all:
		return func(*Program) bool { return true }, nil
	case byMap:
		ids := []uint32{i.number}
		if i.number == 0 {
			var err error
			if ids, err = source.MapsNamed(i.value); err != nil {
				return nil, err
			}
		}
		return func(p *Program) bool {
			return slices.ContainsFunc(p.MapIDs, func(id uint32) bool { return slices.Contains(ids, id) })
		}, nil
	}
	ids, err := i.ids(source)
	return func(p *Program) bool { return slices.Contains(ids, p.ID) }, err
}

// ids returns the IDs of the programs that the item selects. It asks the source for items other than an ID.
func (i item) ids(source Source) ([]uint32, error) {
	switch i.kind {
	case byLink:
		id, err := source.LinkProgram(i.number)
		return []uint32{id}, err
	case byPin:
		id, err := source.PinnedProgram(i.value)
		return []uint32{id}, err
	case byCgroup:
		return source.CgroupPrograms(i.value)
	case byPID:
		return source.Held(int(i.number))
	}
	return []uint32{i.number}, nil
}
