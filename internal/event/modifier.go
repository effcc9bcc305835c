package event

import (
	"strings"

	"github.com/bperf/bperf/perfdata"
)

// modifiers has the valid letters behind an event or a group.
type modifiers string

// modifierLetters has all letters that can follow an event; only p can be repeated.
const modifierLetters = "ukhIGHpPSDWeb"

const modifierHelp = "modifiers are u user, k kernel, h hypervisor, I not idle, G guest, H host, p precise, " +
	"P most precise, S sample read, D pinned, W weak group, e exclusive, b shared through BPF"

func isModifiers(s string) bool { return s != "" && strings.Trim(s, modifierLetters) == "" }

// modifiers checks the letters, which begin at pos.
func (s *scanner) modifiers(letters string, pos int) (modifiers, error) {
	if letters == "" {
		return "", s.fail(pos, "a modifier is missing here; %s", modifierHelp)
	}
	for i, c := range letters {
		before := letters[:i]
		switch {
		case !strings.ContainsRune(modifierLetters, c):
			return "", s.fail(pos+i, "there is no modifier %q; %s", c, modifierHelp)
		case c == 'p' && strings.Count(before, "p") == 3:
			return "", s.fail(pos+i, "p can be given 3 times at most")
		case c != 'p' && strings.ContainsRune(before, c):
			return "", s.fail(pos+i, "modifier %q is given twice", c)
		case c == 'p' && strings.Contains(before, "P"), c == 'P' && strings.Contains(before, "p"):
			return "", s.fail(pos+i, "p and P exclude each other")
		}
	}
	return modifiers(letters), nil
}

// CutModifiers returns the name and the modifiers of NAME:MODIFIERS. It returns no modifiers for a name alone, and an error for letters
// that cannot follow an event.
func CutModifiers(s string) (name, letters string, err error) {
	name, letters, has := strings.Cut(s, ":")
	if has {
		_, err = (&scanner{in: s}).modifiers(letters, len(name)+1)
	}
	return name, letters, err
}

// AddModifiers returns an event, as users write it, with these modifiers behind its own.
func AddModifiers(event, letters string) string {
	if letters == "" || ToolOf(event) != ToolNone {
		return event // no PMU counts a tool event: it has no modes
	}
	own, separator := event[strings.LastIndexByte(event, '/')+1:], "" // of PMU/TERMS/MODIFIERS
	if own == event {
		separator = ":"
		if i := strings.LastIndexByte(event, ':'); i >= 0 {
			own, separator = event[i+1:], ""
		} else {
			own = ""
		}
	}
	for _, c := range letters {
		if !strings.ContainsRune(own, c) {
			event += separator + string(c)
			separator = ""
		}
	}
	return event
}

// MemberModifiers returns the modifiers of a group that each of its events can have. Only the first can be pinned or exclusive.
func MemberModifiers(letters string) string {
	return strings.NewReplacer("D", "", "e", "").Replace(letters)
}

func (m modifiers) has(letters string) bool { return strings.ContainsAny(string(m), letters) }

// with returns the modifiers of a member with those of its group added.
func (m modifiers) with(group modifiers) modifiers {
	precise := max(strings.Count(string(m), "p"), strings.Count(string(group), "p"))
	return modifiers(strings.Repeat("p", precise) + strings.ReplaceAll(string(m+group), "p", ""))
}

// apply sets the attribute's flags and e's fields. Each letter of u, k and h excludes the other modes that are not given; G and H
// work alike. Precise sampling is possible on the host only. S and P change how an event is sampled, not its count.
func (m modifiers) apply(e *Event) {
	if e.Tool != ToolNone {
		return
	}
	flags := &e.Attr.Flags
	exclude := func(letters string, bits ...perfdata.AttrFlags) {
		if !m.has(letters) {
			return
		}
		for i, bit := range bits {
			if !m.has(letters[i : i+1]) {
				*flags |= bit
			}
		}
	}
	exclude("ukh", perfdata.AttrExcludeUser, perfdata.AttrExcludeKernel, perfdata.AttrExcludeHV)
	exclude("HG", perfdata.AttrExcludeHost, perfdata.AttrExcludeGuest)
	if m.has("I") {
		*flags |= perfdata.AttrExcludeIdle
	}
	precise := strings.Count(string(m), "p")
	if precise > 0 && !m.has("HG") {
		*flags |= perfdata.AttrExcludeGuest
	}
	if precise&1 != 0 {
		*flags |= perfdata.AttrPreciseIP1
	}
	if precise&2 != 0 {
		*flags |= perfdata.AttrPreciseIP2
	}
	e.BPF = m.has("b")
	e.ReadGroup, e.MostPrecise, e.Guests = m.has("S"), m.has("P"), m.has("G") && m.has("H")
}

// applyLeader sets pinned and exclusive, which the kernel accepts only for the leader of a group.
func (m modifiers) applyLeader(e *Event) {
	if e.Tool != ToolNone {
		return
	}
	if m.has("D") {
		e.Attr.Flags |= perfdata.AttrPinned
	}
	if m.has("e") {
		e.Attr.Flags |= perfdata.AttrExclusive
	}
}
