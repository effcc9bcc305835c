// Package tracedata parses the formats of tracepoints, and prints the records of tracepoints accordingly.
//
// A format is a file of tracefs, events/SYSTEM/NAME/format: https://docs.kernel.org/trace/events.html. A recording of perf contains the
// formats of its tracepoints in the feature TRACING_DATA, which is the header of a trace.dat file, version 6:
// https://www.trace-cmd.org/Documentation/trace-cmd/trace-cmd.dat.v6.5.html.
package tracedata
