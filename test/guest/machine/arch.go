package machine

import "fmt"

// Arch has the properties of machines that depend on the architecture.
type Arch struct {
	Name    string // name in Go and Debian
	QEMU    string // program
	Package string // Debian package of the program
	CPUs    int    // the number of CPUs that works best

	// The guest's devices that the runner reads.
	Output string
	Status string

	// Require lists for test/require what these guests have. Tests that need it fail, and do not skip, if they do not find it.
	Require string

	cpu         string // model of the CPU, with its features
	args        string // other arguments of QEMU
	commandLine string // part of the kernel's command line
}

// commandLine is the part of the kernel's command line for every machine. A panic or an oops ends the machine at once. Features that slow
// down booting under emulation, and that no test needs, are off.
const commandLine = "panic=-1 oops=panic quiet loglevel=4 sysrq_always_enabled nokaslr mitigations=off audit=0 cryptomgr.notests " +
	"init_on_alloc=0 random.trust_cpu=on lsm=capability,bpf"

// lockdown follows commandLine: the kernel uses the last list of security modules.
const lockdown = " lsm=lockdown,capability,bpf lockdown=confidentiality"

var arches = []Arch{
	{
		Name: "amd64", QEMU: "qemu-system-x86_64", Package: "qemu-system-x86", CPUs: 1,
		Output:  "/dev/ttyS1",
		Status:  "/dev/ttyS2",
		Require: "root",
		// The kernel patches its own code to attach a trampoline. With a thread for each CPU, QEMU executes half-patched
		// code, and the guest panics. Debian's 6.1 has no built-in virtio, so the connections are serial lines.
		cpu: "max,la57=off,cx16=off",
		args: "-M q35 -accel tcg,thread=single " +
			"-serial chardev:console -serial chardev:output -serial chardev:status",
		// Without ACPI, only a triple fault resets the machine.
		commandLine: "console=ttyS0 reboot=t tsc=reliable no_timer_check",
	},
	{
		Name: "arm64", QEMU: "qemu-system-aarch64", Package: "qemu-system-arm", CPUs: 2,
		Output:  "/dev/vport0p1",
		Status:  "/dev/vport0p2",
		Require: "root,pmu,exact-pmu",
		// With -icount the PMU also counts instructions, one for each nanosecond of the guest's time. The time leaps to
		// the next timer when all CPUs are idle. So counts are reproducible, and sleeping takes no time.
		cpu: "max,pmu=on,pauth=off,sve=off",
		args: "-M virt,gic-version=3 -accel tcg -icount shift=0,sleep=off " +
			"-serial chardev:console -device virtio-serial-pci " +
			"-device virtserialport,nr=1,chardev=output -device virtserialport,nr=2,chardev=status",
		commandLine: "console=ttyAMA0",
	},
}

// FindArch returns the architecture with a name.
func FindArch(name string) (Arch, error) {
	for _, a := range arches {
		if a.Name == name {
			return a, nil
		}
	}
	return Arch{}, fmt.Errorf("no guests of architecture %q: there are amd64 and arm64", name)
}
