// Package perfdata reads and writes perf.data: the files and pipes in which perf keeps what it recorded. It knows records,
// events and features, and nothing of symbols.
//
// A recording is a sequence of records: samples, and what readers need to understand them, such as which file a process has mapped where. Each
// sample is of an event, which has the attributes it was opened with. Features describe the recording and the machine.
//
// A [Reader] returns the records of a file or a pipe in the order of time, with memory that does not grow with the file.
// A [Writer] makes files and pipes that perf reads. Both know the records of the kernel (enum perf_event_type in
// include/uapi/linux/perf_event.h), those of perf itself, and the features of a file. What they do not know is kept undecoded.
// Files of both byte orders are read; those written are little-endian.
//
// The package is at v0: its API may change, and CHANGELOG.md lists each change.
//
// The format is that of include/uapi/linux/perf_event.h and of
// tools/perf/Documentation/perf.data-file-format.txt in the kernel's source.
package perfdata
