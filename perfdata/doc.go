// Package perfdata reads and writes recordings in the perf.data format, as files and as pipes. It decodes records, events and
// features; it does not resolve symbols.
//
// A recording is a sequence of records. Most records are samples. The other records are what a reader needs to interpret the samples, for
// example the files that a process has mapped. Each sample belongs to an event. An event has the attributes that it was opened with.
// Features describe the recording and the machine.
//
// A [Reader] returns the records of a file or a pipe in the order of time. Its memory use does not grow with the recording.
// A [Writer] writes files and pipes that perf can read. Both support the records of the kernel (enum perf_event_type in
// include/uapi/linux/perf_event.h), the records of perf itself, and the features of a file. Unknown records and features stay undecoded.
// A Reader reads both byte orders; a Writer writes little-endian.
//
// The package is at v0: its API may change, and CHANGELOG.md lists each change.
//
// The kernel's source documents the format in include/uapi/linux/perf_event.h and in
// tools/perf/Documentation/perf.data-file-format.txt.
package perfdata
