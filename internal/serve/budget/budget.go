// Package budget decides what the daemon gives up to keep its cost within limits. It measures nothing and has no clock: the daemon hands
// it a measurement for each period.
package budget

// Limits are the most that the daemon may take.
type Limits struct {
	CPU    float64 // share (0 to 1) of the time of all CPUs of the node; 0 for no limit
	Memory uint64  // in bytes; 0 for no limit
}

// Value is a measured value, or none.
type Value struct {
	Of    float64
	Known bool // false if it could not be measured
}

// Known returns a measured value.
func Known(of float64) Value { return Value{of, true} }

// Measurement is the cost of the daemon in a period.
type Measurement struct {
	CPU     Value // share (0 to 1) of the time of all CPUs of the node
	Memory  Value // in bytes
	Pending bool  // the level of the last period has not taken effect yet, so the cost is that of another level
}

// When the level changes. Between the budget and these shares of it, nothing changes. Half the sampling frequency costs at least half. So what
// is taken up again may exceed the budget. Then it is given up again, and longer and longer pauses follow.
const (
	underCPU    = 0.75 // share of the budget below which something is taken up again
	underMemory = 0.9  // higher, because most memory does not depend on the level

	periodsOver  = 2   // in a row before something is given up: one alone may be a start or a scrape
	leastPause   = 6   // periods in a row under the budget before something is taken up again
	mostPause    = 384 // the same, if that has failed again and again
	periodsTrial = 30  // after which what was taken up again is kept: a failure after that is the node's load, and not the level
)

// Controller keeps a budget. Level 0 gives up nothing, and each level more than the one below.
type Controller struct {
	limits Limits
	most   int // the last level

	lastForCPU  bool
	level       int
	over, under int // periods in a row
	pause       int // periods under the budget until something is taken up again
	trial       int // periods left of the trial of what was taken up again; 0 for none
}

// New returns a controller at level 0. most is the last level.
func New(limits Limits, most int) *Controller {
	return &Controller{limits: limits, most: most, pause: leastPause}
}

// LastForCPU says that the last level gives up what takes CPU time and hardly any memory: memory alone does not lead there.
func (c *Controller) LastForCPU() { c.lastForCPU = true }

// Level returns the present level.
func (c *Controller) Level() int { return c.level }

// Next takes the measurement of a period, and returns the level of the next one. The level changes by at most one.
//
// A value that is missing gives no reason to give up anything, and none to take up anything.
func (c *Controller) Next(m Measurement) int {
	if m.Pending {
		c.over, c.under = 0, 0
		return c.level
	}
	over, under := c.judge(&m)
	switch {
	case over:
		c.over, c.under = c.over+1, 0
	case under:
		c.over, c.under = 0, c.under+1
	default:
		c.over, c.under = 0, 0
	}
	c.rest(over)
	switch {
	case c.over >= periodsOver && c.level < c.mostFor(&m):
		c.giveUp()
	case c.under >= c.pause && c.level > 0:
		c.level--
		c.under, c.trial = 0, periodsTrial
	}
	return c.level
}

// mostFor returns the last level that a measurement may lead to.
func (c *Controller) mostFor(m *Measurement) int {
	if c.lastForCPU && (c.limits.CPU <= 0 || m.CPU.Of <= c.limits.CPU) {
		return c.most - 1
	}
	return c.most
}

// judge reports whether a limit is exceeded, and whether all limits are kept by so much that something can be taken up again.
func (c *Controller) judge(m *Measurement) (over, under bool) {
	under = true
	for _, of := range []struct {
		value        Value
		limit, under float64
	}{
		{m.CPU, c.limits.CPU, underCPU},
		{m.Memory, float64(c.limits.Memory), underMemory},
	} {
		if of.limit <= 0 {
			continue
		}
		over = over || of.value.Known && of.value.Of > of.limit
		under = under && of.value.Known && of.value.Of < of.under*of.limit
	}
	return over, under
}

// rest goes on with a trial, and ends it with success unless the budget is exceeded.
func (c *Controller) rest(over bool) {
	if c.trial == 0 || over {
		return
	}
	if c.trial--; c.trial == 0 {
		c.pause = leastPause
	}
}

// giveUp goes to the next level. If the one before was on trial, it has failed.
func (c *Controller) giveUp() {
	c.level++
	c.over = 0
	if c.trial > 0 {
		c.pause, c.trial = min(2*c.pause, mostPause), 0
	}
}
