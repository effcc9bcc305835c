package page

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/bperf/bperf/internal/httpd"
	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/report"
	"github.com/bperf/bperf/internal/serve/profiles"
)

// earlier returns the window to compare the last one with: the oldest. It returns nil if there is only one window.
func earlier(all []*profiles.Window) *profiles.Window {
	if len(all) < 2 {
		return nil
	}
	return all[0]
}

// timeOf returns the time of a window.
func timeOf(w *profiles.Window) string {
	return w.Start.UTC().Format("15:04:05") + " to " + w.End().UTC().Format("15:04:05 UTC")
}

// FlameGraph answers with the flame graph of the last window: of the node, or of the cgroup of a container or unit (?cgroup=ID). With the
// parameter diff, the graph compares the window with the oldest one.
func (p *Page) FlameGraph(w http.ResponseWriter, r *http.Request) {
	cgroup := r.FormValue("cgroup")
	now, before, status, err := p.windows(r.Form.Has("diff"))
	var of, base *profile.Profile
	title := ""
	if err == nil {
		of, title, status, err = partOf(now, cgroup)
	}
	if err == nil && before != nil {
		base, _, status, err = partOf(before, cgroup)
	}
	if err != nil {
		http.Error(w, printable.Text(err.Error()), status)
		return
	}
	var b bytes.Buffer
	if err := report.WriteHTML(&b, of, base, &report.Options{Title: title}); err != nil {
		http.Error(w, printable.Text(err.Error()), http.StatusNotFound) // there are no samples
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src "+httpd.Source(report.PageStyle())+"; script-src "+httpd.Source(report.PageScript())+
		"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	_, _ = w.Write(b.Bytes()) // the client is gone if it fails
}

// windows returns the last window, and with diff the one to compare it with. With an error it returns the status of the answer.
func (p *Page) windows(diff bool) (now, before *profiles.Window, status int, err error) {
	if p.config.Windows == nil {
		return nil, nil, http.StatusNotFound, errors.New("no profile is taken: the configuration has neither profile.event nor profile.offcpu")
	}
	all, why := p.config.Windows()
	switch {
	case len(all) == 0 && why != nil:
		return nil, nil, http.StatusServiceUnavailable, fmt.Errorf("there is no profile yet: %w", why)
	case len(all) == 0:
		return nil, nil, http.StatusServiceUnavailable, errors.New("the first profile is being taken: try again later")
	case !diff:
		return all[len(all)-1], nil, 0, nil
	}
	if before = earlier(all); before == nil {
		return nil, nil, http.StatusServiceUnavailable, errors.New("there is no earlier profile to compare with: try again later")
	}
	return all[len(all)-1], before, 0, nil
}

// partOf returns the profile of a cgroup in a window, or that of the node for "", and whose it is. With an error it returns the status of
// the answer.
func partOf(w *profiles.Window, cgroup string) (of *profile.Profile, title string, status int, err error) {
	if cgroup == "" {
		return w.Profile, "", 0, nil
	}
	id, err := strconv.ParseUint(cgroup, 10, 64)
	if err != nil {
		return nil, "", http.StatusBadRequest, fmt.Errorf("cgroup=%.40q is not the number of a cgroup", cgroup)
	}
	for i := range w.Parts {
		if part := &w.Parts[i]; part.Cgroup == id && part.Path != "" {
			return part.Profile, titleOf(&part.Name), 0, nil
		}
	}
	return nil, "", http.StatusNotFound, fmt.Errorf("cgroup %d has no samples in the profile of %s", id, timeOf(w))
}
