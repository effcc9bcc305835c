package debuginfod

import (
	"fmt"
	"slices"
	"time"
)

// transfer is a file that is being fetched.
type transfer struct {
	display    *display
	name       string
	got, total int64 // bytes; total is 0 if the server does not say it
}

// updates limits how often the line of the progress is written.
type updates struct{ last time.Time }

// due reports whether it is time for an update.
func (u *updates) due(now time.Time) bool {
	const interval = 100 * time.Millisecond
	if now.Sub(u.last) < interval {
		return false
	}
	u.last = now
	return true
}

func (d *display) begin(name string) *transfer {
	t := &transfer{display: d, name: label(name)}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, t)
	d.show()
	return t
}

func (d *display) end(t *transfer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = slices.DeleteFunc(d.all, func(other *transfer) bool { return other == t })
	d.show()
}

// set records how much of a file has come.
func (t *transfer) set(got, total int64) {
	t.display.mu.Lock()
	defer t.display.mu.Unlock()
	t.got, t.total = got, total
	if t.display.lines.due(time.Now()) {
		t.display.show()
	}
}

// show writes the line of what is being fetched, or removes it. The caller holds d.mu.
func (d *display) show() {
	if !d.shows {
		return
	}
	if len(d.all) == 0 {
		fmt.Fprint(d.w, "\r\x1b[K")
		return
	}
	const mb = 1e6
	first := d.all[0]
	text := "debuginfod: " + first.name
	if first.got > 0 {
		text += fmt.Sprintf(", %.1f", float64(first.got)/mb)
		if first.total > 0 {
			text += fmt.Sprintf(" of %.1f", float64(first.total)/mb)
		}
		text += " MB"
	}
	if n := len(d.all) - 1; n > 0 {
		text += fmt.Sprintf(", and %d more", n)
	}
	fmt.Fprintf(d.w, "\r%s\x1b[K", text)
}
