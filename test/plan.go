package main

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

// These are the packages whose tests depend on the kernel: those that count depend on it the most, those of the command line the least.
// This machine runs the tests of all packages.
var (
	countPackages = []string{"./internal/perfevent", "./internal/target", "./internal/count/...", "./internal/bpfprog", "./internal/kernel", "./internal/userstack",
		"./internal/serve/node", "./test/e2e", "./test/upstream/..."}
	samplePackages = []string{"./internal/record", "./internal/sample", "./internal/serve/profiles", "./internal/script", "./internal/annotate", "./internal/top"}
	cliPackages    = []string{"./internal/cli"}
)

// archPackages depend on the combination of kernel version and architecture: BPF trampolines and counting at them, walking the user's stack,
// code that the kernel compiled, the layout of attributes and records.
var archPackages = []string{"./internal/perfevent", "./internal/kernel", "./internal/bpfprog", "./internal/count/program", "./internal/userstack", "./internal/annotate",
	"./test/e2e"}

// guests are the kernels that tests run on besides this machine's, and the packages that they run. The longest come first. The oldest kernel,
// 6.1 on amd64, and the newest, 7.2 on arm64, run all that depend on the kernel. 6.12 runs archPackages on amd64 and, with the long versions of
// tests, countPackages and samplePackages on arm64.
var guests = []struct {
	kernel   string
	packages []string
	run      string // if not empty, only tests that match
	cpu      string // model of the CPU; empty for the one of test/guest
	newest   bool   // with the perf of Debian testing
	long     bool   // only with the long versions of tests
}{
	{kernel: "arm64/testing", packages: slices.Concat(countPackages, samplePackages)},
	{kernel: "amd64/bookworm", packages: slices.Concat(countPackages, samplePackages)},
	{kernel: "arm64/trixie", packages: slices.Concat(countPackages, samplePackages), long: true},
	{kernel: "arm64/testing", packages: cliPackages},
	{kernel: "amd64/bookworm", packages: cliPackages},
	{kernel: "amd64/trixie", packages: archPackages},
	{kernel: "arm64/trixie/lockdown", packages: lockdownPackages, run: lockdownTests},
	{kernel: "arm64/testing", packages: vendorPackages, run: vendorTests, cpu: "neoverse-n1", newest: true},
	{kernel: "arm64/testing", packages: vendorPackages[:1], run: vendorTests, cpu: "cortex-a72"},
}

// vendorPackages use the events of the CPU's vendor, which vendorTests compare with the kernel's, and with the perf of Debian testing.
var vendorPackages = []string{"./internal/cli", "./internal/event"}

const vendorTests = "^(TestStatVendorEvents|TestVendorEventsBesidePerf)$"

// lockdownPackages are packages whose BPF programs read the kernel's memory. lockdownTests are some of their tests.
var lockdownPackages = []string{"./internal/kernel", "./internal/sample", "./internal/cli", "./test/e2e"}

const lockdownTests = "^(TestLockdown|TestTargets|TestNoFramePointers|TestOffCPUCgroup|TestTopBy|TestStatFollow|TestSharedTruth)$"

// racePackages are tested with the race detector, except for raceSkips: tests that compare what is printed with what perf prints, tests that
// compare samples of a load with its own times, which the detector changes, and tests that only repeat others of the same package, on more
// recordings or for longer. Of the packages in raceRuns, only tests that match run: of the command line, those of commands in which several
// goroutines work.
var racePackages = []string{"./internal/...", "./perfdata/..."}

var raceRuns = map[string]*regexp.Regexp{
	"internal/cli": regexp.MustCompile("^Test(Annotate|Counters|Endings|Interrupted|Maps|On|Profile|Prog|Record|ReportFormats|Script|Serve|" +
		"Stat(Control|Counts|Functions|Programs|Record|Shared$)|Top)"),
}

var raceSkips = regexp.MustCompile("(BesidePerf|LikePerf|AsPerf|AsPerfDoes|OfPackagedPerf|InTmux)$|" +
	"^Test(BothWays|CommandLines|Functions|Truth|MiniDebugInfoBounds|PprofHasTheCode|Storm)$")

// underRace reports whether the step race runs a test of a package, which is given by its path in the module.
func underRace(pkg, test string) bool {
	in := slices.ContainsFunc(racePackages, func(pattern string) bool {
		return strings.HasPrefix("./"+pkg+"/", strings.TrimSuffix(pattern, "..."))
	})
	runs := raceRuns[pkg]
	return in && !raceSkips.MatchString(test) && (runs == nil || runs.MatchString(test))
}

// guestCPUTime is the most CPU time that one guest may take.
const guestCPUTime = 40 * time.Minute

// testTimeout is the timeout of one package's tests on this machine.
const testTimeout = 30 * time.Minute

// needed are the programs and files that tests on this machine use, with their Debian packages.
var needed = map[string]string{
	"gcc":                  "gcc",
	"g++":                  "g++",
	"/usr/include/stdio.h": "libc6-dev",
	"objdump":              "binutils",
	"groff":                "groff-base",
	"zsh":                  "zsh",
	"fish":                 "fish",
	"mount":                "mount",
	"taskset":              "util-linux",
	"tmux":                 "tmux",

	"/usr/share/bash-completion/bash_completion": "bash-completion",
}
