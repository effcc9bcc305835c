// Init is the first process of a guest. It sets up the machine, runs the commands of the guest's job, reports the exit status and ends the
// machine. Apart from the commands there is no other process.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bperf/bperf/test/guest/job"
)

func main() {
	if err := work(); err != nil {
		fmt.Fprintln(os.Stderr, "init:", err) // to the console, which the runner shows if it gets no status
	}
	// The runner's QEMU exits instead of rebooting (-no-reboot).
	unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
}

func work() error {
	if err := mountAll(); err != nil {
		return err
	}
	j, err := read()
	if err != nil {
		return err
	}
	output, err := openPort(j.Output)
	if err != nil {
		return err
	}
	status, err := openPort(j.Status)
	if err != nil {
		return err
	}
	if err := prepare(); err != nil {
		return err
	}
	if err := startNetwork(j.Modules); err != nil {
		return err
	}
	for name, value := range j.Env {
		os.Setenv(name, value)
	}
	exit := runAll(j, output)
	if err := output.Close(); err != nil {
		return err
	}
	if err := (job.Status{Exit: exit}).Write(status); err != nil {
		return err
	}
	return status.Close()
}

func read() (*job.Job, error) {
	b, err := os.ReadFile(job.File)
	if err != nil {
		return nil, err
	}
	var j job.Job
	return &j, json.Unmarshal(b, &j)
}

func runAll(j *job.Job, output *port) (exit int) {
	for _, c := range j.Commands {
		start := time.Now()
		if err := forgetKernelLog(); err != nil {
			fmt.Fprintln(output, "the kernel's messages of before cannot be cleared:", err)
		}
		status, err := run(c, output)
		code := status.ExitStatus()
		switch {
		case err != nil:
			fmt.Fprintf(output, "%s: %v\n", c.Args[0], err)
			code = 127
		case status.Signaled():
			fmt.Fprintf(output, "%s was ended by a signal (%v)\n", c.Args[0], status.Signal())
			writeKernelLog(output)
			code = 128 + int(status.Signal())
		}
		if c.Package != "" {
			result := "ok  "
			if code != 0 {
				result = "FAIL"
			}
			fmt.Fprintf(output, "%s\t%s\t%.3fs\t[%s]\n", result, c.Package, time.Since(start).Seconds(), os.Getenv("BPERF_GUEST"))
		}
		if code != 0 {
			exit = code
		}
	}
	return exit
}
