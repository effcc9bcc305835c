package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/record"
	"github.com/bperf/bperf/internal/serve/remote"
	"github.com/bperf/bperf/internal/serve/tlsfiles"
	"github.com/bperf/bperf/internal/userfile"
)

// onFlags are the flags that make a command run on other nodes.
var onFlags = []string{"on", "on-file", "on-tls-ca", "on-cert", "on-key"}

// Limits of --on and --on-file.
const (
	maxNodes    = 100
	maxNodeFile = 64 << 10 // bytes
)

// addOn adds the flags that make a command run on other nodes.
func addOn(f *pflag.FlagSet) {
	f.StringSlice("on", nil, "run on these `NODES`, by their bperf serve: https://HOST:PORT, HOST, http://127.0.0.1:PORT, unix:PATH")
	f.String("on-file", "", "run on the nodes in this `FILE`, one a line")
	f.String("on-tls-ca", "", "with --on, trust certificates that those in this `FILE` sign")
	f.String("on-cert", "", "with --on, the client's certificate is in this `FILE`")
	f.String("on-key", "", "with --on, the key of the client's certificate is in this `FILE`")
	perfHasNo(f, onFlags...)
}

// onNodes makes the command that args begin with run on other nodes, if its flags say so. args are canonical.
func onNodes(root *cobra.Command, args []string) {
	cmd, _, err := root.Find(args)
	if err != nil || cmd.Flags().Lookup("on") == nil {
		return
	}
	here := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, rest []string) error {
		f := cmd.Flags()
		if f.Changed("on") || f.Changed("on-file") {
			return runOn(cmd, args, rest)
		}
		if i := slices.IndexFunc(onFlags, f.Changed); i >= 0 {
			return badCombinationf("--%s needs --on or --on-file", onFlags[i])
		}
		return here(cmd, rest)
	}
}

// runOn runs a command on nodes. rest are its arguments that are no flags.
func runOn(cmd *cobra.Command, args, rest []string) error {
	nodes, err := nodesOf(cmd.Flags())
	if err != nil {
		return badOption(err)
	}
	value := func(name string) string { return cmd.Flags().Lookup(name).Value.String() }
	config, err := (&tlsfiles.Client{CA: value("on-tls-ca"), Cert: value("on-cert"), Key: value("on-key")}).Config()
	if err != nil {
		return badOption(err)
	}
	request, err := requestOf(cmd, args, rest)
	if err != nil {
		return err
	}
	f := &fleet{cmd: cmd, request: request, tls: config, several: len(nodes) > 1}
	if f.several && fitsTable(cmd) {
		return f.table(nodes)
	}
	if f.several && cmd.Name() == "top" && value("json") == "false" {
		f.request.Args = append([]string{"--json"}, f.request.Args...)
		all := newNodesTop(cmd.OutOrStdout(), nodes, value("sort"))
		f.tops = make(map[*remote.Node]*nodeTop)
		for i, n := range nodes {
			f.tops[n] = all.nodes[i]
		}
	}
	return f.run(nodes)
}

// nodesOf returns the nodes of --on and --on-file.
func nodesOf(f *pflag.FlagSet) ([]*remote.Node, error) {
	addresses, err := f.GetStringSlice("on")
	if err != nil {
		return nil, err
	}
	if path := f.Lookup("on-file").Value.String(); path != "" {
		file, err := userfile.Read(path, maxNodeFile)
		if err != nil {
			return nil, fmt.Errorf("--on-file: %w", err)
		}
		for line := range strings.Lines(string(file.Data)) {
			line, _, _ = strings.Cut(line, "#")
			if line = strings.TrimSpace(line); line != "" {
				addresses = append(addresses, line)
			}
		}
	}
	if len(addresses) == 0 || len(addresses) > maxNodes {
		return nil, fmt.Errorf("--on: there are %d nodes: from 1 to %d are possible", len(addresses), maxNodes)
	}
	var nodes []*remote.Node
	for _, address := range addresses {
		n, err := remote.ParseNode(address)
		if err != nil {
			return nil, fmt.Errorf("--on: %w", err)
		}
		if slices.ContainsFunc(nodes, func(other *remote.Node) bool { return fileName(other) == fileName(n) }) {
			return nil, fmt.Errorf("--on: there are two nodes %s", n.Name)
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// fileName returns the name of a node as a part of a file's name.
func fileName(n *remote.Node) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '_'
	}, n.Name)
}

