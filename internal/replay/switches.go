package replay

import "github.com/bperf/bperf/perfdata"

// Switches select the samples between two events, by their names. An empty name switches nothing.
type Switches struct {
	On   string // drop samples up to one of this event
	Off  string // drop samples from one of this event on, up to the next one of On
	Show bool   // keep the samples that switch
}

// keeps reports whether a sample of an event is kept. on is the state, which is false at the start if Switches has On.
func (s *Switches) keeps(e *perfdata.Event, on *bool) bool {
	name := ""
	if e != nil {
		name = e.Name
	}
	switch {
	case !*on && s.On != "" && name == s.On:
		*on = true
		return s.Show
	case *on && s.Off != "" && name == s.Off:
		*on = false
		return s.Show
	}
	return *on
}
