package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// counts are the counts of a session, a row for each event.
type counts []row

// row is a session's count of an event.
type row struct {
	event   string
	count   float64
	running float64 // percentage of the time that the event was on a counter
	counted bool    // false if `stat` printed "<not counted>" instead of a number
}

// parseCounts parses the output of `stat -x,`: value, unit, event, time running, percentage, and other fields.
func parseCounts(csv string) (counts, error) {
	var c counts
	for line := range strings.Lines(csv) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		r, err := parseRow(strings.Split(line, ","))
		if err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		c = append(c, r)
	}
	if len(c) == 0 {
		return nil, errors.New("it printed no counts")
	}
	return c, nil
}

func parseRow(fields []string) (row, error) {
	if len(fields) < 5 {
		return row{}, errors.New("not a row of counts")
	}
	r := row{event: fields[2]}
	if strings.HasPrefix(fields[0], "<not ") {
		return r, nil
	}
	r.counted = true
	var err error
	if r.count, err = strconv.ParseFloat(fields[0], 64); err != nil {
		return row{}, err
	}
	r.running, err = strconv.ParseFloat(fields[4], 64)
	return r, err
}

// complete reports whether every event was counted.
func (c counts) complete() bool {
	return !slices.ContainsFunc(c, func(r row) bool { return !r.counted })
}
