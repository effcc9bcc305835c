package cli

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bperf/bperf/internal/count/shared"
	"github.com/bperf/bperf/internal/count/shared/upstream"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/event/eventfile"
)

// fact is an exit status, an environment variable or a file, and what it means to some commands.
type fact struct {
	name, meaning string
	of            commandSet
}

// commandSet reports whether a fact is about a command.
type commandSet func(cmd *cobra.Command) bool

// facts are lines of manual pages. Most follow from the flags that a command has.
type facts struct{ statuses, variables, files []fact }

// of returns the facts about a command.
func (f facts) of(cmd *cobra.Command) facts {
	about := func(all []fact) []fact {
		return slices.DeleteFunc(all, func(one fact) bool { return !one.of(cmd) })
	}
	return facts{about(f.statuses), about(f.variables), about(f.files)}
}

// allFacts returns the facts about all commands. Only the manual pages need them, so they are no variable: nothing is made at start-up.
func allFacts() facts { return facts{exitStatuses(), environment(), files()} }

func everywhere(*cobra.Command) bool { return true }

// commands returns the set of commands with these paths, without the name of the program.
func commands(paths ...string) commandSet {
	return func(cmd *cobra.Command) bool { return slices.Contains(paths, commandPath(cmd)) }
}

// commandPath returns the words of a command after the name of the program; empty for the root.
func commandPath(cmd *cobra.Command) string {
	_, path, _ := strings.Cut(cmd.CommandPath(), " ")
	return path
}

// withFlag returns the set of commands that have one of these flags.
func withFlag(names ...string) commandSet {
	return func(cmd *cobra.Command) bool {
		return slices.ContainsFunc(names, func(name string) bool { return cmd.Flags().Lookup(name) != nil })
	}
}

func (a commandSet) or(b commandSet) commandSet {
	return func(cmd *cobra.Command) bool { return a(cmd) || b(cmd) }
}

func runsCommand(cmd *cobra.Command) bool { return cmd.Annotations[beforeCommand] != "" }

func readsSymbols(cmd *cobra.Command) bool { return withFlag(buildIDDir)(cmd) }

func readsConfig(cmd *cobra.Command) bool {
	return commands("stat", "stat record", "record", "report", "config")(cmd)
}

// ofPrograms reports whether a command's argument selects BPF programs.
func ofPrograms(cmd *cobra.Command) bool {
	return commands("prog list", "prog show", "prog stats", "prog watch", "top")(cmd)
}

// exitStatuses returns what commands end with.
func exitStatuses() []fact {
	status := strconv.Itoa
	return []fact{
		{"0", "The command did what it was asked to do.", everywhere},
		{"of the command", "A COMMAND was run, and has ended by itself.", commands("stat", "stat record", "record", "profile")},
		{"128 + N", "Signal N ended the COMMAND.", commands("stat", "stat record")},
		{"1", "Nothing could be counted, or the COMMAND could not be run.", commands("stat", "stat record")},
		{"1", "Nothing can be counted at all on this machine.", commands("doctor")},
		{"1", "A pattern matches no event. bperf prints what the other arguments match.", commands("list")},
		{"1", "bperf cannot see what is loaded or what runs, or an item of the selector selects nothing.", ofPrograms},
		{"1", "Any other failure.", func(cmd *cobra.Command) bool { return !failsLikePerf(cmd) }},
		{status(statusBadCombination), "Options conflict, or a value is out of range.", everywhere},
		{status(statusBadCombination), "The target does not exist.", commands("stat", "stat record")},
		{status(statusBadOption), "bperf cannot parse an option, or an event, filter or selector in it.", everywhere},
		{status(statusNoEvent), "The recording has no event of the name that --switch-on or --switch-off gives.", withFlag("switch-on")},
		{status(statusFailed), "The COMMAND could not be executed, or the kernel refuses a filter.", commands("profile")},
		{status(statusFailed), "Any other failure.", failsLikePerf},
		{"of the node", "With --on: the status of bperf on the node; of several nodes, the first that is not 0.", withFlag("on")},
	}
}

