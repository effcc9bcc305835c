package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bperf/bperf/test/guest/initramfs"
	"github.com/bperf/bperf/test/guest/job"
	"github.com/bperf/bperf/test/guest/kernel"
	"github.com/bperf/bperf/test/guest/machine"
	"github.com/bperf/bperf/test/upstream/built"
)

// programs maps paths in the guest to the packages of the programs.
var programs = map[string]string{
	"/init":        "./test/guest/init",
	"/bin/bperf":   "./cmd/bperf",
	"/bin/sharing": "./test/bench/sharing/guest",
}

// pack writes the initramfs of a guest that runs the benchmark.
func pack(image string, a machine.Arch, k *kernel.Kernel) error {
	upstream, err := built.Perf(a.Name)
	if err != nil {
		return err
	}
	files := map[string]string{"/bin/busybox": k.Busybox, "/bin/perf": upstream}
	for name, pkg := range programs {
		files[name] = filepath.Join(filepath.Dir(image), filepath.Base(name))
		if err := build(files[name], a.Name, pkg); err != nil {
			return err
		}
	}
	var archive bytes.Buffer
	w := initramfs.NewWriter(&archive)
	for name, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		w.File(name, 0o755, data)
	}
	b, err := json.Marshal(job.Job{
		Output:   a.Output,
		Status:   a.Status,
		Env:      map[string]string{"PATH": "/bin", "HOME": "/tmp"},
		Commands: []job.Command{{Args: []string{"sharing"}, Dir: "/"}},
	})
	if err != nil {
		return err
	}
	w.File(job.File, 0o644, b)
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(image, archive.Bytes(), 0o600)
}

func build(file, arch, pkg string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", file, pkg)
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, bytes.TrimSpace(out))
	}
	return nil
}
