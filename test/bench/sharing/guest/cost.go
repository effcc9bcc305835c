package main

import (
	"cmp"
	"fmt"
)

// fleets are the numbers of concurrent sessions that are measured.
var fleets = []int{1, 8, 32, 64}

// cost is the cost of a subject's sessions, and their outcome.
type cost struct {
	added float64 // instructions added to each round trip
	outcome
}

// measure measures the instructions that n sessions add to a round trip.
func (l *lab) measure(s subject, n int) (cost, error) {
	f, o, err := l.startFleet(s, n)
	if err != nil {
		return cost{}, err
	}
	var trip float64
	err = f.during(func() (err error) {
		trip, err = l.play()
		return err
	})
	f.end(&o)
	return cost{trip - l.bare, o}, err
}

// String returns a cell of the table.
func (c cost) String() string {
	if n := c.counting(); n < c.started {
		return fmt.Sprintf("%.0f (%d/%d)", c.added, n, c.started)
	}
	least, _ := c.running()
	return fmt.Sprintf("%.0f (%.0f %%)", c.added, least)
}

// costTable has the costs of each subject, in the order of fleets.
type costTable map[subject][]cost

func (t costTable) ofOne(s subject) cost { return t[s][0] }

func (t costTable) ofMost(s subject) cost { return t[s][len(t[s])-1] }

// measureCosts prints the table of the costs of sessions that count the system, one process of the pair, or a sleeping process.
func (l *lab) measureCosts() (costTable, error) {
	fmt.Printf("Cost: instructions added to a round trip of %.0f. In brackets the least share of the time that a session's counters\n"+
		"ran or, where not all sessions counted all events, how many did.\n", l.bare)
	table := costTable{}
	for _, ev := range []events{oneEvent, fourEvents} {
		fmt.Printf("\n-e %s\n%-26s", ev, "sessions:")
		for _, n := range fleets {
			fmt.Printf("%18d", n)
		}
		fmt.Println()
		for _, t := range []target{system, oneOfTwo, asleep} {
			for _, e := range []engine{direct, shared, upstream} {
				if err := l.measureRow(table, subject{t, e, ev}); err != nil {
					return nil, err
				}
			}
		}
	}
	fmt.Println()
	return table, nil
}

// measureRow measures and prints a subject's row.
func (l *lab) measureRow(table costTable, s subject) error {
	fmt.Printf("%-16s%-10s", s.target, s.engine)
	var failure error
	for _, n := range fleets {
		c, err := l.measure(s, n)
		if err != nil {
			return err
		}
		if c.failure != nil && (s.engine != upstream || n == 1) { // only upstream can have too many sessions
			return c.failure
		}
		table[s] = append(table[s], c)
		failure = cmp.Or(failure, c.failure)
		if s.target == asleep { // nothing to count: one session is enough
			fmt.Printf("%18.0f", c.added)
			break
		}
		fmt.Printf("%18s", c)
	}
	fmt.Println()
	if failure != nil {
		fmt.Println("  a session failed:", failure)
	}
	return nil
}
