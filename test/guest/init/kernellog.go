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

// kernelLines is how many messages of the kernel are shown: the verdict of the OOM killer comes last, behind its tables.
const kernelLines = 20

// forgetKernelLog makes the messages so far no part of what writeKernelLog reads.
func forgetKernelLog() error {
	_, err := unix.Klogctl(syslogActionClear, nil)
	return err
}

// writeKernelLog writes the last messages of the kernel since forgetKernelLog. They say why a command was killed.
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

// level begins each line that syslog(2) returns.
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
