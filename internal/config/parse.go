package config

import (
	"fmt"
	"strings"
)

// parse parses a file. Sections are [name] or [name "subsection"]; they contain lines NAME = VALUE, or NAME, which means NAME = true.
// Comments begin with # or ;. Parts of a value may be in quotes, which no comment begins in. \ escapes \, ", n and t. A \ at the end of a
// line continues it on the next one.
func parse(text, file string) (all []Value, err error) {
	section := ""
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		number := i + 1
		bad := func(what string) error { return fmt.Errorf("%s:%d: %s", file, number, what) }
		line := strings.TrimSpace(lines[i])
		for continued(line) && i+1 < len(lines) {
			i++
			line = line[:len(line)-1] + strings.TrimSpace(lines[i])
		}
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
			continue
		case line[0] == '[':
			if section, line, err = parseSection(line); err != nil {
				return all, bad(err.Error())
			}
			if line == "" || line[0] == '#' || line[0] == ';' {
				continue
			}
		}
		name, rest, assigned := strings.Cut(line, "=")
		name = strings.ToLower(strings.TrimSpace(name))
		if !isName(name) {
			return all, bad(fmt.Sprintf("%q is not a name: give NAME = VALUE, with a name of letters, digits, - and _", name))
		}
		if section == "" {
			return all, bad(name + " is in no section: a line such as [stat] must come first")
		}
		value := "true"
		if assigned {
			if value, err = parseValue(rest); err != nil {
				return all, bad(err.Error())
			}
		}
		all = append(all, Value{Key: section + "." + name, Value: value, File: file, Line: number})
	}
	return all, nil
}

// continued reports whether a line continues on the next one: it ends with an odd number of \.
func continued(line string) bool {
	return (len(line)-len(strings.TrimRight(line, `\`)))%2 == 1
}

// parseSection parses [name] or [name "subsection"], and returns the rest of the line.
func parseSection(line string) (section, rest string, err error) {
	inside, rest, closed := strings.Cut(line[1:], "]")
	if !closed {
		return "", "", fmt.Errorf("the section %s is not closed by ]", line)
	}
	name, sub, has := strings.Cut(strings.TrimSpace(inside), " ")
	section = strings.ToLower(name)
	if !isName(section) {
		return "", "", fmt.Errorf("[%s] is not a section: its name has only letters, digits, - and _", inside)
	}
	if !has {
		return section, strings.TrimSpace(rest), nil
	}
	sub = strings.TrimSpace(sub)
	if len(sub) < 2 || sub[0] != '"' || sub[len(sub)-1] != '"' {
		return "", "", fmt.Errorf("[%s]: a subsection must be in quotes", inside)
	}
	return section + "." + sub[1:len(sub)-1], strings.TrimSpace(rest), nil
}

// isName reports whether s consists of letters, digits, - and _, and is not empty.
func isName(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == ""
}

// parseValue parses the text after =.
func parseValue(s string) (string, error) {
	var value, blanks strings.Builder // blanks belong to the value only if something follows them
	quoted := false
	s = strings.TrimSpace(s)
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case !quoted && (c == '#' || c == ';'):
			return value.String(), nil
		case !quoted && (c == ' ' || c == '\t'):
			blanks.WriteByte(c)
			continue
		case c == '"':
			quoted = !quoted
			value.WriteString(blanks.String())
			blanks.Reset()
			continue
		case c == '\\':
			i++
			at := -1
			if i < len(s) {
				at = strings.IndexByte(`\"nt`, s[i])
			}
			if at < 0 {
				return "", fmt.Errorf(`only \, ", n and t may follow \`)
			}
			c = "\\\"\n\t"[at]
		}
		value.WriteString(blanks.String())
		blanks.Reset()
		value.WriteByte(c)
	}
	if quoted {
		return "", fmt.Errorf("a quote is not closed")
	}
	return value.String(), nil
}
