package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// compile builds bperf for each architecture below work. It returns their paths.
func (r release) compile(ctx context.Context, work string) (map[string]string, error) {
	binaries := map[string]string{}
	for _, arch := range architectures {
		binaries[arch] = filepath.Join(work, arch, "bperf") // the name is in its man pages and completions
		_, err := r.goCommand(ctx, arch, "build", "-trimpath", "-ldflags", "-s -w -X github.com/bperf/bperf/internal/cli.version="+r.version,
			"-o", binaries[arch], "./cmd/bperf")
		if err != nil {
			return nil, err
		}
	}
	return binaries, nil
}

// goCommand runs the go command in bperf's source, for an architecture, and returns its output. Settings of the user that would change a
// binary do not count, and Go has the version that go.mod names.
func (r release) goCommand(ctx context.Context, arch string, args ...string) ([]byte, error) {
	toolchain, err := r.toolchain()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = r.root
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=-mod=readonly",
		"GOEXPERIMENT=", "GODEBUG=", "GOFIPS140=off", "GOWORK=off", "GOTOOLCHAIN="+toolchain)
	return output(cmd)
}

// toolchain returns the version of Go in go.mod, as GOTOOLCHAIN has it: go1.26.8.
func (r release) toolchain() (string, error) {
	path := filepath.Join(r.root, "go.mod")
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if version, found := strings.CutPrefix(line, "go "); found {
			return "go" + strings.TrimSpace(version), nil
		}
	}
	return "", fmt.Errorf("%s has no line with the version of Go", path)
}

// output runs a command and returns its standard output. The error has what the command printed to standard error.
func output(cmd *exec.Cmd) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, stderr.Bytes())
	}
	return stdout.Bytes(), nil
}

// runnable returns the binary that this machine can run.
func runnable(binaries map[string]string) (string, error) {
	if path, there := binaries[runtime.GOARCH]; there && runtime.GOOS == "linux" {
		return path, nil
	}
	return "", fmt.Errorf("bperf writes its man pages itself and does not run on %s/%s: build on Linux, on one of %s",
		runtime.GOOS, runtime.GOARCH, strings.Join(architectures, ", "))
}
