package profiles

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/perfdata"
)

func (p *Pull) parseProfile(r *http.Request) (request, error) {
	values, err := parameters(r, "seconds", "event", "frequency", "container", "pod", "namespace")
	if err != nil {
		return request{}, err
	}
	asked, err := p.parse(values)
	if err != nil {
		return asked, err
	}
	if asked.frequency, err = number(values, "frequency", defaultPullFrequency, p.cfg.MostFrequency); err != nil {
		return asked, err
	}
	if asked.event = values.Get("event"); asked.event == "" {
		asked.event = DefaultEvent
	}
	asked.list, err = parseEvent(asked.event)
	return asked, err
}

func (p *Pull) parseOffCPU(r *http.Request) (request, error) {
	values, err := parameters(r, "seconds", "container", "pod", "namespace")
	if err != nil {
		return request{}, err
	}
	asked, err := p.parse(values)
	asked.frequency = defaultPullFrequency // nothing is sampled, but a session has one
	return asked, err
}

// parse returns the part of a request that all profiles have.
func (p *Pull) parse(values url.Values) (request, error) {
	seconds, err := number(values, "seconds", min(defaultSeconds, p.cfg.MostSeconds), p.cfg.MostSeconds)
	if err != nil {
		return request{}, err
	}
	return request{duration: time.Duration(seconds) * time.Second,
		filter: Filter{Container: values.Get("container"), Pod: values.Get("pod"), Namespace: values.Get("namespace")}}, nil
}

// parameters returns the parameters of a request, each of which may be there once. A parameter that is unknown is an error: a profile
// without the filter that a client has misspelled would be another one than it asked for.
func parameters(r *http.Request, known ...string) (url.Values, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badRequest("the query cannot be parsed: %.200q", err.Error())
	}
	for name, all := range values {
		switch {
		case !slices.Contains(known, name):
			return nil, badRequest("unknown parameter %.40q: there are %s", name, strings.Join(known, ", "))
		case len(all) > 1:
			return nil, badRequest("%s is given %d times", name, len(all))
		case len(all[0]) > mostParameter:
			return nil, badRequest("%s has %d bytes: %d are allowed", name, len(all[0]), mostParameter)
		}
	}
	return values, nil
}

// number returns a parameter that is a number from 1 to most.
func number(values url.Values, name string, without, most uint64) (uint64, error) {
	text := values.Get(name)
	if text == "" {
		return without, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == 0 || n > most {
		return 0, badRequest("%s=%.40q: it is a whole number from 1 to %d", name, text, most)
	}
	return n, nil
}

// parseEvent returns the event of a client: any event except those of refusal and breakpoints. Its characters leave no room for the path
// of a file outside of sysfs or for a filter.
func parseEvent(name string) (event.List, error) {
	for _, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.:/=,", r)) {
			return nil, badRequest("event=%.80q: %q is no part of an event's name", name, r)
		}
	}
	list, err := event.Host().Parse(name)
	if err != nil {
		return nil, badRequest("event: %.400s", printable.Text(err.Error()))
	}
	events := list.Events()
	if len(events) != 1 {
		return nil, badRequest("event=%.80q: that is %d events, and a profile is of one", name, len(events))
	}
	e := events[0]
	reason := refusal(e)
	if e.Attr.Type == perfdata.TypeBreakpoint {
		reason = "breakpoints stop code at addresses, and cannot be asked for"
	}
	if reason != "" {
		return nil, badRequest("event=%.80q: %s", name, reason)
	}
	return list, nil
}