// requestOf returns what nodes are asked for: the arguments, without the flags that say what happens here.
func requestOf(cmd *cobra.Command, args, rest []string) (r remote.Request, err error) {
	path := strings.Fields(cmd.CommandPath())[1:]
	r.Command = strings.Join(path, " ")
	if len(rest) > 0 && slices.Contains([]string{"stat", "record", "profile"}, r.Command) {
		return r, badCombinationf("%s: a session on another node starts no command: use --timeout, or interrupt it", rest[0])
	}
	here := slices.Concat(onFlags, []string{"output", "append"})
	for _, arg := range args[len(path):] {
		if arg == "--" {
			break
		}
		name, _, _ := strings.Cut(arg, "=")
		if !isFlag(arg) || slices.Contains(here, strings.TrimPrefix(name, "--")) {
			continue
		}
		if flag := cmd.Flags().Lookup(strings.TrimPrefix(name, "--")); flag != nil {
			if interval, is := flag.Value.(intervalFlag); is { // nodes take only numbers
				arg = name + "=" + interval.String()
			}
		}
		r.Args = append(r.Args, arg)
	}
	if r.Command == "profile" {
		shown := reportFlags{json: cmd.Flags().Lookup("json").Value.String() == "true", format: cmd.Flags().Lookup("format").Value.String(), output: cmd.Flags().Lookup("output").Value.String()}
		format, err := shown.chosen(cmd, (&profileOptions{}).formats())
		if err != nil {
			return r, err
		}
		if format.name != shown.format {
			r.Args = append(r.Args, "--format="+format.name)
		}
	}
	r.Args = append(r.Args, rest...)
	return r, nil
}

// fleet runs a session on each of several nodes.
type fleet struct {
	cmd     *cobra.Command
	request remote.Request
	tls     *tls.Config
	several bool
	lines   sync.Mutex // of what is printed

	counts map[*remote.Node]*nodeCounts // for a table of stat; nil for none
	tops   map[*remote.Node]*nodeTop    // for tables of top; nil for none
}

// table runs stat on nodes, and prints their counts in a table.
func (f *fleet) table(nodes []*remote.Node) error {
	f.request.Args = append([]string{"--json-output"}, f.request.Args...)
	f.counts = make(map[*remote.Node]*nodeCounts)
	for _, n := range nodes {
		f.counts[n] = new(nodeCounts)
	}
	err := f.run(nodes)
	rows := make([][]nodeCount, len(nodes))
	for i, n := range nodes {
		var wrong error
		if rows[i], wrong = f.counts[n].rows(); wrong != nil {
			fmt.Fprintf(os.Stderr, "%s: Error: %v\n", printable.Text(n.Name), wrong)
			err = &exitError{Status: 1}
		}
	}
	if wrong := writeNodes(os.Stderr, nodes, rows); wrong != nil {
		return wrong
	}
	return err
}

// errInterrupted is the cause of a session that a second signal cut off.
var errInterrupted = errors.New("interrupted")

// run runs the sessions to their ends. The first signal ends them in order, the second cuts them off.
func (f *fleet) run(nodes []*remote.Node) error {
	ctx, cancel := context.WithCancelCause(f.cmd.Context())
	defer cancel(nil)
	stop := make(chan struct{})
	caught := make(chan os.Signal, 4)
	signal.Notify(caught, endSignals()...)
	defer signal.Stop(caught)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-caught:
			}
			if n > 0 {
				cancel(errInterrupted)
				return
			}
			close(stop)
		}
	}()
	statuses, errs := make([]int, len(nodes)), make([]error, len(nodes))
	var running sync.WaitGroup
	for i, n := range nodes {
		running.Go(func() { statuses[i], errs[i] = f.session(ctx, n, stop) })
	}
	running.Wait()
	if !f.several && errs[0] != nil {
		return errs[0]
	}
	for i, status := range statuses {
		if errs[i] != nil {
			status = 1 // and session has printed it
		}
		if status != 0 {
			return &exitError{Status: status}
		}
	}
	return nil
}