// environment returns the variables that bperf reads. TestManEnvironment finds those that the list lacks.
func environment() []fact {
	debuginfod := commandSet(readsSymbols)
	vendor := withFlag("event-files").or(commands("serve", "stat report"))
	return []fact{
		{compatVariable, "The default of --compat.", withFlag("compat")},
		{eventfile.Variable, "The default of --event-files.", withFlag("event-files")},
		{"BROWSER", "The browser that --http opens (default xdg-open).", withFlag("http")},
		{"CACHE_DIRECTORY", "The directory for what was fetched from debuginfod, unless $DEBUGINFOD_CACHE_PATH is set. systemd sets it.", commands("serve")},
		{"DEBUGINFOD_CACHE_PATH", "The directory for what was fetched (default $XDG_CACHE_HOME/debuginfod_client).", debuginfod},
		{"DEBUGINFOD_HEADERS_FILE", "A file with headers of requests, one on a line.", debuginfod},
		{"DEBUGINFOD_MAXSIZE", "The largest file to fetch, in bytes.", debuginfod},
		{"DEBUGINFOD_MAXTIME", "The most time for a whole file, in seconds.", debuginfod},
		{"DEBUGINFOD_TIMEOUT", "How long to wait for a server that sends nothing, in seconds.", debuginfod},
		{"DEBUGINFOD_URLS", "The debuginfod servers to ask for what is not on this machine. Without it bperf contacts none.", debuginfod},
		{"DISPLAY, WAYLAND_DISPLAY", "The screen. Without it --http opens no browser.", withFlag("http")},
		{"GOGC", "How much memory bperf may use before it looks for free memory, as of all programs in Go. Without it bperf " +
			"chooses a value.", withFlag("input").or(commands("diff", "top"))},
		{"HOME", "The directory of ~ in FILES.", everywhere},
		{"HTTP_PROXY, HTTPS_PROXY, NO_PROXY", "Proxies for requests, as in curl(1).", debuginfod.or(commands("serve"))},
		{"LD_LIBRARY_PATH", "Where to look for a shared library that a program of --prog attaches to.", withFlag("prog")},
		{"LESS", "Options of less(1), the default pager (default FRSX).", pagedCommands},
		{"NO_COLOR", "If it is not empty, bperf prints no colours.", commands("stat", "stat record", "stat report", "top")},
		{"PATH", "Where to look for the COMMAND.", runsCommand},
		{"PERF_PAGER, PAGER", "The shell command that shows long output on a terminal, as the user who runs bperf: the first that is set (default less). " +
			"Empty or cat: none; so does bperf --no-pager.", pagedCommands},
		{"PERF_CONFIG", "The only file of perf's configuration to read.", readsConfig},
		{event.CPUVariable, "The CPU whose events are known, in place of this machine's, such as GenuineIntel-6-8E-A.", vendor},
		{"SUDO_UID, DOAS_USER, PKEXEC_UID", "On whose behalf root runs bperf: --http opens no browser of root's.", withFlag("http")},
		{"TERM", "\"dumb\" makes bperf print tables instead of a screen, and start no pager.", pagedCommands.or(commands("top"))},
		{"XDG_RUNTIME_DIR", "The directory for the file that leads a browser to --http.", withFlag("http")},
		{"XDG_CACHE_HOME", "The directory for caches (default ~/.cache).", vendor.or(readsSymbols)},
	}
}

