// Package config reads the configuration of perf: $PERF_CONFIG alone if it is set, otherwise /etc/perfconfig and ~/.perfconfig.
// perf-config(1) documents the format.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/bperf/bperf/internal/userfile"
)

// Value is the value of a key and its place in a file.
type Value struct {
	Key   string // SECTION.NAME, or SECTION.SUBSECTION.NAME; sections and names in lower case
	Value string // "true" for a name without one
	File  string
	Line  int // 1 for the first
}

// Config is the configuration. The zero value has no keys.
type Config struct {
	Ignored string // why a file was ignored; empty if none was

	values []Value // later ones take precedence
}

// systemFile is the configuration of all users.
const systemFile = "/etc/perfconfig"

// mostBytes limits the size of a file.
const mostBytes = 1 << 20

// Read reads the files that exist. getenv looks up environment variables.
func Read(getenv func(string) string) (*Config, error) {
	c := &Config{}
	if file := getenv("PERF_CONFIG"); file != "" {
		return c, c.read(file, false)
	}
	if err := c.read(systemFile, false); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	home := getenv("HOME")
	if home == "" {
		return c, nil
	}
	err := c.read(filepath.Join(home, ".perfconfig"), true)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, fs.ErrPermission) { // not every user has a home
		return c, nil
	}
	return c, err
}

// read adds the values of a file. If own is set, it ignores a file that belongs neither to this user nor to root: with sudo -E, the other
// user would control what root's commands do.
func (c *Config) read(file string, own bool) error {
	f, err := userfile.Read(file, mostBytes)
	if own && f.IsForeign() {
		c.Ignored = fmt.Sprintf("bperf ignores the configuration %s: it belongs to the user %d, but must belong to you or root", file, f.Owner)
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	values, err := parse(string(f.Data), file)
	c.values = append(c.values, values...)
	return err
}

// Get returns the value of a key, and false if the key is not set.
func (c *Config) Get(key string) (Value, bool) {
	for _, v := range slices.Backward(c.values) {
		if v.Key == key {
			return v, true
		}
	}
	return Value{}, false
}

// List returns the comma-separated elements of a key's value; none if the key is not set.
func (c *Config) List(key string) []string {
	v, _ := c.Get(key)
	return strings.FieldsFunc(v.Value, func(r rune) bool { return r == ',' || r == ' ' })
}

// All returns the values in force, sorted by key.
func (c *Config) All() []Value {
	var all []Value
	for _, v := range c.values {
		if now, _ := c.Get(v.Key); now == v {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b Value) int { return strings.Compare(a.Key, b.Key) })
	return all
}
