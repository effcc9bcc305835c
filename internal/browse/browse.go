// Package browse serves a profile as pages for a browser on this machine: flame graphs of selected threads and times, compared with others,
// tables of functions, and their instructions. It measures nothing.
//
// It does without html/template. That package looks methods up by name, and with it the linker would keep the exported methods of all types
// in the program: 2 MB. So each text of others goes through the function text.
package browse

import (
	"bytes"
	"cmp"
	_ "embed" // for the style and the script of the pages
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/bperf/bperf/internal/annotate"
	"github.com/bperf/bperf/internal/httpd"
	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/internal/report"
)

//go:embed browse.css
var ownStyle string

//go:embed browse.js
var script string

// MaxSamples is the limit of samples with different keys in memory (profile.Profile.SetLimit).
const MaxSamples = 1_000_000

// Keys are the keys of a profile to browse. Without Time there is no selection of time, without TID none of threads.
const Keys = profile.Comm | profile.PID | profile.TID | profile.Time | profile.Address

// Config says what is shown.
type Config struct {
	Profile *profile.Profile
	Name    string // of the profile
	Options *report.Options

	Base     *profile.Profile // to compare with; nil for none
	BaseName string

	// Code returns a function with its instructions. It is nil if instructions are not known; NoCode then says why.
	Code   func(profile.ModuleID, replay.Symbol, annotate.Event, map[uint64]annotate.Value) (*annotate.Function, error)
	NoCode string
}

// Browser answers with pages. It answers one request at a time.
type Browser struct {
	Config
	p             *profile.Profile
	events        []int // with samples; indexes in Profile.Events
	first, length int64 // time of the first sample, and the time to the last one, in ns; length is 0 if there are no times
	tasks         []task
	style         string
	needed        profile.Keys // those of Options
}

// task is a thread or a process.
type task struct {
	comm     string
	pid, tid int32
	samples  uint64
}

// New returns a browser of a profile, which nobody may change afterwards.
func New(c Config) (*Browser, error) {
	needed, err := c.Options.NeededKeys()
	if err != nil {
		return nil, err
	}
	b := &Browser{Config: c, p: c.Profile, style: report.PageStyle() + ownStyle, needed: needed}
	for i, e := range b.p.Events {
		if e.Samples > 0 && (c.Options.Event == "" || c.Options.Event == e.Name) {
			b.events = append(b.events, i)
		}
	}
	if len(b.events) == 0 {
		return nil, errors.New("there is nothing to show: there are no samples")
	}
	samples := b.p.Samples()
	if b.p.Keys().Has(profile.Time) {
		last := samples[0].Time
		b.first = last
		for i := range samples {
			b.first, last = min(b.first, samples[i].Time), max(last, samples[i].Time)
		}
		b.length = max(0, last-b.first)
		if b.length > 0 && b.p.Step() > 0 {
			b.length += b.p.Step() - 1
		}
	}
	counts := make([]uint64, len(b.p.Labels()))
	for i := range samples {
		counts[samples[i].Labels] += samples[i].Count
	}
	byID := map[[2]int32]int{}
	for id, l := range b.p.Labels() {
		if counts[id] == 0 {
			continue
		}
		key := [2]int32{l.PID, l.TID}
		at, known := byID[key]
		if !known {
			at = len(b.tasks)
			byID[key] = at
			b.tasks = append(b.tasks, task{comm: b.p.Strings.At(l.Comm), pid: l.PID, tid: l.TID})
		}
		b.tasks[at].samples += counts[id]
	}
	slices.SortStableFunc(b.tasks, func(x, y task) int { return cmp.Compare(y.samples, x.samples) })
	return b, nil
}

// ServeHTTP answers with a page: / or /function?f=NUMBER.
func (b *Browser) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/" && r.URL.Path != "/function" {
		refuse(w, http.StatusNotFound, "there is no such page")
		return
	}
	s, err := b.parse(r.URL.Query())
	if err == nil && !slices.Contains(b.events, s.event) {
		err = errors.New("there is no such event, or it has no samples")
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	var out bytes.Buffer
	if r.URL.Path == "/" {
		err = b.overview(&out, s)
	} else {
		var f uint64
		if f, err = strconv.ParseUint(r.URL.Query().Get("f"), 10, 32); err != nil || f == 0 || f >= uint64(len(b.p.Functions.All())) {
			refuse(w, http.StatusNotFound, "there is no such function")
			return
		}
		err = b.function(&out, s, profile.FunctionID(f))
	}
	if err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src "+httpd.Source(b.style)+"; script-src "+httpd.Source(report.PageScript())+
		" "+httpd.Source(script)+"; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	_, _ = w.Write(out.Bytes()) // the client is gone if it fails
}

// part returns the selected samples in a range of time.
func (b *Browser) part(s *selection, in span) *profile.Profile {
	return b.p.Select(^(profile.Time|profile.PID|profile.TID)|b.needed, b.wants(s, in))
}

// base returns what the selection is compared with, or nil.
func (b *Browser) base(s *selection) *profile.Profile {
	switch s.diff {
	case withBase:
		return b.Base
	case withTime:
		return b.part(s, s.baseTime)
	}
	return nil
}
