package profile

// Keys is a set of sample properties. They distinguish samples in addition to the event and the stack.
type Keys uint32

// The keys. Each additional key splits the same recording into more samples; with Time, every sample stays separate.
const (
	Comm        Keys = 1 << iota
	PID              // the process
	TID              // the thread
	CPU              // the CPU that the sample was taken on
	Cgroup           // the path of the control group
	Time             // when the sample was taken
	Address          // the address in the function, of each frame
	Line             // the source file and line, of each frame
	Other            // the tags
	IP               // the instruction pointer in memory, of each frame
	Weight           // the fields of Details: weight and latencies
	DataSource       // where in the memory hierarchy the data was
	DataAddress      // the address of the data, and the object there
	PhysAddress      // the physical address of the data
	PageSize         // the sizes of the pages
	Transaction      // what ended a hardware transaction
	CgroupID         // the cgroup namespace
	Branch           // the flags of a branch
	Trace            // what a tracepoint recorded
	Block            // the branch before a branch
)

// Has reports whether all of the given keys are in the set.
func (k Keys) Has(keys Keys) bool { return k&keys == keys }
