package machine

import "fmt"

// Arch is what differs between the machines of two architectures.
type Arch struct {
	Name    string // as Go and Debian call it
	QEMU    string // program
	Package string // of Debian, that has it
	CPUs    int    // number that works best

	// Devices of the guest behind which the runner listens.
	Output string
	Status string

	// Require lists for test/require what these guests have: tests that need it fail where it is not found.
	Require string

	args        string // of QEMU
	commandLine string // of the kernel
}

// commandLine is the kernel's on every machine. A panic, and an oops too, ends the machine at once; what makes booting
// slow under emulation and is not looked at by any test is off.
const commandLine = "panic=-1 oops=panic quiet loglevel=4 nokaslr mitigations=off audit=0 cryptomgr.notests " +
	"init_on_alloc=0 random.trust_cpu=on lsm=capability,bpf"

// lockdown goes behind commandLine: the kernel takes the last list of security modules.
const lockdown = " lsm=lockdown,capability,bpf lockdown=confidentiality"

var arches = []Arch{
	{
		Name: "amd64", QEMU: "qemu-system-x86_64", Package: "qemu-system-x86", CPUs: 1,
		Output:  "/dev/ttyS1",
		Status:  "/dev/ttyS2",
		Require: "root",
		// The kernel patches its own code when a trampoline is attached: with a thread for each CPU, QEMU shows that
		// half done, and the guest panics. Debian's 6.1 has no virtio built in, so that lines are serial ones.
		args: "-M q35 -accel tcg,thread=single -cpu max,la57=off,cx16=off " +
			"-serial chardev:console -serial chardev:output -serial chardev:status",
		// Without ACPI's help, a triple fault is the reset that works.
		commandLine: "console=ttyS0 reboot=t tsc=reliable no_timer_check",
	},
	{
		Name: "arm64", QEMU: "qemu-system-aarch64", Package: "qemu-system-arm", CPUs: 2,
		Output:  "/dev/vport0p1",
		Status:  "/dev/vport0p2",
		Require: "root,pmu,exact-pmu",
		// With -icount the PMU counts instructions too, one for each nanosecond of the guest's time, which leaps to
		// the next timer when all CPUs are idle: counts repeat, and sleeping takes no time.
		args: "-M virt,gic-version=3 -cpu max,pmu=on,pauth=off,sve=off -accel tcg -icount shift=0,sleep=off " +
			"-serial chardev:console -device virtio-serial-pci " +
			"-device virtserialport,nr=1,chardev=output -device virtserialport,nr=2,chardev=status",
		commandLine: "console=ttyAMA0",
	},
}

// FindArch finds an architecture by its name.
func FindArch(name string) (Arch, error) {
	for _, a := range arches {
		if a.Name == name {
			return a, nil
		}
	}
	return Arch{}, fmt.Errorf("no guests of architecture %q: there are amd64 and arm64", name)
}
