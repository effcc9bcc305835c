package script

// Options say what is printed, and how.
type Options struct {
	Fields   *Selection
	JSON     bool
	NoChains bool     // only the instruction pointer
	Nanos    bool     // nine digits of a second, not six
	Relative bool     // times since the first sample
	Delta    bool     // times since the sample before
	Symbols  []string // only samples in one of these
	Type     string   // of what BPF programs wrote to user space: a structure in the BTF of the recording; empty for what maps say
	Records  Records
}

// Records says which records other than samples are printed.
type Records struct {
	Mmap, Task, BPF, Switch, Namespace, Cgroup, Lost, Round, TextPoke bool
}
