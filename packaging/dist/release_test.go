package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// run runs a command and returns its output.
func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
}

// tool skips a test without a program of Debian's, and fails it where CI is set.
func tool(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// clone returns a release of the commit that is checked out in root, in a clone of it.
func clone(t *testing.T, root string) release {
	t.Helper()
	dir := t.TempDir()
	root, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	r := release{root: filepath.Join(dir, "source"), out: filepath.Join(dir, "dist")}
	run(t, "", "git", "clone", "-q", root, r.root)
	r.version = strings.TrimSpace(run(t, r.root, "git", "describe", "--tags", "--always"))
	epoch, err := strconv.ParseInt(strings.TrimSpace(run(t, r.root, "git", "log", "-1", "--format=%ct")), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	r.time = time.Unix(epoch, 0).UTC()
	return r
}

// TestRelease builds a release of the commit that is checked out, and checks all that it consists of.
func TestRelease(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds bperf four times, and three Debian systems")
	}
	r := clone(t, "../..")
	if err := r.build(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Run("checksums", func(t *testing.T) { run(t, r.out, "sha256sum", "-c", "SHA256SUMS") })
	t.Run("tarballs", func(t *testing.T) { checkTarballs(t, r) })
	t.Run("image", func(t *testing.T) { checkImage(t, r) })
	t.Run("lintian", func(t *testing.T) { checkLintian(t, r) })
	t.Run("make install", func(t *testing.T) { checkInstall(t, r) })
	t.Run("source archive", func(t *testing.T) { checkArchive(t, r) })
	t.Run("reproducible", func(t *testing.T) { checkReproducible(t, r) })
	for _, suite := range []string{"bookworm", "trixie", "testing"} {
		t.Run(suite, func(t *testing.T) { checkDebian(t, r, suite) })
	}
}

// only returns the one file of a release whose name matches.
func only(t *testing.T, r release, pattern string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(r.out, pattern))
	if err != nil || len(paths) != 1 {
		t.Fatalf("%s: %q %v, want one", pattern, paths, err)
	}
	return paths[0]
}

// checkTarballs checks that both binaries are static and of their architecture, and that the tarballs have the same files.
func checkTarballs(t *testing.T, r release) {
	var lists []string
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		dir := t.TempDir()
		run(t, dir, "tar", "xf", only(t, r, "*-linux-"+arch+".tar.gz"), "--strip-components=1")
		f, err := elf.Open(filepath.Join(dir, "bperf"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		libraries, err := f.ImportedLibraries()
		if err != nil || len(libraries) != 0 || f.Machine != machine {
			t.Errorf("%s: machine %v, libraries %q, %v", arch, f.Machine, libraries, err)
		}
		lists = append(lists, run(t, dir, "find", ".", "-printf", "%P %m\n"))
	}
	if lists[0] != lists[1] {
		t.Errorf("files differ:\n%s\n%s", lists[0], lists[1])
	}
}

func checkLintian(t *testing.T, r release) {
	tool(t, "lintian")
	for _, arch := range architectures {
		if out := run(t, "", "lintian", "--allow-root", "--quiet", "--fail-on", "error,warning", only(t, r, "*_"+arch+".deb")); out != "" {
			t.Logf("%s: %s", arch, out)
		}
	}
}

// checkInstall checks that make install installs what the .deb does, except what is Debian's or depends on how the system is set up.
func checkInstall(t *testing.T, r release) {
	tool(t, "dpkg-deb")
	installed, unpacked := t.TempDir(), t.TempDir()
	run(t, r.root, "make", "install", "DESTDIR="+installed, "PREFIX=/usr")
	run(t, "", "dpkg-deb", "-x", only(t, r, "*_amd64.deb"), unpacked)
	for _, path := range []string{"etc", "usr/share/doc", "usr/share/lintian"} {
		if err := os.RemoveAll(filepath.Join(unpacked, path)); err != nil {
			t.Fatal(err)
		}
	}
	const list = `find * -type f -printf '%m %p\n' | sed 's|\.gz$||; s|zsh/vendor-completions|zsh/site-functions|' | sort`
	got, want := run(t, installed, "sh", "-c", list), run(t, unpacked, "sh", "-c", list)
	if got != want {
		t.Errorf("make install installs\n%s\nthe package has\n%s", got, want)
	}
}

// checkArchive checks the version of bperf that is built of source without .git, with make and without.
func checkArchive(t *testing.T, r release) {
	dir := t.TempDir()
	run(t, r.root, "sh", "-c", `git archive HEAD | tar x -C "$1"`, "sh", dir)
	run(t, dir, "make", "bperf")
	made := run(t, dir, "./bperf", "version")
	run(t, dir, "go", "build", "-o", "bperf", "./cmd/bperf")
	plain := run(t, dir, "./bperf", "version")
	for _, got := range []string{made, plain} {
		if version := strings.Fields(got)[2]; version != r.version {
			t.Errorf("version %s, want %s", version, r.version)
		}
	}
}

// checkReproducible builds the same commit at another place, with nothing cached and settings of another user, and compares.
func checkReproducible(t *testing.T, r release) {
	cache := t.TempDir()
	t.Setenv("GOCACHE", cache)
	t.Setenv("GOFLAGS", "-tags=other")
	t.Setenv("GOAMD64", "v3")
	t.Setenv("TZ", "Asia/Tokyo")
	t.Setenv("LANG", "de_DE.UTF-8")
	defer syscall.Umask(syscall.Umask(0o077))
	again := clone(t, r.root)
	if err := again.build(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again.root == r.root {
		t.Fatalf("both were built in %s", r.root)
	}
	got, want := readFile(t, filepath.Join(again.out, "SHA256SUMS")), readFile(t, filepath.Join(r.out, "SHA256SUMS"))
	if !bytes.Equal(got, want) {
		t.Errorf("sums differ:\n%s\n%s", got, want)
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// checkDebian installs, uses and removes the packages in a small Debian system: the .deb with its dpkg, the .rpm with the rpm of this
// machine. The mounts are in a namespace of their own, so none is left when the command ends.
func checkDebian(t *testing.T, r release, suite string) {
	tool(t, "mmdebstrap")
	tool(t, "rpm")
	root := filepath.Join(t.TempDir(), "root")
	// The clock of a build machine may be ahead of the archive's copy.
	run(t, "", "mmdebstrap", "--quiet", "--variant=minbase", "--include=man-db,bash-completion,zsh,fish",
		`--aptopt=Acquire::Check-Valid-Until "false"`, suite, root)
	for name, source := range map[string]string{
		"bperf.deb": only(t, r, "*_amd64.deb"), "bperf.rpm": only(t, r, "*.x86_64.rpm"),
		"use.sh": "testdata/use.sh", "deb.sh": "testdata/deb.sh",
	} {
		if err := os.WriteFile(filepath.Join(root, name), readFile(t, source), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	const inside = `mount -t proc proc "$1/proc" && mount --rbind /sys "$1/sys" && mount --rbind /dev "$1/dev" &&
		chroot "$1" sh -x /deb.sh && sh -x testdata/rpm.sh "$1"`
	t.Logf("%s", run(t, "", "unshare", "--mount", "sh", "-c", inside, "sh", root))
}

// checkImage reads the image as clients do: from index.json by digests down to the files. It runs the program in a root with nothing else.
func checkImage(t *testing.T, r release) {
	layout := t.TempDir()
	run(t, layout, "tar", "xf", only(t, r, "*-oci.tar"))
	blob := func(d v1.Descriptor) []byte {
		t.Helper()
		data := readFile(t, filepath.Join(layout, "blobs", d.Digest.Algorithm().String(), d.Digest.Encoded()))
		if int64(len(data)) != d.Size || d.Digest.Algorithm().FromBytes(data) != d.Digest {
			t.Fatalf("%s does not have the digest and size of its descriptor", d.Digest)
		}
		return data
	}
	var top, index v1.Index
	decode(t, readFile(t, filepath.Join(layout, "index.json")), &top)
	decode(t, blob(top.Manifests[0]), &index)
	var platforms []string
	for _, d := range index.Manifests {
		platforms = append(platforms, d.Platform.OS+"/"+d.Platform.Architecture)
		var manifest v1.Manifest
		decode(t, blob(d), &manifest)
		var config v1.Image
		decode(t, blob(manifest.Config), &config)
		if config.OS != d.Platform.OS || config.Architecture != d.Platform.Architecture || len(manifest.Layers) != len(config.RootFS.DiffIDs) {
			t.Errorf("configuration of %s is of %s/%s", d.Platform.Architecture, config.OS, config.Architecture)
		}
		gz, err := gzip.NewReader(bytes.NewReader(blob(manifest.Layers[0])))
		if err != nil {
			t.Fatal(err)
		}
		layer, err := io.ReadAll(gz)
		if err != nil {
			t.Fatal(err)
		}
		if got := config.RootFS.DiffIDs[0].Algorithm().FromBytes(layer); got != config.RootFS.DiffIDs[0] {
			t.Errorf("the layer has the digest %s, and the configuration names %s", got, config.RootFS.DiffIDs[0])
		}
		if d.Platform.Architecture == "amd64" {
			runLayer(t, layer, config.Config.Entrypoint, r.version)
		}
	}
	if want := []string{"linux/amd64", "linux/arm64"}; !slices.Equal(platforms, want) {
		t.Errorf("platforms %q, want %q", platforms, want)
	}
}

func decode(t *testing.T, data []byte, value any) {
	t.Helper()
	if err := json.Unmarshal(data, value); err != nil {
		t.Fatal(err)
	}
}

// runLayer unpacks a layer and runs its program with that as root.
func runLayer(t *testing.T, layer []byte, entrypoint []string, version string) {
	t.Helper()
	root := t.TempDir()
	for r := tar.NewReader(bytes.NewReader(layer)); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(root, h.Name)
		if h.Typeflag == tar.TypeDir {
			err = os.Mkdir(path, h.FileInfo().Mode())
		} else {
			var data []byte
			if data, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(path, data, h.FileInfo().Mode())
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(entrypoint[0], append(entrypoint[1:], "version")...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	cmd.Dir = "/"
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "bperf version "+version+" ") {
		t.Errorf("%v: %v\n%s", cmd.Args, err, out)
	}
}
