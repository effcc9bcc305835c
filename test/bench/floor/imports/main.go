// Imports imports all packages of bperf: what the runtime of Go and the initialization of packages take of each command.
//
//	imports                 does nothing else, as `version`
//	imports COMMAND...      runs a command with cpu-clock open for it, and reads the event once, as `stat -e cpu-clock`
package main

import (
	"fmt"
	"os"
	"os/exec"

	_ "github.com/bperf/bperf/internal/cli"
	"github.com/bperf/bperf/internal/perfevent"
	"github.com/bperf/bperf/perfdata"
)

func main() {
	if len(os.Args) == 1 {
		return
	}
	if err := count(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "imports:", err)
		os.Exit(1)
	}
}

func count(command []string) error {
	attr := perfdata.Attr{Type: perfdata.TypeSoftware, Config: perfdata.SoftwareCPUClock, ReadFormat: perfevent.ReadFormatTimes,
		Flags: perfdata.AttrDisabled | perfdata.AttrInherit | perfdata.AttrEnableOnExec}
	event, err := perfevent.Open(&attr, perfevent.Where{Thread: os.Getpid(), CPU: perfevent.AnyCPU})
	if err != nil {
		return err
	}
	defer event.Close()
	if err := exec.Command(command[0], command[1:]...).Run(); err != nil {
		return err
	}
	reading, err := event.Read()
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, reading)
	return nil
}
