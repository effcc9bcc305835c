package metric

import (
	"math"
	"regexp"
	"strconv"
	"strings"
)

const independentSources = 3 // what source_count returns

// independent evaluates an expression by another method than the parser: it splits the list of tokens at the operator that binds most
// loosely, and evaluates both parts in the same way. It shares no code with the package.
type independent struct {
	values map[string]float64
	facts  *Facts
}

var (
	wordPattern   = regexp.MustCompile(`^(?:\\.|[0-9A-Za-z_.:@?=])+`)
	numberPattern = regexp.MustCompile(`^(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]+)?`)
	factPattern   = regexp.MustCompile(`^#[0-9A-Za-z_.-]+`)
)

// words splits an expression into tokens.
func (ind *independent) words(s string) (list []string) {
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		longest := s[:1]
		for _, p := range []*regexp.Regexp{wordPattern, numberPattern, factPattern} {
			if m := p.FindString(s); len(m) > len(longest) {
				longest = m
			}
		}
		list = append(list, longest)
		s = s[len(longest):]
	}
	return list
}

// find returns the index of the last, or first, of the words outside of parentheses that is an operator between two operands, or -1.
func find(list []string, last bool, words ...string) int {
	depth, at := 0, -1
	for i, w := range list {
		switch w {
		case "(":
			depth++
		case ")":
			depth--
		}
		if depth != 0 || i == 0 || strings.Contains("+-*/%&|^<>(,", list[i-1]) {
			continue // a minus sign of its operand
		}
		for _, want := range words {
			if w == want && (last || at < 0) {
				at = i
			}
		}
	}
	return at
}

func (ind *independent) eval(list []string) float64 {
	if at := find(list, false, "if"); at >= 0 {
		els := find(list, false, "else")
		condition := ind.eval(list[at+1 : els])
		switch {
		case math.IsNaN(condition):
			return condition
		case condition != 0:
			return ind.eval(list[:at])
		}
		return ind.eval(list[els+1:])
	}
	for _, level := range [][]string{{"|"}, {"^"}, {"&"}, {"<", ">"}, {"+", "-"}, {"*", "/", "%"}} {
		if at := find(list, true, level...); at >= 0 {
			return operate(list[at], ind.eval(list[:at]), ind.eval(list[at+1:]))
		}
	}
	switch {
	case list[0] == "-":
		return -ind.eval(list[1:])
	case list[0] == "(":
		return ind.eval(list[1 : len(list)-1])
	case len(list) > 1:
		return ind.call(list[0], list[2:len(list)-1])
	}
	return ind.operand(list[0])
}

func (ind *independent) call(function string, args []string) float64 {
	name := unescape(strings.Join(args, ""))
	switch function {
	case "has_event":
		return asNumber(ind.facts.HasEvent(name))
	case "strcmp_cpuid_str":
		return asNumber(ind.facts.IsCPU(name))
	case "source_count":
		return independentSources
	}
	comma := find(args, false, ",")
	a, b := ind.eval(args[:comma]), ind.eval(args[comma+1:])
	switch {
	case math.IsNaN(a + b):
		return math.NaN()
	case function == "d_ratio" && b == 0:
		return 0
	case function == "d_ratio":
		return a / b
	case (function == "min") == (a < b):
		return a
	}
	return b
}

func operate(sign string, a, b float64) float64 {
	if math.IsNaN(a) || math.IsNaN(b) {
		if known := a == a && a != 0 || b == b && b != 0; sign == "|" && known {
			return 1
		}
		if sign == "&" && (a == 0 || b == 0) {
			return 0
		}
		return math.NaN()
	}
	switch sign {
	case "+":
		return a + b
	case "-":
		return a - b
	case "*":
		return a * b
	case "<":
		return asNumber(a < b)
	case ">":
		return asNumber(a > b)
	case "&":
		return asNumber(a != 0 && b != 0)
	case "|":
		return asNumber(a != 0 || b != 0)
	case "^":
		return float64(int64(a) ^ int64(b))
	}
	if b == 0 {
		return math.NaN()
	}
	if sign == "%" {
		return math.Mod(math.Trunc(a), math.Trunc(b))
	}
	return a / b
}

func (ind *independent) operand(word string) float64 {
	if v, err := strconv.ParseFloat(word, 64); err == nil {
		return v
	}
	if literal, is := strings.CutPrefix(word, "#"); is {
		if v, known := ind.facts.Literals[strings.ToLower(literal)]; known {
			return v
		}
		return math.NaN()
	}
	if v, known := ind.values[unescape(word)]; known {
		return v
	}
	return math.NaN()
}

func unescape(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "@", "/"), `\`, "")
}

func asNumber(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