// files returns the files that bperf reads and writes without being asked to.
func files() []fact {
	writes := commands("record", "stat record")
	reads := withFlag("input")
	return []fact{
		{"perf.data", "The recording that is written without -o.", writes},
		{"perf.data", "The recording that is read without -i.", reads},
		{"perf.data.old, perf.data", "The recordings that are compared without arguments.", commands("diff")},
		{"/etc/perfconfig, ~/.perfconfig", "perf's configuration; see bperf-config(1).", readsConfig},
		{"~/.debug", "The default of --buildid-dir: the cache of perf buildid-cache.", readsSymbols},
		{"/usr/lib/debug", "Debugging information of distributions.", readsSymbols},
		{"/tmp/perf-PID.map", "Names of the functions that a JIT compiler has made in the process PID.", readsSymbols},
		{"~/.cache/bperf", "The running kernel's symbols, kept for the next run.", readsSymbols},
		{"~/.cache/pmu-events", "Event files, unless --event-files or $" + eventfile.Variable + " names another directory.", withFlag("event-files")},
		{"/sys/bus/event_source/devices", "The PMUs of this machine: their events and terms.", withFlag("event-files").or(commands("serve"))},
		{"/sys/kernel/tracing", "Where tracefs has the tracepoints.", withFlag("event-files").or(commands("serve"))},
		{shared.Dir, "What the sessions of --bpf-counters share.", withFlag("bpf-counters").or(commands("counters"))},
		{upstream.DefaultPath, "The map through which bperf shares counters with perf.", withFlag("bpf-counters").or(commands("counters"))},
	}
}

// seeAlso returns the manual pages that the one of a command refers to.
func seeAlso(cmd *cobra.Command) []string {
	var pages []string
	add := func(of bool, names ...string) {
		if of {
			pages = append(pages, names...)
		}
	}
	for up := cmd.Parent(); up != nil; up = up.Parent() {
		add(true, pageName(up))
	}
	for _, sub := range cmd.Commands() {
		add(hasPage(sub), pageName(sub))
	}
	add(true, map[string][]string{
		"stat":        {"bperf-list(1)", "bperf-counters(1)"},
		"record":      {"bperf-report(1)", "bperf-script(1)", "bperf-annotate(1)", "bperf-profile(1)", "bperf-list(1)"},
		"profile":     {"bperf-record(1)", "bperf-report(1)", "bperf-list(1)"},
		"report":      {"bperf-record(1)", "bperf-annotate(1)", "bperf-diff(1)", "bperf-script(1)"},
		"diff":        {"bperf-record(1)", "bperf-report(1)"},
		"script":      {"bperf-record(1)", "bperf-report(1)"},
		"annotate":    {"bperf-record(1)", "bperf-report(1)"},
		"evlist":      {"bperf-record(1)", "bperf-buildid-list(1)"},
		"counters":    {"bperf-stat(1)"},
		"list":        {"bperf-stat(1)", "bperf-record(1)"},
		"top":         {"bperf-stat(1)", "bperf-profile(1)", "bperf-prog-stats(1)"},
		"events":      {"bperf-list(1)", "bperf-stat(1)", "bperf-record(1)", "perf_event_open(2)"},
		"selectors":   {"bperf-prog(1)", "bperf-stat(1)", "bperf-record(1)", "bperf-top(1)"},
		"formats":     {"bperf-stat(1)", "bperf-report(1)", "bperf-script(1)", "bperf-prog(1)"},
		"prog list":   {"bperf-prog-show(1)", "bperf-top(1)"},
		"prog show":   {"bperf-prog-list(1)", "bperf-annotate(1)"},
		"prog stats":  {"bperf-top(1)", "bperf-prog-list(1)"},
		"prog watch":  {"bperf-prog-list(1)"},
		"doctor":      {"bperf-list(1)"},
		"stat record": {"bperf-stat-report(1)"},
		"stat report": {"bperf-stat-record(1)"},
	}[commandPath(cmd)]...)
	add(withFlag("event-files")(cmd), "bperf-events(7)")
	add(withFlag("bpf-prog", "pid")(cmd) || ofPrograms(cmd), "bperf-selectors(7)")
	add(withFlag("json", "json-output", "format")(cmd), "bperf-formats(7)")
	add(withFlag("event-files")(cmd) || commandPath(cmd) == "serve", "perf_event_open(2)")
	add(readsSymbols(cmd), "debuginfod-client-config(7)")
	slices.SortFunc(pages, func(a, b string) int { return cmp.Compare(pageSection(a)+a, pageSection(b)+b) })
	return slices.Compact(pages)
}

// pageSection returns the section of a page such as bperf(1), with its parentheses.
func pageSection(page string) string { return page[strings.IndexByte(page, '('):] }
