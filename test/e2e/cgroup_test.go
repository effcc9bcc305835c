package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/bperf/bperf/test/program"
	"github.com/bperf/bperf/test/require"
)

func TestCgroupV1(t *testing.T) {
	root := require.CgroupV1(t)
	require.Tracefs(t)
	group := filepath.Join(root, "group")
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(group)
	const event = "syscalls:sys_enter_getppid"
	call := program.Program{Body: program.GetPPID, Times: 1000}.Write(t)
	out := run(t, "stat", "-x,", "-a", "-e", event, "--for-each-cgroup", "group,/", "sh", "-c", "$0; echo 0 >$1/cgroup.procs; exec $0", call, group)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 2 {
		t.Fatalf("printed:\n%s\nwant a line for each cgroup", out)
	}
	in, all := firstField(t, lines[0]), firstField(t, lines[1])
	if in != 1000 || all < 2000 || all > 2000+10 {
		t.Errorf("counted %v calls in the cgroup and %v in all, want 1000 and 2000 or the few more of a shell", in, all)
	}
}

func firstField(t *testing.T, line string) int {
	t.Helper()
	field, _, _ := strings.Cut(line, ",")
	n, err := strconv.Atoi(field)
	if err != nil {
		t.Fatalf("no count in %q", line)
	}
	return n
}
