// Command dist builds everything that a release of bperf consists of: for each architecture a tarball, a .deb, an .rpm and an SBOM; an OCI
// image for all architectures; and SHA256SUMS. The output depends only on the commit and on the version of Go in bperf's go.mod, so two
// builds of a commit are equal byte for byte. `make dist` runs it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"
)

// architectures are those that bperf is released for, as Go names them.
var architectures = []string{"amd64", "arm64"}

// A release is what is built, and where.
type release struct {
	root    string    // the directory of bperf's source
	version string    // as git describe prints it
	time    time.Time // of the commit; all files have it
	out     string    // the directory of the result
}

func main() {
	r := release{}
	var epoch int64
	flag.StringVar(&r.root, "root", "../..", "`directory` of bperf's source")
	flag.StringVar(&r.version, "version", "", "`version` of bperf, as git describe prints it")
	flag.Int64Var(&epoch, "epoch", 0, "time of the commit in `seconds` since 1970")
	flag.StringVar(&r.out, "o", "dist", "`directory` for the result, which is made anew")
	flag.Parse()
	if flag.NArg() != 0 || r.version == "" || epoch <= 0 {
		flag.Usage()
		os.Exit(2)
	}
	r.time = time.Unix(epoch, 0).UTC()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := r.build(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

// build makes the release in a directory beside r.out, which it replaces only if all succeeded.
func (r release) build(ctx context.Context) error {
	var err error
	if r.root, err = filepath.Abs(r.root); err != nil { // commands run there
		return err
	}
	if r.out, err = filepath.Abs(r.out); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(r.out), 0o777); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(r.out), ".dist-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)

	result := filepath.Join(work, "result")
	if err := os.Mkdir(result, 0o777); err != nil {
		return err
	}
	if err := r.write(ctx, work, result); err != nil {
		return err
	}
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	return os.Rename(result, r.out)
}

func (r release) write(ctx context.Context, work, result string) error {
	binaries, err := r.compile(ctx, work)
	if err != nil {
		return err
	}
	common, err := r.commonFiles(ctx, work, binaries)
	if err != nil {
		return err
	}
	image := newImage(upstreamVersion(r.version), r.time)
	for _, arch := range architectures {
		modules, err := r.linkedModules(ctx, arch, binaries[arch])
		if err != nil {
			return err
		}
		files, err := r.filesOf(binaries[arch], modules, common)
		if err != nil {
			return err
		}
		name := r.name() + "-linux-" + arch
		if err := writeTarball(filepath.Join(result, name+".tar.gz"), name, files, r.time); err != nil {
			return err
		}
		if err := r.writePackages(result, work, arch, files); err != nil {
			return err
		}
		if err := r.writeSBOM(filepath.Join(result, name+".cdx.json"), arch, modules); err != nil {
			return err
		}
		if err := image.add(arch, files); err != nil {
			return err
		}
	}
	if err := image.write(filepath.Join(result, r.name()+"-oci.tar")); err != nil {
		return err
	}
	return writeSums(result)
}

// name is the first part of the names of files, such as bperf-0.1.0.
func (r release) name() string { return "bperf-" + upstreamVersion(r.version) }
