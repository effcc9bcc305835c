package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	nfpmfiles "github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

const (
	maintainer = "The bperf authors <bperf@users.noreply.github.com>"
	homepage   = "https://github.com/bperf/bperf"
	// licence is of bperf: Go code; BPF code; facts of Intel's event tables. Modules that are linked have theirs in addition.
	licence     = "Apache-2.0 AND (GPL-2.0-only OR BSD-2-Clause) AND BSD-3-Clause"
	summary     = "performance counting and profiling through perf events and BPF"
	description = `bperf counts and samples events of the CPU, of the kernel, and of BPF
programs, for the system, processes, containers or a command. It has the
command line of perf, and reads and writes perf.data. It is one static
program: no library has to be installed.

The service bperf.service, which exports counts and profiles of a node, is
not enabled by the package.`
)

// writePackages writes the .deb and the .rpm of an architecture into a directory.
func (r release) writePackages(dir, work, arch string, files []file) error {
	debFiles := append(r.debianFiles(), files...)
	if err := r.writePackage(deb.Default, "deb", dir, filepath.Join(work, "deb-"+arch), arch, debFiles); err != nil {
		return err
	}
	return r.writePackage(rpm.DefaultRPM, "rpm", dir, filepath.Join(work, "rpm-"+arch), arch, files)
}

func (r release) writePackage(packager nfpm.Packager, format, dir, work, arch string, files []file) error {
	contents, err := r.contents(format, work, files)
	if err != nil {
		return err
	}
	script := filepath.Join(r.root, "packaging/dist/preremove.sh")
	info := &nfpm.Info{
		Name: "bperf", Arch: arch, Platform: "linux", Section: "utils", Priority: "optional",
		Version: packageVersion(r.version, r.time), VersionSchema: "none", MTime: r.time,
		Maintainer: maintainer, Description: description, Homepage: homepage, License: licence,
		Overridables: nfpm.Overridables{
			Contents: contents,
			Scripts:  nfpm.Scripts{PreRemove: script},
			Deb:      nfpm.Deb{Compression: "xz"},
			RPM:      nfpm.RPM{Compression: "zstd", BuildHost: "localhost", Summary: summary},
		},
	}
	if format == "rpm" {
		info.Release = "1"
	} else {
		info.Description = summary + "\n" + description
	}
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := packager.Package(info, &b); err != nil {
		return fmt.Errorf("%s: %w", format, err)
	}
	return os.WriteFile(filepath.Join(dir, packager.ConventionalFileName(info)), b.Bytes(), 0o666)
}

// contents writes the files of a package below work, from where nfpm reads them.
func (r release) contents(format, work string, files []file) (nfpmfiles.Contents, error) {
	var contents nfpmfiles.Contents
	for _, f := range files {
		if f.path == "" || f.format != "" && f.format != format {
			continue
		}
		source := filepath.Join(work, f.path)
		if err := os.MkdirAll(filepath.Dir(source), 0o777); err != nil {
			return nil, err
		}
		if err := os.WriteFile(source, f.data, 0o600); err != nil {
			return nil, err
		}
		c := &nfpmfiles.Content{Source: source, Destination: f.path, FileInfo: &nfpmfiles.ContentFileInfo{
			Owner: "root", Group: "root", Mode: f.mode, MTime: r.time,
		}}
		switch {
		case f.config:
			c.Type = nfpmfiles.TypeConfigNoReplace
		case f.licence && format == "rpm":
			c.Type = nfpmfiles.TypeRPMLicense
		}
		contents = append(contents, c)
	}
	for _, dir := range directories(format) {
		contents = append(contents, &nfpmfiles.Content{Destination: dir, Type: nfpmfiles.TypeDir, FileInfo: &nfpmfiles.ContentFileInfo{
			Owner: "root", Group: "root", Mode: 0o755, MTime: r.time,
		}})
	}
	return contents, nil
}

// directories returns the directories that are removed with the package. dpkg removes what is empty, and rpm what a package names: the .rpm
// names those of shells that may not be installed, too.
func directories(format string) []string {
	dirs := []string{docDir, "/etc/bperf"}
	if format == "rpm" {
		dirs = append(dirs, "/usr/share/bash-completion", "/usr/share/bash-completion/completions", "/usr/share/fish",
			"/usr/share/fish/vendor_completions.d", "/usr/share/zsh", "/usr/share/zsh/site-functions")
	}
	return dirs
}

// debianFiles returns what Debian's policy wants of each package, and the reasons for what lintian would say.
func (r release) debianFiles() []file {
	changelog := fmt.Sprintf("bperf (%s) unstable; urgency=medium\n\n  * Release %s: see CHANGELOG.md.\n\n -- %s  %s\n",
		packageVersion(r.version, r.time), upstreamVersion(r.version), maintainer, r.time.Format("Mon, 02 Jan 2006 15:04:05 -0700"))
	return []file{
		{path: docDir + "/copyright", data: []byte(copyright), mode: 0o644},
		{path: docDir + "/changelog.gz", data: compressed([]byte(changelog)), mode: 0o644},
		{path: "/usr/share/lintian/overrides/bperf", data: []byte(overrides), mode: 0o644},
	}
}

const copyright = `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: bperf
Source: ` + homepage + `
Comment: The binary contains modules of others. Their licences are in
 /usr/share/doc/bperf/THIRD-PARTY-NOTICES.gz.

Files: *
Copyright: 2026 the bperf authors
License: Apache-2.0
 On Debian systems the text of the Apache License, version 2.0, is in
 /usr/share/common-licenses/Apache-2.0.

Files: bpf/*
Copyright: 2026 the bperf authors
License: GPL-2.0-only or BSD-2-Clause
 The text of the GNU General Public License, version 2, is in
 /usr/share/common-licenses/GPL-2 on Debian systems. The text of the other
 licence is in /usr/share/doc/bperf/BSD-2-Clause.txt.

Files: internal/event/vendor/tables/*
Copyright: 2001-2022 Intel Corporation
License: BSD-3-Clause
 The text is in /usr/share/doc/bperf/BSD-3-Clause-perfmon.txt.
`

const overrides = `# Go links statically, so that the program runs in every distribution and container.
bperf: statically-linked-binary
# One script for dpkg and rpm. It stops and disables the service, which only an administrator can have enabled.
bperf: maintainer-script-calls-systemctl
`
