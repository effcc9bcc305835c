package report

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/require"
)

// TestTracepointFields names fields of a recording with sched:sched_switch and syscalls:sys_enter_close.
func TestTracepointFields(t *testing.T) {
	require.NoKernel(t)
	for _, tt := range []struct {
		sort string
		raw  bool
		want string // names of the columns, or the error
	}{
		{"", false, "overhead trace"},
		{"", true, "overhead sched:sched_switch.prev_comm/raw sched:sched_switch.prev_pid/raw sched:sched_switch.prev_prio/raw " +
			"sched:sched_switch.prev_state/raw sched:sched_switch.next_comm/raw sched:sched_switch.next_pid/raw sched:sched_switch.next_prio/raw " +
			"syscalls:sys_enter_close.__syscall_nr/raw syscalls:sys_enter_close.fd/raw"},
		{"+cpu", false, "overhead trace cpu"},
		{"fd,comm", false, "overhead syscalls:sys_enter_close.fd comm"},
		{"fd,fd/raw,close.fd", false, "overhead syscalls:sys_enter_close.fd syscalls:sys_enter_close.fd/raw"},
		{"syscalls:sys_enter_close.*", false, "overhead syscalls:sys_enter_close.__syscall_nr syscalls:sys_enter_close.fd"},
		{"%2.fd", false, "overhead syscalls:sys_enter_close.fd"},
		{"common_pid", false, "overhead sched:sched_switch.common_pid syscalls:sys_enter_close.common_pid"},
		{"fd/hex", false, `sort key "fd/hex": a field has only the option raw`},
		{"s.fd", false, `sort key "s.fd": the event "s" can be sched:sched_switch or syscalls:sys_enter_close`},
		{"%3.fd", false, `sort key "%3.fd": there is none of this name`},
		{"syscalls:sys_enter.fd", false, `sort key "syscalls:sys_enter.fd": there is none of this name`},
		{"%1.fd", false, `sort key "%1.fd": there is none of this name`},
		{"typeoff", false, `sort key "typeoff": bperf does not look for types of data`},
	} {
		r, err := perfdata.Open(filepath.Join("..", "..", "perfdata", "testdata", "tracepoint.data"))
		if err != nil {
			t.Fatal(err)
		}
		o := Options{RawTrace: tt.raw}
		if err := o.ReadTracepoints(r); err != nil {
			t.Fatal(err)
		}
		var names []string
		err = o.SetSort(strings.FieldsFunc(tt.sort, func(r rune) bool { return r == ',' }), nil)
		if err == nil {
			var columns []*column
			columns, err = o.columns()
			for _, c := range columns {
				names = append(names, c.name)
			}
		}
		got := strings.Join(names, " ")
		if err != nil {
			got, _, _ = strings.Cut(err.Error(), ";")
		}
		if got != tt.want {
			t.Errorf("-s %q: %s\nwant %s", tt.sort, got, tt.want)
		}
		if err := o.CheckEarly(); err != nil && tt.sort != "typeoff" {
			t.Errorf("-s %q, before the recording is known: %v", tt.sort, err)
		}
		r.Close()
	}
}
