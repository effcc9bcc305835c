package budget

// Plan is what the daemon does at a level.
type Plan struct {
	Frequency uint64 // of the profile that is taken all the time, in samples per second and CPU; 0 if it samples nothing
	Events    int    // that are counted: the first ones of the configuration
	Inside    bool   // something is counted inside BPF programs
	Profile   bool   // the profile is taken
	Switches  bool   // something runs at context switches, which is what counts for containers
}

// leastFrequency is the lowest sampling frequency, in samples per second and CPU.
const leastFrequency = 2

// Ladder returns the plan of each level. The first one is all that the configuration asks for. From level to level the sampling frequency
// is halved, then counting inside BPF programs is given up, then the number of events is halved, down to one, and then the profile is given
// up. At last nothing runs at context switches any more. A profile that is not pushed is for the page only, so it is given up before the
// events, which others read.
func Ladder(all Plan, pushed bool) []Plan {
	plans := []Plan{all}
	p := all
	step := func() { plans = append(plans, p) }
	giveUpProfile := func() {
		if p.Profile {
			p.Profile, p.Frequency = false, 0
			step()
		}
	}
	for p.Profile && p.Frequency/2 >= leastFrequency {
		p.Frequency /= 2
		step()
	}
	if p.Inside {
		p.Inside = false
		step()
	}
	if !pushed {
		giveUpProfile()
	}
	for p.Events > 1 {
		p.Events /= 2
		step()
	}
	giveUpProfile()
	if p.Switches {
		p.Switches = false
		step()
	}
	return plans
}

// GivenUp is what a plan gives up, as shares (0 to 1) of what the configuration asks for.
type GivenUp struct {
	Frequency, Inside, Events, Stacks, Containers float64
}

// GivesUp returns what p gives up of all. Without the profile, all of the frequency is given up, too.
func (p Plan) GivesUp(all Plan) (g GivenUp) {
	if all.Frequency > 0 {
		g.Frequency = 1 - float64(p.Frequency)/float64(all.Frequency)
	}
	if all.Inside && !p.Inside {
		g.Inside = 1
	}
	if all.Events > 0 {
		g.Events = 1 - float64(p.Events)/float64(all.Events)
	}
	if all.Profile && !p.Profile {
		g.Stacks = 1
	}
	if all.Switches && !p.Switches {
		g.Containers = 1
	}
	return g
}

// Status is what the daemon takes and may take, and what it gives up for that. Nobody may change it.
type Status struct {
	Level     int
	All, Plan Plan   // what the configuration asks for, and what is done of it
	Why       string // the limits that were exceeded when the level last rose, and by what; "" at level 0

	// Shares (0 to 1) of the CPU time of the node in the last period: of the process, of its BPF programs, and of the processes of sessions.
	Process, Programs, Sessions Value

	Memory Value // in bytes, at the end of the last period
	Limits Limits
}

// CPU returns all CPU time together, as far as it is known. Without that of the process it is unknown.
func (s *Status) CPU() Value {
	all := s.Process
	all.Of += s.Programs.Of + s.Sessions.Of // 0 if unknown
	return all
}
