package apt

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// keyring has the keys of the archive's signatures. Every Debian machine has the file.
const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// Archive is a Debian suite for an architecture. It uses a separate apt configuration, and does not change this machine's sources, package
// state and architectures.
type Archive struct {
	dir     string
	options []string
}

// OpenArchive downloads the suite's package lists to a temporary directory, which Close removes. The archive's address comes from this
// machine's apt sources.
func OpenArchive(suite, arch string) (*Archive, error) {
	address, err := address()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "bperf-apt-")
	if err != nil {
		return nil, err
	}
	a := &Archive{dir: dir}
	if err := a.update(address, suite, arch); err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

// Close removes the package lists and the downloaded packages.
func (a *Archive) Close() error { return os.RemoveAll(a.dir) }

func (a *Archive) update(address, suite, arch string) error {
	for _, d := range []string{"parts", "preferences", "lists/partial", "cache/archives/partial", "debs"} {
		if err := os.MkdirAll(filepath.Join(a.dir, d), 0o755); err != nil {
			return err
		}
	}
	sources := filepath.Join(a.dir, "sources.list")
	line := fmt.Sprintf("deb [signed-by=%s] %s %s main\n", keyring, address, suite)
	if err := os.WriteFile(sources, []byte(line), 0o644); err != nil {
		return err
	}
	status := filepath.Join(a.dir, "status")
	if err := os.WriteFile(status, nil, 0o644); err != nil {
		return err
	}
	for _, option := range []string{
		"Dir::Etc::sourcelist=" + sources,
		"Dir::Etc::sourceparts=" + filepath.Join(a.dir, "parts"),
		"Dir::Etc::preferencesparts=" + filepath.Join(a.dir, "preferences"),
		"Dir::State=" + a.dir,
		"Dir::State::status=" + status,
		"Dir::Cache=" + filepath.Join(a.dir, "cache"),
		"APT::Architecture=" + arch,
		"APT::Architectures::=" + arch,
		"APT::Sandbox::User=root", // its usual user cannot write to a.dir
		"APT::Update::Error-Mode=any",
		// apt still verifies signatures. A mirror of testing or sid that is more than a week behind is good enough.
		"Acquire::Check-Valid-Until=false",
		"Acquire::Languages=none",
		"Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false", // metadata for software centres
	} {
		a.options = append(a.options, "-o", option)
	}
	_, err := a.apt("apt-get", "-q", "update")
	return err
}

func (a *Archive) apt(tool string, args ...string) ([]byte, error) {
	out, err := output(tool, slices.Concat(a.options, args)...)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", tool, strings.Join(args, " "), err)
	}
	return out, nil
}

// Depends returns the names of the packages that a package depends on directly.
func (a *Archive) Depends(pkg string) ([]string, error) {
	out, err := a.apt("apt-cache", "depends", "--important", pkg)
	if err != nil {
		return nil, err
	}
	var names []string
	for line := range strings.Lines(string(out)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: "); ok {
			names = append(names, name)
		}
	}
	return names, nil
}

// Closure returns a package and its direct and indirect dependencies. It skips dependencies that want rejects, with their own dependencies, and
// virtual packages.
func (a *Archive) Closure(pkg string, want func(name string) bool) ([]string, error) {
	out, err := a.apt("apt-cache", "depends", "--important", "--recurse", pkg)
	if err != nil {
		return nil, err
	}
	return closure(out, pkg, want), nil
}

// closure parses the output of apt-cache depends --recurse: names of packages, each followed by its dependencies.
func closure(depends []byte, pkg string, want func(name string) bool) []string {
	of := map[string][]string{}
	name := ""
	for line := range strings.Lines(string(depends)) {
		line = strings.TrimRight(line, "\n")
		if dependency, is := strings.CutPrefix(strings.TrimLeft(line, " |"), "Depends: "); is {
			of[name] = append(of[name], dependency)
		} else if !strings.HasPrefix(line, " ") {
			name = line
			of[name] = nil
		}
	}
	all, seen := []string{pkg}, map[string]bool{pkg: true}
	for i := 0; i < len(all); i++ {
		for _, d := range of[all[i]] {
			if _, real := of[d]; real && !seen[d] && !strings.HasPrefix(d, "<") && want(d) {
				all, seen[d] = append(all, d), true
			}
		}
	}
	return all
}

// Extract downloads a package and writes the first regular file in it whose path matches to dst.
func (a *Archive) Extract(pkg string, path *regexp.Regexp, dst string) error {
	debs, err := a.download(pkg)
	if err != nil {
		return err
	}
	if err := extract(debs[0], path, dst); err != nil {
		return fmt.Errorf("%s: %w", pkg, err)
	}
	return nil
}

// Unpack downloads packages and unpacks them below dst, which need not exist.
func (a *Archive) Unpack(dst string, packages ...string) error {
	debs, err := a.download(packages...)
	if err != nil {
		return err
	}
	for _, deb := range debs {
		if err := run("dpkg-deb", "--extract", deb, dst); err != nil {
			return err
		}
	}
	return nil
}

// download downloads packages and returns their files, which exist until Close.
func (a *Archive) download(packages ...string) ([]string, error) {
	dir, err := os.MkdirTemp(filepath.Join(a.dir, "debs"), "")
	if err != nil {
		return nil, err
	}
	names := strings.Join(packages, " ")
	cmd := exec.Command("apt-get", slices.Concat(a.options, []string{"-q", "download"}, packages)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("download %s: %w\n%s", names, err, bytes.TrimSpace(out))
	}
	debs, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil || len(debs) != len(packages) {
		return nil, fmt.Errorf("download %s: got %d packages", names, len(debs))
	}
	return debs, nil
}

func extract(deb string, path *regexp.Regexp, dst string) error {
	cmd := exec.Command("dpkg-deb", "--fsys-tarfile", deb)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	found := copyMember(pipe, path, dst)
	_, drained := io.Copy(io.Discard, pipe)
	return errors.Join(found, drained, cmd.Wait())
}

func copyMember(r io.Reader, path *regexp.Regexp, dst string) error {
	members := tar.NewReader(r)
	for {
		h, err := members.Next()
		switch {
		case errors.Is(err, io.EOF):
			return fmt.Errorf("no file matches %s", path)
		case err != nil:
			return err
		case h.Typeflag != tar.TypeReg || !path.MatchString(h.Name):
			continue
		}
		f, err := os.OpenFile(dst, os.O_CREATE|os.O_EXCL|os.O_WRONLY, h.FileInfo().Mode().Perm())
		if err != nil {
			return err
		}
		_, err = io.Copy(f, members)
		return errors.Join(err, f.Close())
	}
}

// address returns the address of the Debian archive in this machine's apt sources.
func address() (string, error) {
	out, err := output("apt-get", "update", "--print-uris")
	if err != nil {
		return "", fmt.Errorf("ask apt for its sources: %w", err)
	}
	return findAddress(out)
}

// release matches a line such as "'http://mirror.example/debian/dists/bookworm/InRelease' …". It does not match the security archive, which
// does not have all suites' kernels, nor other vendors' archives, which have no kernels.
var release = regexp.MustCompile(`(?m)^'([^']*/debian)/dists/`)

func findAddress(uris []byte) (string, error) {
	m := release.FindSubmatch(uris)
	if m == nil {
		return "", errors.New("none of this machine's apt sources is an archive of Debian (an address that ends in /debian): " +
			"add one to /etc/apt/sources.list.d")
	}
	return string(m[1]), nil
}
