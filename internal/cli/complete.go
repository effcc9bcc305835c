package cli

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bperf/bperf/internal/bpfprog/disasm"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/report"
	"github.com/bperf/bperf/internal/sample"
	"github.com/bperf/bperf/internal/script"
)

// words returns what can stand in the place of a word that a shell completes, and whether a space follows it.
type words func(cmd *cobra.Command, word string) ([]cobra.Completion, cobra.ShellCompDirective)

// completes reports whether the arguments are a shell's request to complete the last one.
func completes(args []string) bool {
	return len(args) > 1 && slices.Contains([]string{cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}, args[0])
}

// completeValues makes the values of flags, and arguments, complete, if a shell completes a word. It registers nothing for other commands,
// because that takes time.
func completeValues(root *cobra.Command, args []string) {
	if !completes(args) {
		return
	}
	root.InitDefaultHelpCmd()
	cmd, _, err := root.Find(args[1 : len(args)-1])
	if err != nil {
		return
	}
	if commandPath(cmd) == "help" {
		completeTopics(cmd)
		return
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if _, known := cmd.GetFlagCompletionFunc(f.Name); known || isSwitch(f) {
			return
		}
		if err := cmd.RegisterFlagCompletionFunc(f.Name, flagWords(cmd, f).function()); err != nil {
			panic(err) // cannot happen: the flag exists and completes nothing yet
		}
	})
	if arguments := argumentWords(cmd); arguments != nil {
		cmd.ValidArgsFunction = arguments.function()
	}
}

// completeTopics adds the topics to the commands that bperf help completes.
func completeTopics(help *cobra.Command) {
	commands := help.ValidArgsFunction
	help.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		all, directive := commands(cmd, args, word)
		var topics []string
		for _, c := range cmd.Root().Commands() {
			if isTopic(c) && len(args) == 0 {
				topics = append(topics, c.Name()+"\t"+c.Short)
			}
		}
		return append(all, beginning("", word, topics)...), directive
	}
}

func (of words) function() cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return of(cmd, word)
	}
}

// bashLists replaces a function of cobra's script for bash, which escapes commas and braces, and then does not recognize the list that was
// typed. What bperf offers needs no escapes (isWord). NAME is the name of the program.
const bashLists = `
__NAME_handle_standard_completion_case() {
    local tab=$'\t' line longest=0
    for line in "${completions[@]}"; do
        [[ -n $line && ${line%%$tab*} == "$cur"* ]] || continue
        COMPREPLY+=("$line")
        line=${line%%$tab*}
        ((${#line} > longest)) && longest=${#line}
    done
    if ((${#COMPREPLY[@]} == 1)); then
        COMPREPLY[0]=${COMPREPLY[0]%%$tab*}
    else
        __NAME_format_comp_descriptions $longest
    fi
}
`

// completeListsInBash adds bashLists to what bperf completion bash prints.
func completeListsInBash(root *cobra.Command, args []string) {
	if len(args) < 2 || args[0] != "completion" {
		return
	}
	root.InitDefaultCompletionCmd(args...)
	bash, _, err := root.Find([]string{"completion", "bash"})
	if err != nil || bash.Name() != "bash" {
		return
	}
	script := bash.RunE
	bash.RunE = func(cmd *cobra.Command, args []string) error {
		if err := script(cmd, args); err != nil {
			return err
		}
		name := strings.NewReplacer("-", "_", ":", "_").Replace(root.Name())
		_, err := io.WriteString(cmd.OutOrStdout(), strings.ReplaceAll(bashLists, "NAME", name))
		return err
	}
}

