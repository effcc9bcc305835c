package cli

import (
	"cmp"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// pager is the user's program that shows long output, such as less.
type pager struct {
	cmd   *exec.Cmd
	input io.WriteCloser
}

// pagerCommand returns the shell command that shows output, or "" for none. As in perf, $PERF_PAGER precedes $PAGER, and cat is none.
func pagerCommand() string {
	command, given := os.LookupEnv("PERF_PAGER")
	if !given {
		command, given = os.LookupEnv("PAGER")
	}
	if !given {
		command = "less"
	}
	words := strings.Fields(command)
	if len(words) == 0 || command == "cat" || os.Getenv("TERM") == "dumb" {
		return ""
	}
	if _, err := exec.LookPath(words[0]); err != nil && !strings.ContainsAny(words[0], "=$'\"\\~") { // the shell knows what the others are
		return ""
	}
	return command
}

// startPager starts the user's pager, or returns nil if there is none.
func startPager(out *os.File) *pager {
	command := pagerCommand()
	if command == "" {
		return nil
	}
	cmd := exec.Command("/bin/sh", "-c", command)
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	cmd.Env = append(os.Environ(), "LESS="+cmp.Or(os.Getenv("LESS"), "FRSX"))
	input, err := cmd.StdinPipe()
	if err != nil || cmd.Start() != nil {
		return nil
	}
	// Ctrl-C is for the pager: if bperf ended, the shell would read the keys that are for the pager. What the pager has inherited does not
	// change any more. When the pager ends, writing fails.
	signal.Ignore(syscall.SIGINT, syscall.SIGQUIT)
	return &pager{cmd, input}
}

// end waits until the user has ended the pager.
func (p *pager) end() {
	p.input.Close()
	_ = p.cmd.Wait() // the status of bperf is its own
}

// pagedCommands are the commands that print a text and end.
var pagedCommands = commands("list", "report", "diff", "script", "annotate", "evlist", "buildid-list", "prog list", "prog show", "doctor")

// isPaged reports whether a terminal shows the output of a command with these arguments through the pager: text for people, but not what
// other programs read, and not what is printed bit by bit. Its flags must have been parsed.
func isPaged(root *cobra.Command, args []string) bool {
	cmd, _, err := root.Find(args)
	if err != nil {
		return false
	}
	given := func(name string) bool { return cmd.Flags().Changed(name) }
	if given("help") || cmd == root || args[0] == "help" || isTopic(cmd) {
		return true
	}
	if format := cmd.Flags().Lookup("format"); format != nil && format.Changed && format.Value.String() != "table" {
		return false
	}
	return pagedCommands(cmd) && !slices.ContainsFunc([]string{"json", "http", "on"}, given)
}
