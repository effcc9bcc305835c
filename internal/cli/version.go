package cli

import (
	_ "embed"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// version is set by the linker (see Makefile). If it is empty, bperf uses the module version that Go recorded.
var version = ""

// sourceText identifies the commit in source that git archive wrote, such as that of a forge's tarballs, which go without .git. It has what
// git describe prints (empty before the first tag), the commit, and its time: gitattributes(5), export-subst. Elsewhere it has placeholders.
//
//go:embed source.txt
var sourceText string

// perfsLibraries are the features that perf names in version --build-options. Most are libraries. Those are on whose work bperf does itself.
var perfsLibraries = []struct {
	name string
	on   bool
}{
	{"aio", false}, {"bpf", true}, {"bpf_skeletons", true}, {"debuginfod", true}, {"dwarf", true}, {"dwarf_getlocations", true}, {"dwarf-unwind", true},
	{"libbfd", false}, {"babeltrace2-ctf-writer", false}, {"libbpf-strings", true}, {"libcapstone", true}, {"libdw-dwarf-unwind", true}, {"libelf", true},
	{"libLLVM", false}, {"libnuma", false}, {"libopencsd", false}, {"libperl", false}, {"libpfm4", false}, {"libpython", false}, {"libslang", false},
	{"libtraceevent", true}, {"libunwind", false}, {"lzma", true}, {"numa_num_possible_cpus", false}, {"zlib", true}, {"zstd", true},
}

func newVersionCommand() *cobra.Command {
	var options bool
	cmd := &cobra.Command{
		Use:   "version [flags]",
		Short: "Print the version of bperf, of Go, and the architecture",
		Example: `  bperf version
  bperf version --build-options`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var b strings.Builder
			fmt.Fprintf(&b, "bperf version %s %s %s/%s\n", currentVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			if options {
				writeLibraries(&b)
			}
			_, err := fmt.Fprint(cmd.OutOrStdout(), b.String())
			return err
		},
	}
	cmd.Flags().BoolVar(&options, "build-options", false, "also print which of perf's libraries bperf replaces")
	return cmd
}

func writeLibraries(b *strings.Builder) {
	for _, l := range perfsLibraries {
		state := "OFF"
		if l.on {
			state = "on "
		}
		fmt.Fprintf(b, "%22s: [ %s ]\n", l.name, state)
	}
}

func currentVersion() string {
	if version != "" {
		return version
	}
	info, _ := debug.ReadBuildInfo()
	return versionFrom(info, sourceText)
}

// versionFrom returns the version that Go recorded: of `go install …@version`, or of the commit in a checkout. Without one, it returns that
// of the source. info may be nil.
func versionFrom(info *debug.BuildInfo, source string) string {
	recorded := "unknown"
	if info != nil && info.Main.Version != "" {
		recorded = info.Main.Version
	}
	if recorded != "unknown" && recorded != "(devel)" {
		return recorded
	}
	for line := range strings.Lines(source) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "$") {
			return line
		}
	}
	return recorded
}
