package debuginfod

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSourceName has names that the client of elfutils 0.196 gave to its files.
func TestSourceName(t *testing.T) {
	for path, want := range map[string]string{
		"/a":          "source-005970b5-#a",
		"/nope#a/b.c": "source-ba10c8ec-#nope#a#b.c",
		`/ !"#$%&()*+,-./0:;<=>?@A[\]^_` + "`a{|}~é/x": "source-04c25e78-#############-.#0#######A####_#a#######x",
		"/" + strings.Repeat("x", 400) + "/y.c":        "source-14ea7a2d-" + strings.Repeat("x", 113) + "#y.c",
	} {
		if got := sourceName(path); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}

func TestSettings(t *testing.T) {
	if New(context.Background(), Options{Getenv: func(string) string { return "" }}) != nil {
		t.Error("there is a client without servers")
	}
	home := t.TempDir()
	e := environment{"DEBUGINFOD_URLS": "http://a ima:enforcing https://b:8002/c  localhost:8002 file:///d", "HOME": home, "DEBUGINFOD_TIMEOUT": "x",
		"DEBUGINFOD_MAXTIME": "-1", "DEBUGINFOD_MAXSIZE": "123"}
	get := func(name string) string { return e[name] }
	s := read(get)
	if len(s.servers) != 2 || len(s.notes) != 4 || s.timeout != defaultTimeout || s.maxTime != defaultMaxTime || s.maxSize != 123 {
		t.Errorf("the settings are %+v", s)
	}
	e["DEBUGINFOD_TIMEOUT"], e["DEBUGINFOD_MAXTIME"] = "0", "999999999999"
	if s := read(get); s.timeout != 0 || s.maxTime != maxSeconds*time.Second {
		t.Errorf("the settings are %+v", s)
	}
	dir := func(want string) {
		t.Helper()
		if got := read(get).cache; got != want {
			t.Errorf("the cache is %s, want %s", got, want)
		}
	}
	dir(home + "/.cache/debuginfod_client")
	e["XDG_CACHE_HOME"] = "/xdg"
	dir("/xdg/debuginfod_client")
	if err := os.Mkdir(filepath.Join(home, ".debuginfod_client_cache"), 0o700); err != nil {
		t.Fatal(err)
	}
	dir(home + "/.debuginfod_client_cache")
	e["DEBUGINFOD_CACHE_PATH"] = "/mine"
	dir("/mine")
	delete(e, "DEBUGINFOD_CACHE_PATH")
	delete(e, "XDG_CACHE_HOME")
	delete(e, "HOME")
	dir("")
}
