package boot

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/bperf/bperf/test/binaries"
	"github.com/bperf/bperf/test/guest/initramfs"
	"github.com/bperf/bperf/test/guest/job"
	"github.com/bperf/bperf/test/guest/kernel"
	"github.com/bperf/bperf/test/guest/machine"
	"github.com/bperf/bperf/test/upstream/packaged"
)

// sources is the directory of the module in a guest.
const sources = "/src"

// testTimeout is the timeout of a package's tests by the guest's clock. With -icount it skips the time in which the guest is idle, so that it
// only ends a hang. Without, it is this machine's clock, by which tests take long while the machine does other work.
const testTimeout = "60m"

// content is the content of a guest's initramfs.
type content struct {
	files map[string]string // file on this machine by path in the guest
	job   job.Job
}

// build compiles the programs that a guest runs.
func build(b *binaries.Builder, o *Options, arch machine.Arch) (*content, error) {
	c := &content{
		files: map[string]string{},
		job: job.Job{
			Output: arch.Output,
			Status: arch.Status,
			Env: map[string]string{
				"PATH":          "/bin",
				"HOME":          "/tmp",
				"BPERF":         "/bin/bperf",
				"BPERF_REQUIRE": arch.Require,
				"BPERF_GUEST":   o.Kernel,
				"BPERF_CPU":     o.CPU,
				"BPERF_LONG":    os.Getenv("BPERF_LONG"),
			},
		},
	}
	for name, pkg := range map[string]string{"/init": "./test/guest/init", "/bin/bperf": "./cmd/bperf"} {
		file, err := b.Program(arch.Name, pkg)
		if err != nil {
			return nil, err
		}
		c.files[name] = file
	}
	if isLockdown(o.Kernel) {
		c.job.Env["BPERF_REQUIRE"] += ",lockdown"
	}
	if o.Command != nil {
		c.job.Commands = []job.Command{{Args: o.Command, Dir: "/"}}
		return c, nil
	}
	return c, c.addPackages(b, o, arch)
}

func (c *content) addPackages(b *binaries.Builder, o *Options, arch machine.Arch) error {
	moduleDir, err := binaries.ModuleDir()
	if err != nil {
		return err
	}
	if err := c.addTestdata(moduleDir); err != nil {
		return err
	}
	packages, err := binaries.List(arch.Name, o.Packages)
	if err != nil {
		return err
	}
	for _, p := range packages {
		file, err := b.Tests(arch.Name, p.ImportPath)
		if err != nil {
			return err
		}
		c.addTests(p, file, o)
	}
	if len(c.job.Commands) == 0 {
		return fmt.Errorf("%s: no test files", strings.Join(o.Packages, " "))
	}
	return nil
}

// addTests adds a package's test binary and the command that runs it in the directory with the package's testdata.
func (c *content) addTests(p binaries.Package, file string, o *Options) {
	dir := path.Join(sources, p.Path())
	binary := dir + "/" + path.Base(p.Path()) + ".test"
	c.files[binary] = file
	c.job.Commands = append(c.job.Commands, job.Command{
		Package: p.ImportPath,
		Args: []string{binary, "-test.v", "-test.paniconexit0", "-test.timeout=" + testTimeout,
			"-test.run=" + o.Run, fmt.Sprint("-test.count=", max(o.Count, 1))},
		Dir: dir,
	})
}

// addTestdata adds the testdata of every package at the same relative path, so that tests find their own testdata and that of other packages.
func (c *content) addTestdata(moduleDir string) error {
	return filepath.WalkDir(moduleDir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !strings.Contains(name, "/testdata/") {
			return err
		}
		relative, err := filepath.Rel(moduleDir, name)
		c.files[path.Join(sources, relative)] = name
		return err
	})
}

// addPerf adds upstream perf to the guest, and requires that its tests find it.
func (c *content) addPerf(file string) {
	c.files["/bin/perf"] = file
	c.job.Env["BPERF_REQUIRE"] += ",upstream-perf"
}

// addNewest adds the perf of Debian testing to the guest, and requires that its tests find it.
func (c *content) addNewest(script string) error {
	files, err := packaged.Files(script)
	for name, file := range files {
		c.files[path.Join(packaged.InGuest, name)] = file
	}
	c.job.Env["BPERF_REQUIRE"] += ",newest-perf"
	return err
}

// addNetwork adds the modules of the driver of the network device.
func (c *content) addNetwork(k *kernel.Kernel) error {
	modules, err := k.Network()
	for _, file := range modules {
		name := "/lib/modules/" + filepath.Base(file)
		c.files[name] = file
		c.job.Modules = append(c.job.Modules, name)
	}
	return err
}

func (c *content) write(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	buf := bufio.NewWriter(f)
	if err := c.archive(initramfs.NewWriter(buf)); err != nil {
		return err
	}
	if err := buf.Flush(); err != nil {
		return err
	}
	return f.Close()
}

func (c *content) archive(w *initramfs.Writer) error {
	for path, name := range c.files {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		w.File(path, uint32(info.Mode().Perm()), data)
	}
	for _, command := range c.job.Commands {
		w.Dir(command.Dir)
	}
	b, err := json.Marshal(c.job)
	if err != nil {
		return err
	}
	w.File(job.File, 0o644, b)
	return w.Close()
}
