package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// These annotations of commands and flags say how to read the arguments.
const (
	beforeCommand = "before-command" // of a command: what follows the first argument that is no flag is a command with its own arguments
	takesNextWord = "takes-next"     // of a flag with NoOptDefVal: its value may be the next word, as long as that is no flag
	onlyBperf     = "only-bperf"     // of a flag that perf does not have: what can also be the beginning of one of perf's means that
)

// readsCommand makes what follows the first argument that is no flag a command with its own arguments.
func readsCommand(cmd *cobra.Command) {
	cmd.Flags().SetInterspersed(false)
	cmd.Annotations = map[string]string{beforeCommand: "true"}
}

// optional gives a flag a value for when it is given without one.
func optional(flags *pflag.FlagSet, name, value string) { flags.Lookup(name).NoOptDefVal = value }

// optionalWord is optional for a flag whose value may also be the next word, as perf reads -g of report.
func optionalWord(flags *pflag.FlagSet, name, value string) {
	optional(flags, name, value)
	annotateFlag(flags, name, takesNextWord)
}

// perfHasNo says that perf does not have these flags, whose beginnings are also those of flags that perf has.
func perfHasNo(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		annotateFlag(flags, name, onlyBperf)
	}
}

func annotateFlag(flags *pflag.FlagSet, name, annotation string) {
	if err := flags.SetAnnotation(name, annotation, nil); err != nil {
		panic(err) // cannot happen: the flag exists
	}
}

// canonical returns the arguments with the flags of the subcommand as pflag reads them: --NAME or --NAME=VALUE. It knows all the ways to
// write flags that perf knows (tools/lib/subcmd/parse-options.c of Linux) and pflag does not: unique beginnings of names, --no-NAME for
// each switch, an optional value in the next word or right after a letter. What it does not know it leaves to pflag, which explains it.
func canonical(root *cobra.Command, args []string) ([]string, error) {
	if len(args) > 2 && completes(args) {
		last := len(args) - 1
		within, err := canonical(root, args[1:last])
		if n := len(within) - 1; n >= 0 && !isFlag(args[last]) && takesWord(root, within, args[last-1]) {
			return slices.Concat(args[:1], within[:n], []string{within[n] + "=" + args[last]}), err
		}
		return slices.Concat(args[:1], within, args[last:]), err
	}
	cmd, rest, err := root.Find(args)
	if err != nil || cmd.DisableFlagParsing {
		return args, nil // cobra finds the same error
	}
	cmd.InitDefaultHelpFlag()
	flags, out := cmd.Flags(), strings.Fields(cmd.CommandPath())[1:]
	if len(rest) > 0 && strings.HasPrefix(rest[0], "--"+buildIDDir+"=") && flags.Lookup(buildIDDir) == nil {
		rest = rest[1:] // from mainFlags, for a subcommand that needs no symbols
	}
	for len(rest) > 0 {
		arg := rest[0]
		var used int
		var read []string
		switch {
		case arg == "--", cmd.Annotations[beforeCommand] != "" && !isFlag(arg):
			sub := subcommand(cmd, arg)
			if sub == nil {
				return append(out, rest...), nil
			}
			cmd, flags = sub, sub.Flags()
			out = slices.Insert(out, 1, arg) // flags before it are its own
			used = 1
		case !isFlag(arg):
			used, read = 1, rest[:1]
		case strings.HasPrefix(arg, "--"):
			used, read, err = longFlag(flags, rest)
		default:
			used, read = letters(flags, rest)
		}
		if err != nil {
			return nil, badOptionf("%w\nSee %s --help", err, cmd.CommandPath())
		}
		out, rest = append(out, read...), rest[used:]
	}
	return out, nil
}

// takesWord reports whether the last of canonical arguments is a flag whose value may be the next word. written is that flag as the user
// wrote it.
func takesWord(root *cobra.Command, args []string, written string) bool {
	name, ok := strings.CutPrefix(args[len(args)-1], "--")
	cmd, _, err := root.Find(args)
	if !ok || err != nil || !isFlag(written) || strings.Contains(written, "=") {
		return false
	}
	f := cmd.Flags().Lookup(name)
	if f == nil {
		return false
	}
	_, next := f.Annotations[takesNextWord]
	return next
}

// subcommand returns the subcommand of a name, or nil.
func subcommand(cmd *cobra.Command, name string) *cobra.Command {
	for _, sub := range cmd.Commands() {
		if sub.Name() == name {
			return sub
		}
	}
	return nil
}

// isFlag reports whether an argument is one or more flags. A hyphen alone is a file: standard input.
func isFlag(arg string) bool { return len(arg) > 1 && arg[0] == '-' }

// longFlag reads the flag --NAME[=VALUE] at the beginning of args. It returns how many arguments it used.
func longFlag(flags *pflag.FlagSet, args []string) (used int, read []string, err error) {
	name, value, hasValue := strings.Cut(args[0][2:], "=")
	f, off, err := findFlag(flags, name)
	switch {
	case err != nil:
		return 0, nil, err
	case f == nil:
		return 1, args[:1], nil
	case off && hasValue:
		return 0, nil, fmt.Errorf("--%s takes no value", name)
	case off && !isSwitch(f): // what only perf does is off
		return 1, nil, nil
	case off:
		return 1, []string{"--" + f.Name + "=" + offValue(f)}, nil
	case hasValue:
		return 1, []string{"--" + f.Name + "=" + value}, nil
	}
	used, word := spelled(f, args)
	return used, []string{word}, nil
}

