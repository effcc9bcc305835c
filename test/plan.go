package main

import "time"

// kernelPackages are the packages whose tests ask the kernel. Those of the command line ask it the least and take the longest. This machine runs
// the tests of all packages.
var (
	kernelPackages = []string{"./internal/perfevent", "./internal/target", "./internal/count/...", "./internal/bpfprog", "./internal/record", "./internal/sample",
		"./internal/script", "./internal/annotate", "./internal/top", "./internal/kernel", "./internal/userstack", "./test/e2e", "./test/upstream/..."}
	cliPackages = []string{"./internal/cli"}
)

// archPackages depend on the kernel's version and on the architecture at once: BPF trampolines and what is counted at them, walking the
// user's stack, code that the kernel compiled, the layout of attributes and records.
var archPackages = []string{"./internal/perfevent", "./internal/kernel", "./internal/bpfprog", "./internal/count/program", "./internal/userstack", "./internal/annotate",
	"./test/e2e"}

// guests are the kernels that tests run on besides this machine's, whichever that is, and the packages that run there; those that take
// the longest come first. The command line runs on the oldest and the newest kernel. 6.12 runs on arm64, and 6.1 and 7.2 on amd64 and arm64: on
// 6.12 of amd64 only what depends on both version and architecture does.
var guests = []struct {
	kernel   string
	packages []string
	run      string // only tests that match, if it is not empty
}{
	{"arm64/testing", kernelPackages, ""},
	{"amd64/bookworm", kernelPackages, ""},
	{"arm64/trixie", kernelPackages, ""},
	{"arm64/testing", cliPackages, ""},
	{"amd64/bookworm", cliPackages, ""},
	{"amd64/trixie", archPackages, ""},
	{"arm64/trixie/lockdown", lockdownPackages, lockdownTests},
}

// lockdownPackages have engines that read the kernel's memory in BPF programs, and lockdownTests are some tests of them.
var lockdownPackages = []string{"./internal/kernel", "./internal/sample", "./internal/cli", "./test/e2e"}

const lockdownTests = "^(TestLockdown|TestTargets|TestNoFramePointers|TestOffCPUCgroup|TestTopBy|TestStatFollow|TestSharedTruth)$"

// racePackages are tested with the race detector, except for tests that only repeat, on more recordings or for longer, what other tests of
// the same package do.
var racePackages = []string{"./internal/...", "./perfdata"}

const raceSkips = "^TestBothWays$|^TestPrintsRecordingsOfPackagedPerf$|^TestPrintsFieldsAsPerfDoes$|^TestPrintsHardwareAsPerfDoes$|^TestTruth$|^TestMiniDebugInfoBounds$|^TestPprofHasTheCode$"

// guestTimeout is for one guest, by the clock of this machine.
const guestTimeout = 40 * time.Minute

// testTimeout is for the tests of one package on this machine.
const testTimeout = 30 * time.Minute

// needed are the programs and files that tests on this machine use, with their Debian packages.
var needed = map[string]string{
	"gcc":                  "gcc",
	"g++":                  "g++",
	"/usr/include/stdio.h": "libc6-dev",
	"objdump":              "binutils",
	"mount":                "mount",
	"taskset":              "util-linux",
}
