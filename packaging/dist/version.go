package main

import (
	"strings"
	"time"
)

// upstreamVersion is the version in the names of files: what git describe prints, without the v of tags.
func upstreamVersion(described string) string {
	if rest, found := strings.CutPrefix(described, "v"); found && rest != "" && isDigit(rest[0]) {
		return rest
	}
	return described
}

// packageVersion returns the version for dpkg and rpm, which sort 1.0~rc.1 < 1.0 < 1.0+3.gabc. Before the first tag, git describe prints
// only a commit: these sort below all releases, and by their time.
//
//	v1.0           1.0
//	v1.0-rc.1      1.0~rc.1
//	v1.0-3-gabc    1.0+3.gabc
//	abc            0~20260102150405.abc
func packageVersion(described string, commit time.Time) string {
	v := upstreamVersion(described)
	v, dirty := strings.CutSuffix(v, "-dirty")
	fields := strings.Split(v, "-")
	commits := ""
	if n := len(fields); n >= 3 && strings.HasPrefix(fields[n-1], "g") && isNumber(fields[n-2]) {
		commits = "+" + fields[n-2] + "." + fields[n-1]
		fields = fields[:n-2]
	}
	if strings.Contains(fields[0], ".") && isDigit(fields[0][0]) {
		v = fields[0]
		if len(fields) > 1 {
			v += "~" + strings.Join(fields[1:], ".")
		}
	} else {
		v = "0~" + commit.UTC().Format("20060102150405") + "." + strings.Join(fields, ".")
	}
	v += commits
	if dirty {
		v += "+dirty"
	}
	return v
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
