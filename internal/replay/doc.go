// Package replay follows a recording in the order of time and knows, at each record, the state of the machine that was recorded: its
// threads with their names, what was mapped where, the code in the kernel, BPF programs with it. With that it resolves the addresses
// of samples.
//
// State is followed by one goroutine. What is to be done with samples, which is most of the work, is done by several at a time, with
// views of the state that do not change; their output is put together in the order of the records.
package replay
