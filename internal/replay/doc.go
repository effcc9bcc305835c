// Package replay follows a recording in the order of time. At each record it knows the state of the recorded machine: its threads with
// their names, the mappings of processes, and the code in the kernel, including BPF programs. With this state it resolves the addresses of
// samples.
//
// A DSO is the file, or other source, of a mapping. A location is an address in a DSO with its symbol and source lines. An item is a record
// with the state of the machine at its time; handlers process items. A sum is a number of equal samples that the producer added up, and an
// interval is a span of time with its own profile of sums.
//
// One goroutine follows the state. Several goroutines run handlers, which do most of the work, with views of the state that do not change.
// Replay writes their output in the order of the records.
package replay
