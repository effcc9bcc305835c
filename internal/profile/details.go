package profile

// Details are what the hardware recorded of a sample, or of one branch of a sample. Fields that are no keys of the profile are 0.
type Details struct {
	Weight             uint64 // cost of the sample, often cycles
	InstructionLatency uint32 // cycles
	RetireLatency      uint32 // cycles
	DataSource         uint64 // union perf_mem_data_src
	DataAddress        uint64
	Data               FrameID // what is at DataAddress
	DataOffset         uint64  // of DataAddress in the object; 0 if none is known
	PhysAddress        uint64  // of the data
	CodePage, DataPage uint64  // bytes
	Transaction        uint64  // PERF_TXN_…

	CgroupDevice, CgroupInode uint64 // of the file in nsfs that stands for the thread's cgroup namespace; 0 if unknown

	Mispredicted, InTX, Abort bool // of a branch
	Cycles                    uint16

	Previous FrameID // of a branch: the target of the branch before; 0 if that is unknown or no target of all branches
	Timed    bool    // of a branch: the newest branch of its stack has cycles

	Trace StringID // what a tracepoint recorded, in the form that the report's keys need
}

// Detail returns the number of details. It first clears the fields that are no keys of the profile.
func (p *Profile) Detail(d Details) DetailsID {
	if !p.keep.Has(Weight) {
		d.Weight, d.InstructionLatency, d.RetireLatency = 0, 0, 0
	}
	if !p.keep.Has(DataSource) {
		d.DataSource = 0
	}
	if !p.keep.Has(DataAddress) {
		d.DataAddress, d.Data, d.DataOffset = 0, 0, 0
	}
	if !p.keep.Has(PhysAddress) {
		d.PhysAddress = 0
	}
	if !p.keep.Has(PageSize) {
		d.CodePage, d.DataPage = 0, 0
	}
	if !p.keep.Has(Transaction) {
		d.Transaction = 0
	}
	if !p.keep.Has(Block) {
		d.Previous, d.Timed = 0, false
	}
	if !p.keep.Has(Trace) {
		d.Trace = 0
	}
	if !p.keep.Has(CgroupID) {
		d.CgroupDevice, d.CgroupInode = 0, 0
	}
	if !p.keep.Has(Branch) {
		d.Mispredicted, d.InTX, d.Abort, d.Cycles = false, false, false, 0
	}
	return p.details.ID(d)
}

// Details returns the details with a number. They belong to the profile.
func (p *Profile) Details(id DetailsID) *Details {
	if id == 0 {
		return &noDetails
	}
	return &p.details.All()[id]
}

var noDetails Details
