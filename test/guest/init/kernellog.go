package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// Actions of syslog(2), from include/linux/syslog.h.
const (
	syslogActionReadAll = 3
	syslogActionClear   = 5
)

// kernelLines is the number of kernel messages that are shown. The OOM killer's verdict comes last, after its tables.
const kernelLines = 20

// forgetKernelLog clears the kernel's messages, so that writeKernelLog does not write them.
func forgetKernelLog() error {
	_, err := unix.Klogctl(syslogActionClear, nil)
	return err
}

// writeKernelLog writes the kernel's last messages since forgetKernelLog. They show why a command was killed.
func writeKernelLog(w io.Writer) {
	buffer := make([]byte, 64<<10)
	n, err := unix.Klogctl(syslogActionReadAll, buffer)
	if err != nil {
		fmt.Fprintln(w, "the kernel's messages cannot be read:", err)
		return
	}
	lines := lastLines(string(buffer[:n]))
	if len(lines) == 0 {
		fmt.Fprintln(w, "the kernel has no message of that time")
		return
	}
	fmt.Fprintln(w, "the kernel's last messages:")
	for _, line := range lines {
		fmt.Fprintln(w, "    "+line)
	}
}

// level matches the log level at the start of each line of syslog(2).
var level = regexp.MustCompile(`^<\d+>`)

// lastLines returns the last lines of a log without their levels.
func lastLines(log string) []string {
	log = strings.TrimSpace(log)
	if log == "" {
		return nil
	}
	lines := strings.Split(log, "\n")
	lines = lines[max(0, len(lines)-kernelLines):]
	for i, line := range lines {
		lines[i] = level.ReplaceAllString(line, "")
	}
	return lines
}
