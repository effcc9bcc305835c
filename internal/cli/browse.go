package cli

import (
	"cmp"
	"errors"
	"fmt"
	"html"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bperf/bperf/internal/annotate"
	"github.com/bperf/bperf/internal/browse"
	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/internal/report"
	"github.com/bperf/bperf/perfdata"
)

// addHTTP adds the flag --http.
func addHTTP(flags *pflag.FlagSet, addr *string) {
	flags.StringVar(addr, "http", "", "serve pages for a browser on this machine, at loopback `ADDRESS` HOST:PORT, until interrupted")
	optional(flags, "http", browse.DefaultAddress)
	perfHasNo(flags, "http")
}

// checkHTTP checks --http beside flags for output.
func (f *reportFlags) checkHTTP(given func(string) bool) error {
	if f.http == "" {
		return nil
	}
	if err := browse.CheckAddress(f.http); err != nil {
		return badOptionf("--http: %w", err)
	}
	return firstError(
		badCombinationIf(given("format") || f.json || f.output != "", "--http serves pages: it cannot be combined with --format and -o"),
		badCombinationIf(f.headerOnly || f.dump || f.tasks || f.mmaps || f.stats || f.threads || f.totalCycles || f.Memory || f.branchStack,
			"--http shows samples by function: it cannot be combined with options that print something else"))
}

// browseRecording serves a recording.
func (f *reportFlags) browseRecording(cmd *cobra.Command, recording *perfdata.Reader) error {
	options, err := f.options(cmd, hasCallchains(recording), false, nil)
	if err != nil {
		return err
	}
	keys, err := options.NeededKeys()
	if err != nil {
		return badOption(err)
	}
	f.input.maxSamples = browse.MaxSamples
	r, err := f.input.replay(recording, keys|browse.Keys)
	if err != nil {
		return err
	}
	defer r.Close()
	p, err := r.Profile(keys | browse.Keys)
	if err != nil {
		return err
	}
	printLosses(cmd.ErrOrStderr(), r.Stats())
	options.CutCallees(p)
	base, err := f.readBase(cmd, options, keys|profile.Comm)
	if err != nil {
		return err
	}
	o := f.input.symbolFlags.options()
	code := annotate.NewCode(r, recording, &annotate.Options{Mangled: o.Mangled, SymFS: o.SymFS, BuildIDs: o.BuildIDs, Allowance: o.Allowance,
		Debuginfod: o.Debuginfod})
	return f.serve(cmd, browse.Config{Profile: p, Name: cmp.Or(f.input.path, "perf.data"), Options: options, Base: base, BaseName: f.base,
		Code: func(module profile.ModuleID, symbol replay.Symbol, event annotate.Event, at map[uint64]annotate.Value) (*annotate.Function, error) {
			dso := r.DSO(module)
			if dso == nil {
				return nil, errors.New("the recording does not say which file this function is in")
			}
			return code.Function(dso, symbol, event, at)
		}})
}

// readBase reads the file of --diff. Without it, readBase returns nil.
func (f *reportFlags) readBase(cmd *cobra.Command, options *report.Options, keys profile.Keys) (*profile.Profile, error) {
	if f.base == "" {
		return nil, nil
	}
	base, err := f.input.readFile(cmd, f.base, keys)
	if err != nil {
		return nil, err
	}
	options.CutCallees(base)
	return base, nil
}

// serve serves a profile until a signal, or until nobody reads the output.
func (f *reportFlags) serve(cmd *cobra.Command, c browse.Config) error {
	pages, err := browse.New(c)
	if err != nil {
		return err
	}
	server, err := browse.Listen(f.http, pages)
	if err != nil {
		return fmt.Errorf("--http: %w", err)
	}
	out := cmd.OutOrStdout()
	ctx, stop := untilEnd(cmd.Context(), out)
	defer stop()
	if _, err := fmt.Fprintln(out, server.URL()); err != nil {
		return ended(err)
	}
	fmt.Fprintln(cmd.ErrOrStderr(), "Open this address in a browser on this machine. Ctrl-C ends it.")
	remove := openBrowser(cmd.ErrOrStderr(), server.URL())
	defer remove()
	return server.Serve(ctx)
}

// openBrowser opens an address in the user's browser if there is a screen. As root on behalf of another user it does not: the browser would
// be root's. remove deletes the file that leads to the address: other users could read the address in the arguments of the browser.
func openBrowser(notes io.Writer, address string) (remove func()) {
	none := func() {}
	forOther := os.Geteuid() == 0 && (os.Getenv("SUDO_UID") != "" || os.Getenv("DOAS_USER") != "" || os.Getenv("PKEXEC_UID") != "")
	if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" || forOther {
		return none
	}
	program, _, _ := strings.Cut(os.Getenv("BROWSER"), ":")
	path, err := exec.LookPath(cmp.Or(program, "xdg-open"))
	if err != nil {
		return none
	}
	file, err := os.CreateTemp(os.Getenv("XDG_RUNTIME_DIR"), "bperf-*.html") // with permissions for its owner only
	if err != nil {
		return none
	}
	remove = func() { os.Remove(file.Name()) }
	_, err = fmt.Fprintf(file, `<!DOCTYPE html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=%s"><title>bperf</title>`, html.EscapeString(address))
	if err := errors.Join(err, file.Close()); err != nil {
		fmt.Fprintln(notes, "Warning: open the browser:", err)
		return remove
	}
	browser := exec.Command(path, file.Name())
	if err := browser.Start(); err != nil {
		fmt.Fprintln(notes, "Warning: open the browser:", err)
		return remove
	}
	go func() { _ = browser.Wait() }() // a browser that fails says so itself
	return remove
}