// flagWords returns what completes the value of a flag. What it does not know by its name it knows by what the help calls its value.
func flagWords(cmd *cobra.Command, f *pflag.Flag) words {
	switch name := commandPath(cmd) + " --" + f.Name; name {
	case "report --event", "diff --event", "report --bpf-prog", "annotate --bpf-prog": // names in a recording
		return noWords
	case "report --sort", "diff --sort":
		return listOf(report.Keys)
	case "report --fields":
		return listOf(func() []string { return append(report.Keys(), report.Fields()...) })
	case "script --fields":
		return listOf(script.FieldNames)
	case "top --sort":
		return oneOf("cpu", "id", "name", "runs", "ns", "type", "switches", "ipc")
	case "profile --by":
		return listOf(sample.KeyNames)
	case "profile --format":
		return func(_ *cobra.Command, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return oneOf(formatNames(new(profileOptions).formats())...)(nil, word)
		}
	case "annotate --format":
		return oneOf("text", "json", "html")
	case "record --call-graph":
		return oneOf("fp", "dwarf", "lbr")
	}
	switch f.Name {
	case "event", "switch-output-event":
		return eventWords
	case "metrics":
		return metricWords
	case "cgroup", "for-each-cgroup":
		return cgroupWords
	case "bpf-prog":
		return selectorWords
	case "input", "diff":
		return recordingWords
	case "unit":
		return pmuWords
	case "map-format":
		return oneOf(mapFormats...)
	case "call-graph":
		return oneOf("graph", "fractal", "flat", "folded", "none", "caller", "callee", "percent", "period", "count")
	case "branch-filter":
		return listOf(event.BranchKinds)
	case "clockid":
		return oneOf("monotonic", "monotonic_raw", "realtime", "boottime", "tai")
	case "compat":
		return oneOf("6.1", "7.3")
	case "compute":
		return oneOf("delta-abs", "delta", "ratio", "wdiff:")
	case "disassembler-style":
		return oneOf(disasm.Styles...)
	case "percentage":
		return oneOf("relative", "absolute")
	case "percent-type":
		return oneOf("local-period", "local-hits", "global-period", "global-hits")
	case "synth":
		return listOf(func() []string { return []string{"task", "mmap", "cgroup", "all", "no"} })
	}
	switch value, _ := pflag.UnquoteUsage(f); value {
	case "FILE", "FILE.o", "PATH", "COMMAND":
		return anyFile
	case "DIR":
		return directory
	}
	return noWords
}

// argumentWords returns what completes the arguments of a command, or nil to complete them as cobra does.
func argumentWords(cmd *cobra.Command) words {
	switch commandPath(cmd) {
	case "prog list", "prog show", "prog stats", "prog watch", "top":
		return selectorWords
	case "report", "diff":
		return recordingWords
	case "stat": // a command, besides the subcommands that cobra adds
		return anyFile
	case "counters", "doctor", "version", "config", "evlist", "buildid-list", "script", "serve", "stat report", "annotate":
		return noWords
	}
	return nil
}

func noWords(*cobra.Command, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}

func anyFile(*cobra.Command, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

func directory(*cobra.Command, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// oneOf completes one of some values.
func oneOf(values ...string) words {
	return func(_ *cobra.Command, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return beginning("", word, values), cobra.ShellCompDirectiveNoFileComp
	}
}

// listOf completes the last item of a list with commas. An item can have a plus or minus sign, as in -F +srcline.
func listOf(values func() []string) words {
	return func(_ *cobra.Command, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		done, item := lastItem(word)
		if item != "" && strings.Contains("+-", item[:1]) {
			done, item = done+item[:1], item[1:]
		}
		return beginning(done, item, values()), inList
	}
}

// inList is for items of lists: a comma can follow.
const inList = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace

// lastItem divides a list with commas before its last item.
func lastItem(list string) (done, item string) {
	i := strings.LastIndexByte(list, ',') + 1
	return list[:i], list[i:]
}

// maxWords bounds what is offered: nobody reads more.
const maxWords = 5000

// beginning returns the values that begin with item, behind what is done of the word. A value can have a description behind a tab.
func beginning(done, item string, values []string) []cobra.Completion {
	var all []cobra.Completion
	seen := make(map[string]bool)
	for _, v := range values {
		name, text, _ := strings.Cut(v, "\t")
		if strings.HasPrefix(name, item) && isWord(name) && !seen[name] && len(all) < maxWords {
			seen[name] = true
			name = done + name
			if text != "" {
				name = cobra.CompletionWithDesc(name, printable.Text(text))
			}
			all = append(all, name)
		}
	}
	return all
}

// isWord reports whether a shell reads a name as it is: others have named files, cgroups and programs, and shells insert the beginning that
// several words have in common without quotes.
func isWord(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:@+=%", r))
	})
}
