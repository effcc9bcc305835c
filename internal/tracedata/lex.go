package tracedata

import (
	"fmt"
	"strconv"
	"strings"
)

type tokenKind int

const (
	tokenEnd tokenKind = iota
	tokenName
	tokenNumber
	tokenText
	tokenOperator
)

// token is a token of C.
type token struct {
	kind  tokenKind
	text  string // of a string its value
	value uint64
	typ   ctype // of a number
}

// operators of C, the longest first.
var operators = []string{"<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "->",
	"(", ")", "[", "]", "{", "}", ",", "?", ":", "+", "-", "*", "/", "%", "&", "|", "^", "~", "!", "<", ">", ".", "=", ";"}

func lex(text string) ([]token, error) {
	var tokens []token
	for {
		text = strings.TrimLeft(text, " \t\r\n")
		if text == "" {
			return tokens, nil
		}
		t, rest, err := lexOne(text)
		if err != nil {
			return nil, err
		}
		if n := len(tokens); t.kind == tokenText && n > 0 && tokens[n-1].kind == tokenText {
			tokens[n-1].text += t.text
		} else {
			tokens = append(tokens, t)
		}
		text = rest
	}
}

func lexOne(text string) (token, string, error) {
	c := text[0]
	switch {
	case c == '"':
		for i := 1; i < len(text); i++ {
			switch text[i] {
			case '\\':
				i++
			case '"':
				return token{kind: tokenText, text: unescape(text[1:i]), typ: typeText}, text[i+1:], nil
			}
		}
		return token{}, "", fmt.Errorf("a string does not end")
	case c == '\'':
		end := strings.IndexByte(text[1:], '\'')
		if end >= 0 {
			if s := unescape(text[1 : 1+end]); len(s) == 1 {
				return token{kind: tokenNumber, value: uint64(s[0]), typ: typeInt}, text[end+2:], nil
			}
		}
		return token{}, "", fmt.Errorf("a character does not end")
	case c >= '0' && c <= '9':
		return lexNumber(text)
	case isLetter(c):
		end := 1
		for end < len(text) && (isLetter(text[end]) || text[end] >= '0' && text[end] <= '9') {
			end++
		}
		return token{kind: tokenName, text: text[:end]}, text[end:], nil
	}
	for _, op := range operators {
		if strings.HasPrefix(text, op) {
			return token{kind: tokenOperator, text: op}, text[len(op):], nil
		}
	}
	return token{}, "", fmt.Errorf("%q is nothing of C", text[:1])
}

func isLetter(c byte) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func lexNumber(text string) (token, string, error) {
	end := 1
	for end < len(text) && (isLetter(text[end]) || text[end] >= '0' && text[end] <= '9') {
		end++
	}
	digits := strings.TrimRight(text[:end], "uUlL")
	suffix := strings.ToLower(text[len(digits):end])
	value, err := strconv.ParseUint(digits, 0, 64)
	if err != nil {
		return token{}, "", fmt.Errorf("%q is no number", text[:end])
	}
	t := typeInt
	if strings.Contains(suffix, "l") || value > 1<<32-1 || value > 1<<31-1 && digits[0] != '0' {
		t = ctype{size: 8, signed: true}
	}
	if strings.Contains(suffix, "u") || value > 1<<63-1 || t.size == 4 && value > 1<<31-1 {
		t.signed = false
	}
	return token{kind: tokenNumber, value: value, typ: t}, text[end:], nil
}

// unescape replaces the escapes of C by what they stand for.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch s[i] {
		case 'n':
			b.WriteByte('\n')
		case 't':
			b.WriteByte('\t')
		case 'r':
			b.WriteByte('\r')
		case '0':
			b.WriteByte(0)
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}
