package packaged

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/bperf/bperf/test/apt"
)

// pages are the manual pages that Options reads: of the commands of perf that bperf has, too.
var pages = []string{"stat", "record", "report", "script", "annotate", "diff", "list", "evlist", "buildid-list", "version"}

// Options returns the options in the manual pages of a suite's perf: a line for each, with the command, and its names separated by commas.
func Options(suite string) (string, error) {
	archive, err := apt.OpenArchive(suite, runtime.GOARCH)
	if err != nil {
		return "", err
	}
	defer archive.Close()
	dir, err := os.MkdirTemp("", "bperf-man-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	if err := archive.Unpack(dir, "linux-perf"); err != nil {
		return "", err
	}
	var out []string
	for _, page := range pages {
		text, err := readPage(filepath.Join(dir, "usr/share/man/man1", "perf-"+page+".1.gz"))
		if err != nil {
			return "", err
		}
		out = append(out, options(page, text)...)
	}
	return strings.Join(out, "\n") + "\n", nil
}

func readPage(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	text, err := io.ReadAll(z)
	return string(text), err
}

// These find options in the source of a page. An option is a line before an indented block.
var (
	markup     = regexp.MustCompile(`\\f.|\\`)
	optionName = regexp.MustCompile(`(?:^|, )(--?[A-Za-z0-9][-A-Za-z0-9]*)`)
)

// options returns the options in the source of a page, each once: the page of stat has those of stat report, too.
func options(command, page string) []string {
	var found []string
	lines := strings.Split(page, "\n")
	for i, line := range lines[:len(lines)-1] {
		if !strings.HasPrefix(line, `\-`) || !strings.HasPrefix(lines[i+1], ".RS") {
			continue
		}
		var names []string
		for _, m := range optionName.FindAllStringSubmatch(markup.ReplaceAllString(line, ""), -1) {
			if !slices.Contains(names, m[1]) {
				names = append(names, m[1])
			}
		}
		option := command + ": " + strings.Join(names, ", ")
		if !slices.Contains(found, option) {
			found = append(found, option)
		}
	}
	return found
}
