package profile

// Keys is a set of what samples are told apart by, besides event and stack.
type Keys uint16

// The keys. Each one more makes more samples of the same recording; with Time, each is one of its own.
const (
	Comm    Keys = 1 << iota
	PID          // the process
	TID          // the thread
	CPU          // the CPU that it was taken on
	Cgroup       // the path of the control group
	Time         // when it was taken
	Address      // the address in the function, of each frame
	Line         // the source file and line, of each frame
	Other        // the tags
)

// Has tells whether all of the given keys are in the set.
func (k Keys) Has(keys Keys) bool { return k&keys == keys }
