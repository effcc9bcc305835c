package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// addTopics adds texts that bperf help shows and that belong to no single command.
func addTopics(root *cobra.Command) {
	for _, t := range []struct{ name, short, text string }{
		{"events", "How to name events", eventsTopic},
		{"selectors", "How to choose BPF programs, processes, CPUs and cgroups", selectorsTopic},
		{"formats", "What commands write, for people and for programs", formatsTopic},
	} {
		root.AddCommand(&cobra.Command{Use: t.name, Short: t.short, Long: strings.TrimSpace(t.text)})
	}
}

// isTopic reports whether a command is only a text.
func isTopic(cmd *cobra.Command) bool { return cmd.IsAdditionalHelpTopicCommand() && cmd.HasParent() }

const eventsTopic = `
-e takes a list of events with commas, in the syntax of perf. bperf list shows
those of this machine.

    bperf stat -e cycles,instructions:u -- make
    bperf stat -e '{cycles,instructions}:u,task-clock' -- make
    bperf record -a -e 'sched:sched_sw*' sleep 1

An event is one of these:

    hardware, software, cache   cycles, page-faults, LLC-load-misses
    measured by bperf           duration_time, user_time, system_time
    of a PMU                    power/energy-pkg/, cpu/event=0x3c,umask=1/
    of the CPU's vendor         l2_rqsts.miss
    tracepoint                  sched:sched_switch, syscalls:sys_enter_*
    breakpoint                  mem:ADDRESS[/LENGTH][:rwx]
    raw, by number              r1a8, 4:0x1a8

Quote events with asterisks or braces: shells read those, too.

Modifiers stand behind a colon, or behind the last slash, and add up:

    u k h   count in user mode, in the kernel, in the hypervisor only
    G H     count in guests only, on the host only
    I       do not count while idle
    p pp    precise sampling
    D e     pinned; exclusive
    S W     read the group with each sample; weak group
    b       share the counter with other sessions (bperf counters)

Braces make a group: its events are counted at the same time or not at all.
Without a modifier bperf counts all modes.

Terms of a PMU are in /sys/bus/event_source/devices/PMU/format. Any event takes
name=NAME; samples can differ by event: cycles/call-graph=dwarf,period=1000000/.

All kinds, terms and modifiers: docs/events.md.
`

const selectorsTopic = `
BPF programs. prog, top, stat -b and profile -b take a list with commas. A
program is selected if an item selects it:

    17                 the program with this ID
    all                every program
    name:GLOB          a name, with *, ? and [a-z]
    tag:HEX            the hash of its instructions
    pinned:PATH        pinned there, or the program of the link pinned there
    type:NAME          of a type, such as xdp or tracing
    map:ID, map:NAME   those that use the map
    link:ID            the program of the link
    cgroup:PATH        attached to this cgroup
    pid:PID            held by this process

    bperf prog list type:xdp,name:'cil_*'
    bperf stat -b name:on_switch -e cycles,instructions sleep 10

stat --bpf-func GLOB counts the functions of these programs separately.
report --bpf-prog and annotate --bpf-prog select programs in a recording, by
name or ID.

Targets. Without one, stat, record and profile measure the COMMAND and its
children; without a command, the whole system.

    -a                        the whole system
    -C 0-3,8                  these CPUs
    -p 4711,4712              these processes with their threads and children
    -t 4713                   these threads
    -u USER                   the processes of a user (record)
    -G CGROUP                 a cgroup, of the events before it; with -a or -C
    --for-each-cgroup LIST    every event for each cgroup, or for those that a
                              regular expression matches (stat)

With a target, a COMMAND only says how long to measure. A cgroup is a path
below the mount point of cgroup2, such as system.slice/cron.service.

Samples in a recording: report and script have --comms, --dsos, --symbols,
--pid, --tid, --cpu and --time. record and profile --filter drop samples in the
kernel: docs/record.md.

More: docs/prog.md, docs/stat.md.
`

const formatsTopic = `
For programs, choose one of these formats. They do not change with the terminal;
control characters in names of others are replaced.

    command         option           formats
    stat            -x SEP, -j       CSV; JSON, an object per line, as perf's
    record          -o FILE          perf.data; -o - writes it to a pipe
    report          --format NAME    table, json (-j), csv, folded, pprof,
                                     flamegraph, html, speedscope, firefox
    profile         --format NAME    those of report, and tree
    annotate        --format NAME    text, json (-j), html
    diff            -j               text as perf's; JSON
    script          -j               text as perf script; an object per line
    list            -j               text; a JSON array, as perf's
    prog list       -j               text; JSON
    prog show       -j               text; JSON
    prog stats      --format NAME    csv, json (-j, a line each), openmetrics
    prog watch      -j               text; JSON, a line each
    counters        -j               text; JSON
    doctor          -j               text; JSON
    evlist,
    buildid-list    -                text as perf's

report and profile also choose the format by the ending of -o FILE: .html, .svg,
.pb.gz, .json, .csv or .folded.

JSON. stat, list and script print perf's, or lines of one kind. The JSON of all
other commands is in one envelope, whose schema says what data is:

    {"schema": "bperf.doctor/1", "bperf": "v1.0.0", "kernel": "6.12.57",
     "time": "2026-11-28T06:28:11Z", "data": …}

Lines have only schema, time and data.

Units. In JSON, keys that end in _ns are nanoseconds and those that begin with
bytes_ are bytes; shares of CPUs (cpus, cpu_share) are numbers, where 1 is one
CPU or all of the time; times are RFC 3339. On the command line, times take a
unit (500ms, 1s); what a bare number means is in the help of the option.

Keys of JSON are in docs/json.md, those of stat in docs/output.md. Columns are
in the page of each command in docs/.
`
