package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// binary is a package's tests, compiled for fuzzing.
type binary struct {
	file       string
	dir        string // directory of the package, in which it runs
	importPath string
	cache      string // directory where the go command keeps interesting inputs, which reach new code
	targets    []string
}

// decoder is a package's targets that together are fuzzed for the time of one decoder.
type decoder struct {
	binary
	targets []string
}

// builder compiles each package once.
type builder struct {
	dir      string
	binaries map[string]binary
}

// decoder returns the decoder for an argument PACKAGE[:TARGET,...].
func (b *builder) decoder(ctx context.Context, name string) (decoder, error) {
	pkg, targets, some := strings.Cut(name, ":")
	bin, is := b.binaries[pkg]
	if !is {
		var err error
		if bin, err = b.build(ctx, pkg); err != nil {
			return decoder{}, err
		}
		b.binaries[pkg] = bin
	}
	d := decoder{bin, bin.targets}
	if some {
		d.targets = strings.Split(targets, ",")
	}
	for _, t := range d.targets {
		if !slices.Contains(bin.targets, t) {
			return decoder{}, fmt.Errorf("%s has no fuzz target %s: it has %s", pkg, t, strings.Join(bin.targets, ", "))
		}
	}
	if len(d.targets) == 0 {
		return decoder{}, fmt.Errorf("%s has no fuzz targets", pkg)
	}
	return d, nil
}

func (b *builder) build(ctx context.Context, pkg string) (binary, error) {
	var p struct{ Dir, ImportPath string }
	out, err := output(ctx, "", "go", "list", "-json=Dir,ImportPath", pkg)
	if err != nil {
		return binary{}, err
	}
	if err := json.Unmarshal(out, &p); err != nil {
		return binary{}, fmt.Errorf("go list %s: %w", pkg, err)
	}
	cache, err := output(ctx, "", "go", "env", "GOCACHE")
	if err != nil {
		return binary{}, err
	}
	bin := binary{
		file:       filepath.Join(b.dir, strconv.Itoa(len(b.binaries))),
		dir:        p.Dir,
		importPath: p.ImportPath,
		cache:      filepath.Join(strings.TrimSpace(string(cache)), "fuzz", filepath.FromSlash(p.ImportPath)),
	}
	if _, err := output(ctx, "", "go", "test", "-c", "-vet=off", "-fuzz=.", "-o", bin.file, pkg); err != nil {
		return binary{}, err
	}
	list, err := output(ctx, bin.dir, bin.file, "-test.list=^Fuzz")
	bin.targets = strings.Fields(string(list))
	return bin, err
}

func output(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cmd, err)
	}
	return out, nil
}
