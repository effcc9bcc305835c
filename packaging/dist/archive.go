package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// writeTarball writes a compressed tarball whose files are all below one directory.
func writeTarball(path, dir string, files []file, mtime time.Time) error {
	var plain bytes.Buffer
	if err := writeTar(&plain, inTarball(files, dir), mtime); err != nil {
		return err
	}
	return os.WriteFile(path, compressed(plain.Bytes()), 0o666)
}

// writeTar writes files of root in the order of their paths, with the directories that they need.
func writeTar(w io.Writer, files []file, mtime time.Time) error {
	files = slices.SortedFunc(slices.Values(files), func(a, b file) int { return strings.Compare(a.path, b.path) })
	tw := tar.NewWriter(w)
	made := map[string]bool{}
	for _, f := range files {
		name := relative(f.path)
		for _, dir := range parents(name) {
			if made[dir] {
				continue
			}
			made[dir] = true
			h := &tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, Uname: "root", Gname: "root", ModTime: mtime}
			if err := tw.WriteHeader(h); err != nil {
				return err
			}
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(f.data)), Mode: int64(f.mode), Uname: "root", Gname: "root",
			ModTime: mtime}
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
		if _, err := tw.Write(f.data); err != nil {
			return err
		}
	}
	return tw.Close()
}

// writeSums writes SHA256SUMS of all files in a directory, for sha256sum -c.
func writeSums(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), e.Name())
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(sums.String()), 0o666)
}
