package cli

import (
	"cmp"
	"debug/elf"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/record/snapshot"
	"github.com/bperf/bperf/internal/report"
	"github.com/bperf/bperf/internal/symbol/object"
	"github.com/bperf/bperf/perfdata"
)

// buildIDListFlags are the flags of bperf buildid-list.
type buildIDListFlags struct {
	recordingFlags
	hits, kernel, maps bool
}

func newBuildIDListCommand() *cobra.Command {
	var f buildIDListFlags
	cmd := &cobra.Command{
		Use:   "buildid-list [flags]",
		Short: "List the build IDs of a recording, an ELF file or the kernel",
		Long: `buildid-list prints the build IDs of the files that a recording has samples in, as perf buildid-list does. With -i FILE, where FILE is
an ELF file, it prints the build ID of that file.`,
		Example: `  bperf buildid-list
  bperf buildid-list -H -i other.data
  bperf buildid-list -i /bin/ls
  bperf buildid-list -k`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	f.addInput(flags)
	flags.BoolVarP(&f.hits, "with-hits", "H", false, "list only files that samples hit, also those without a build ID")
	flags.BoolVarP(&f.kernel, "kernel", "k", false, "print the build ID of the running kernel")
	flags.BoolVarP(&f.maps, "kernel-maps", "m", false, "print build ID, start and end address, and file of the running kernel and of its modules")
	addPerfOptions(flags, recordingPerfOptions, buildIDListPerfOptions)
	return cmd
}

func (f *buildIDListFlags) run(cmd *cobra.Command) error {
	out := cmd.OutOrStdout()
	switch {
	case f.kernel:
		id, err := snapshot.KernelBuildID()
		if err != nil {
			return fmt.Errorf("read the build ID of the kernel: %w", err)
		}
		return printBuildID(out, "the kernel", id)
	case f.maps:
		return printKernelMaps(out)
	case f.path != "" && regularFile(f.path, isELF):
		id, err := object.Search{}.BuildID(f.path)
		if err != nil {
			return fmt.Errorf("read the build ID of %s: %w", f.path, err)
		}
		return printBuildID(out, f.path, id)
	}
	r, err := f.open(cmd.InOrStdin())
	if err != nil {
		return err
	}
	defer r.Close()
	if !f.hits {
		all, there, err := report.HeaderBuildIDs(r)
		if there {
			return cmp.Or(report.WriteBuildIDs(out, all), err)
		}
	}
	all, stats, err := report.HitBuildIDs(r)
	printLosses(cmd.ErrOrStderr(), stats)
	return cmp.Or(report.WriteBuildIDs(out, all), err)
}

// isELF reports whether a file begins like an ELF file.
func isELF(file io.ReaderAt) bool { return beginsWith(file, elf.ELFMAG) }

// printBuildID prints the build ID of a file, or returns an error if it has none.
func printBuildID(out io.Writer, file string, id []byte) error {
	if len(id) == 0 {
		return fmt.Errorf("%s has no build ID: link it with --build-id", file)
	}
	_, err := fmt.Fprintf(out, "%x\n", id)
	return err
}

// printKernelMaps prints the address ranges of the running kernel and its modules, with their build IDs as far as they have one.
func printKernelMaps(out io.Writer) error {
	release, err := kernelRelease()
	if err != nil {
		return err
	}
	return snapshot.New("/proc", func(_ perfdata.Misc, v perfdata.Value) error {
		m := v.(*perfdata.Mmap)
		name, id := m.Filename, []byte(nil)
		if strings.HasPrefix(name, snapshot.KernelName) {
			name = snapshot.KernelName // without the symbol
			id, _ = snapshot.KernelBuildID()
		} else {
			id, _ = snapshot.ModuleBuildID(name)
		}
		_, err := fmt.Fprintf(out, "%-40x %16x %16x %s\n", id, m.Start, m.Start+m.Length, printable.Text(name))
		return err
	}).Kernel(release)
}
