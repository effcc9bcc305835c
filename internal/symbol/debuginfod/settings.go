package debuginfod

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bperf/bperf/internal/userfile"
)

// Limits where the environment sets none. elfutils has none for the size and the time of a whole file, so that a server without end would
// fill the disk, or hold the caller up for ever.
const (
	defaultTimeout = 90 * time.Second
	defaultMaxTime = 10 * time.Minute
	defaultMaxSize = 2 << 30
	maxTotal       = 8 << 30 // bytes of all files of a Client
	maxHeaders     = 64 << 10
)

// settings are what the environment variables of debuginfod-client-config(7) say.
type settings struct {
	servers []*url.URL
	cache   string        // directory
	timeout time.Duration // in which a server must send slowest bytes; 0 for no limit
	maxTime time.Duration // for the answer of a server, and for a whole file
	maxSize int64         // of a file, in bytes
	headers http.Header
	notes   []string // what of the environment is ignored, and why
}

// read returns the settings of an environment. It returns nil if $DEBUGINFOD_URLS has no words.
func read(getenv func(string) string) *settings {
	words := strings.Fields(getenv("DEBUGINFOD_URLS"))
	if len(words) == 0 {
		return nil
	}
	s := &settings{}
	for _, word := range words {
		if strings.HasPrefix(word, "ima:") {
			s.note("$DEBUGINFOD_URLS: bperf does not verify IMA signatures and ignores %q", word)
			continue
		}
		u, err := ParseURL(word)
		if err != nil {
			s.note("$DEBUGINFOD_URLS: %v, and bperf ignores it", err)
			continue
		}
		s.servers = append(s.servers, u)
	}
	s.cache = cacheDir(getenv)
	s.timeout = time.Duration(s.number(getenv, "DEBUGINFOD_TIMEOUT", int64(defaultTimeout/time.Second))) * time.Second
	s.maxTime = cmp.Or(time.Duration(s.number(getenv, "DEBUGINFOD_MAXTIME", 0))*time.Second, defaultMaxTime)
	s.maxSize = cmp.Or(s.number(getenv, "DEBUGINFOD_MAXSIZE", 0), defaultMaxSize)
	s.readHeaders(getenv("DEBUGINFOD_HEADERS_FILE"))
	return s
}

// ParseURL parses the URL of a server.
func ParseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%q is no URL of http or https", text)
	}
	return u, nil
}

func (s *settings) note(format string, a ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, a...))
}

// number returns the value of a variable. Negative numbers count as 0, which sets no limit.
func (s *settings) number(getenv func(string) string, name string, preset int64) int64 {
	text := strings.TrimSpace(getenv(name))
	if text == "" {
		return preset
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if most := int64(1) << 50; err != nil || n > most {
		s.note("$%s: %q is no number, and bperf ignores it", name, text)
		return preset
	}
	if n > maxSeconds && name != "DEBUGINFOD_MAXSIZE" {
		return maxSeconds
	}
	return max(0, n)
}

// maxSeconds is the longest time that the variables can set, about a year: a time.Duration has room for it.
const maxSeconds = 1 << 25

// readHeaders reads a file with a header of requests on each line.
func (s *settings) readHeaders(file string) {
	if file == "" {
		return
	}
	f, err := userfile.Read(file, maxHeaders)
	if err != nil {
		s.note("$DEBUGINFOD_HEADERS_FILE: %v", err)
		return
	}
	s.headers = http.Header{}
	for line := range strings.Lines(string(f.Data)) {
		name, value, is := strings.Cut(strings.TrimSpace(line), ":")
		if is {
			s.headers.Add(strings.TrimSpace(name), strings.TrimSpace(value))
		}
	}
}

// cacheDir returns the directory of the cache; empty if there is no home directory.
func cacheDir(getenv func(string) string) string {
	if dir := getenv("DEBUGINFOD_CACHE_PATH"); dir != "" {
		return dir
	}
	home := getenv("HOME")
	if home != "" {
		old := filepath.Join(home, ".debuginfod_client_cache")
		if info, err := os.Stat(old); err == nil && info.IsDir() {
			return old
		}
	}
	const name = "debuginfod_client"
	if dir := getenv("XDG_CACHE_HOME"); dir != "" {
		return filepath.Join(dir, name)
	}
	if home == "" {
		return ""
	}
	return filepath.Join(home, ".cache", name)
}
