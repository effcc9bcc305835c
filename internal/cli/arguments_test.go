package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestCanonical(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		// unique beginnings of names
		{"report --no-child --stdio", "report --children=false --stdio"},
		{"report --comm x --percent-l=5", "report --comms=x --percent-limit=5"},
		{"record --all-cpu --ev cycles", "record --all-cpus --event=cycles"},
		{"record --no-build", "error: --no-build can mean --no-buildid-mmap or --no-buildid or --no-buildid-cache or --no-buildid-all"},
		{"report --sort", "report --sort"}, // pflag says that the value is missing
		{"report --nope", "report --nope"},
		// --no- and its opposite
		{"report --no-inline --no-group", "report --inline=false --group=false"},
		{"record --inherit --bpf-event", "record --no-inherit=false --no-bpf-event=false"},
		{"stat --no-scale --no-detailed", "stat --scale=false --detailed=0"},
		{"report --no-sort", "report --no-sort"},        // that is no switch
		{"script --no-itrace -i x", "script --input=x"}, // only perf has that option, and here it is off
		{"report --no-inline=x", "error: --no-inline takes no value"},
		// letters
		{"record -ag -F99 -e cycles", "record --all-cpus --g --freq=99 --event=cycles"},
		{"record -z3 -agz", "record --compression-level=3 --all-cpus --g --compression-level"},
		{"stat -ddd -x=,", "stat --detailed --detailed --detailed --field-separator=,"},
		{"stat -x= -x,", "stat --field-separator== --field-separator=,"},
		{"stat -D -1", "stat --delay=-1"},
		{"record -aZ", "record --all-cpus -Z"},
		// optional values
		{"report -g", "report --call-graph"},
		{"report -g --stdio", "report --call-graph --stdio"},
		{"report -g caller", "report --call-graph=caller"},
		{"report --call-graph caller -G", "report --call-graph=caller --inverted"},
		{"report -gcaller", "report --call-graph=caller"},
		{"record --off-cpu ls -a", "record --off-cpu ls -a"},
		// a command's own arguments
		{"stat -a ls --al -a", "stat --all-cpus ls --al -a"},
		{"stat -a -- ls --al", "stat --all-cpus -- ls --al"},
		{"record -o - sleep -1", "record --output=- sleep -1"},
		{"annotate main --stdio -", "annotate main --stdio -"},
		{"report -- --stdio", "report -- --stdio"},
		{"prog list --js", "prog list --json"},
		// a flag from before the subcommand
		{"record --buildid-dir=/x -a", "record --all-cpus"},
		{"report --buildid-dir=/x", "report --buildid-dir=/x"},
		// completion
		{"__complete report --no-child --comm x --so", "__complete report --children=false --comms=x --so"},
		{"__complete stat -e ", "__complete stat --event "},
	} {
		args := strings.Split(tt.args, " ")
		got, err := canonical(newRootCommand("bperf", args), args)
		text := strings.Join(got, " ")
		if err != nil {
			text = "error: " + strings.Split(err.Error(), "\n")[0]
		}
		if text != tt.want {
			t.Errorf("%q: %q, want %q", tt.args, text, tt.want)
		}
	}
}

func TestMainFlags(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"--no-pager --debug verbose report -i x", "report -i x"},
		{"-p --debug=verbose report --debug", "report --debug"},
		{"--buildid-dir /x report --stdio", "report --buildid-dir=/x --stdio"},
		{"--buildid-dir=/x report", "report --buildid-dir=/x"},
		{"--version", "version"},
		{"-v", "version"},
		{"-vv", "version --build-options"},
		{"--help", "--help"},
		{"stat -v", "stat -v"},
	} {
		got, paginates, err := mainFlags(strings.Fields(tt.args))
		if err != nil || !slices.Equal(got, strings.Fields(tt.want)) || paginates == strings.Contains(tt.args, "--no-pager") {
			t.Errorf("%q: %q, with a pager: %v, %v", tt.args, got, paginates, err)
		}
	}
	for _, args := range []string{"--debug", "--no-pager --buildid-dir"} {
		if got, _, err := mainFlags(strings.Fields(args)); err == nil {
			t.Errorf("%q: %q", args, got)
		}
	}
}

// TestOpposites checks that no command has both the flags --NAME and --no-NAME. Else the beginning --no-N would mean two flags.
func TestOpposites(t *testing.T) {
	negative := 0
	for _, cmd := range newRootCommand("bperf", nil).Commands() {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			positive, ok := strings.CutPrefix(f.Name, "no-")
			if !ok {
				return
			}
			negative++
			if cmd.Flags().Lookup(positive) != nil {
				t.Errorf("%s has both --%s and --%s", cmd.Name(), positive, f.Name)
			}
		})
	}
	if negative < 5 {
		t.Errorf("%d flags begin with no-", negative)
	}
}