// letters reads one or more flags of one letter, such as -ag or -F99. It returns how many arguments it used.
func letters(flags *pflag.FlagSet, args []string) (used int, read []string) {
	for group := args[0][1:]; group != ""; {
		f := flags.ShorthandLookup(group[:1])
		if f == nil {
			return 1, append(read, "-"+group)
		}
		group = group[1:]
		value, explicit := group, false
		if len(group) > 1 { // not -x=, which sets the separator = as in perf
			value, explicit = strings.CutPrefix(group, "=")
		}
		switch {
		case group == "" && !isSwitch(f):
			used, word := spelled(f, args)
			return used, append(read, word)
		case isSwitch(f) && !explicit:
			read = append(read, "--"+f.Name)
		default:
			return 1, append(read, "--"+f.Name+"="+value)
		}
	}
	return 1, read
}

// spelled returns a flag without a value of its own in args[0], with the value in args[1] if it takes that.
func spelled(f *pflag.Flag, args []string) (used int, word string) {
	_, nextWord := f.Annotations[takesNextWord]
	takes := f.NoOptDefVal == "" || nextWord && len(args) > 1 && !isFlag(args[1])
	if !takes || len(args) == 1 {
		return 1, "--" + f.Name
	}
	return 2, "--" + f.Name + "=" + args[1]
}

// meaning is what a name can mean: a flag, or its opposite.
type meaning struct {
	name string
	flag *pflag.Flag
	off  bool
}

func (m meaning) isOnlyBperf() bool {
	_, only := m.flag.Annotations[onlyBperf]
	return only
}

// findFlag returns the flag that a name or the unique beginning of one means, and whether the name turns it off. It returns nil if there is
// none.
func findFlag(flags *pflag.FlagSet, name string) (f *pflag.Flag, off bool, err error) {
	if f := flags.Lookup(name); f != nil {
		return f, false, nil
	}
	var found []meaning
	consider := func(m meaning) {
		if strings.HasPrefix(m.name, name) {
			found = append(found, m)
		}
	}
	flags.VisitAll(func(f *pflag.Flag) {
		consider(meaning{f.Name, f, false})
		if _, perfs := f.Value.(*perfOption); !perfs && !isSwitch(f) {
			return
		}
		if positive, ok := strings.CutPrefix(f.Name, "no-"); ok {
			consider(meaning{positive, f, true})
		} else if strings.HasPrefix(name, "no-") {
			consider(meaning{"no-" + f.Name, f, true})
		}
	})
	if i := slices.IndexFunc(found, func(m meaning) bool { return m.name == name }); i >= 0 {
		found = found[i : i+1]
	}
	if perfs := slices.DeleteFunc(slices.Clone(found), meaning.isOnlyBperf); len(perfs) > 0 {
		found = perfs
	}
	switch len(found) {
	case 0:
		return nil, false, nil
	case 1:
		return found[0].flag, found[0].off, nil
	}
	var names []string
	for _, m := range found {
		names = append(names, "--"+m.name)
	}
	return nil, false, fmt.Errorf("--%s can mean %s", name, strings.Join(names, " or "))
}

// isSwitch reports whether a flag is on or off, or counts how often it is given.
func isSwitch(f *pflag.Flag) bool { return f.Value.Type() == "bool" || f.Value.Type() == "count" }

// offValue returns the value that turns a switch off.
func offValue(f *pflag.Flag) string {
	if f.Value.Type() == "count" {
		return "0"
	}
	return "false"
}

// mainFlags returns the arguments from the subcommand on, and whether long output may go through a pager. It reads the flags that perf knows
// before the subcommand. A directory of build IDs becomes a flag of the subcommand.
func mainFlags(args []string) (rest []string, paginates bool, err error) {
	var moved []string
	paginates = true
	for len(args) > 0 {
		name, value, hasValue := strings.Cut(args[0], "=")
		if (name == "--debug" || name == "--"+buildIDDir) && !hasValue {
			if len(args) == 1 {
				return nil, false, badOptionf("%s needs a value", name)
			}
			value, args = args[1], args[1:]
		}
		switch name {
		case "--no-pager":
			paginates = false
		case "--paginate", "-p": // what no pager shows is not for one
			paginates = true
		case "--debug": // bperf has no messages for its own developers
		case "--" + buildIDDir:
			moved = []string{"--" + buildIDDir + "=" + value}
		case "--version", "-v":
			args[0] = "version"
			return args, paginates, nil
		case "-vv":
			return slices.Concat([]string{"version", "--build-options"}, args[1:]), paginates, nil
		default:
			return slices.Concat(args[:1], moved, args[1:]), paginates, nil
		}
		args = args[1:]
	}
	return nil, paginates, nil
}

// percentFlag is a flag for a percentage, with or without a percent sign.
type percentFlag float64

func (p *percentFlag) Set(text string) error {
	v, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
	if err != nil || !(v >= 0 && v <= 100) {
		return fmt.Errorf("%q is no percentage from 0 to 100", text)
	}
	*p = percentFlag(v)
	return nil
}

func (p *percentFlag) String() string { return strconv.FormatFloat(float64(*p), 'g', -1, 64) }

func (p *percentFlag) Type() string { return "percent" }