// session runs the session on one node and returns the exit status of bperf there.
func (f *fleet) session(ctx context.Context, n *remote.Node, stop <-chan struct{}) (int, error) {
	messages := &lineWriter{to: os.Stderr, lines: &f.lines}
	if f.several {
		messages.prefix = printable.Text(n.Name) + ": "
	}
	out, file := f.output(n, messages)
	end, err := n.Run(ctx, f.tls, f.request, stop, out, messages)
	if lines, ok := out.(*lineWriter); ok {
		lines.end()
	}
	if file != nil {
		err = errors.Join(err, file.close())
	}
	messages.end()
	if table := f.tops[n]; table != nil {
		err = errors.Join(err, table.end(err, end.Status))
	}
	if err != nil {
		if f.several {
			fmt.Fprintf(messages, "Error: %v\n", err)
		}
		return 1, fmt.Errorf("%s: %w", n.Name, err)
	}
	if end.Reason != "" {
		fmt.Fprintf(messages, "The session ended: %s\n", end.Reason)
	}
	return end.Status, nil
}

// output returns where the standard output of a session goes, which is a file with -o. The counts of stat go to standard error without.
func (f *fleet) output(n *remote.Node, messages *lineWriter) (io.Writer, *lazyFile) {
	if f.counts != nil {
		return f.counts[n], nil
	}
	if f.tops != nil {
		return f.tops[n], nil
	}
	name := ""
	if flag := f.cmd.Flags().Lookup("output"); flag != nil {
		name = flag.Value.String()
	}
	records := f.cmd.Name() == "record"
	if records {
		name = (&recordOptions{output: name}).outputName()
	}
	if records && name != "-" || !toStdout(name) {
		if f.several {
			name += "." + fileName(n)
		}
		file := &lazyFile{name: name, recording: records}
		if flag := f.cmd.Flags().Lookup("append"); flag != nil {
			file.append = flag.Changed
		}
		return file, file
	}
	to := f.cmd.OutOrStdout()
	if f.cmd.Name() == "stat" {
		to = os.Stderr
	}
	if !f.several && !onTerminal(to) {
		return to, nil // it may be binary
	}
	return &lineWriter{to: to, lines: &f.lines, prefix: messages.prefix}, nil
}

// maxLine is the most bytes of a line that a node may send to a terminal.
const maxLine = 64 << 10

// lineWriter writes whole lines with a prefix, without control characters: a node could send some that move the cursor. Several may write to
// one place.
type lineWriter struct {
	to     io.Writer
	lines  *sync.Mutex
	prefix string
	begun  []byte // a line without its end
}

func (w *lineWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		line, rest, ended := bytes.Cut(p, []byte("\n"))
		w.begun = append(w.begun, line...)
		if p = rest; ended || len(w.begun) > maxLine {
			if err := w.flush(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

func (w *lineWriter) flush() error {
	w.lines.Lock()
	defer w.lines.Unlock()
	_, err := io.WriteString(w.to, strings.TrimRight(w.prefix+printable.Lines(string(w.begun)), " ")+"\n")
	w.begun = w.begun[:0]
	return err
}

// end writes a line that has no end. The caller of Write has seen the errors of earlier ones.
func (w *lineWriter) end() {
	if len(w.begun) > 0 {
		w.flush()
	}
}

// lazyFile is a file that is made when the first bytes arrive: a session that a node refuses replaces no file.
type lazyFile struct {
	name              string
	recording, append bool
	file              *os.File
}

func (l *lazyFile) Write(p []byte) (int, error) {
	if l.file == nil {
		if err := l.open(); err != nil {
			return 0, err
		}
	}
	return l.file.Write(p)
}

func (l *lazyFile) open() (err error) {
	mode, perm := os.O_WRONLY|os.O_CREATE|os.O_TRUNC, os.FileMode(0o666)
	if l.append {
		mode = os.O_WRONLY | os.O_CREATE | os.O_APPEND
	}
	if l.recording {
		perm = 0o600
		if err := record.KeepOld(l.name); err != nil {
			return err
		}
	}
	l.file, err = os.OpenFile(l.name, mode, perm)
	return err
}

func (l *lazyFile) close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}
