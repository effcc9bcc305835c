package userstack

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestPrepare builds the tables of a program before it starts. When it runs, none of its files is read again.
func TestPrepare(t *testing.T) {
	script := writeScript(t, "#!/bin/sh\nread line\necho $line\nread line\n")
	for _, command := range []string{"cat", script, writeScript(t, "#!"+script+"\n")} {
		t.Run(filepath.Base(command), func(t *testing.T) {
			tables := newTables(t, DefaultLimits)
			if err := tables.Prepare(command); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(command)
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait() // it was killed
			}()
			if _, err := in.Write([]byte("a\n")); err != nil {
				t.Fatal(err)
			}
			if _, err := out.Read(make([]byte, 1)); err != nil { // it runs and has mapped all its files
				t.Fatal(err)
			}
			files := 0
			for _, r := range mapsOf(t, cmd.Process.Pid) {
				if r.Inode == 0 {
					continue
				}
				files++
				if _, id := tables.identify(r); tables.files[id] == nil {
					t.Errorf("%s: there are only %v", r.Filename, tables.files)
				}
			}
			if files == 0 {
				t.Error("it has mapped no file")
			}
			if stats := tables.Stats(); stats.FilesUnread > 0 {
				t.Error(stats)
			}
		})
	}
}

// TestProgramOfScript looks for the program that runs a script.
func TestProgramOfScript(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(t.TempDir(), "missing")
	for text, want := range map[string]string{
		"#!/bin/sh":                        "/bin/sh",
		"#! \t/bin/sh -e\necho":            "/bin/sh",
		"#!/usr/bin/env sh\n":              sh,
		"#!/usr/bin/env -S -i A=b sh -e\n": sh,
		"#!/usr/bin/env\n":                 "/usr/bin/env",
		"#!\n":                             "", // the script
		"echo":                             "",
		"":                                 "",
		"#!" + missing + "\n":              "missing",
		"#!/usr/bin/env missing-program\n": "missing",
	} {
		script := writeScript(t, text)
		got, err := newTables(t, DefaultLimits).program(script)
		if want == "missing" {
			if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, exec.ErrNotFound) {
				t.Errorf("%q: %q, %v", text, got, err)
			}
			continue
		}
		if want == "" {
			want = script
		}
		if err != nil || got != want {
			t.Errorf("%q: %q, %v, not %q", text, got, err, want)
		}
	}
	loop := writeScript(t, "")
	if err := os.WriteFile(loop, []byte("#!"+loop), 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err := newTables(t, DefaultLimits).program(loop); got != loop || err != nil {
		t.Errorf("a script that runs itself: %q, %v", got, err)
	}
}

func writeScript(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}
