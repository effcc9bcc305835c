package page

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/internal/report"
)

// FlameGraph answers with the flame graph of the last profile: of the node, or of the cgroup of a container or unit (?cgroup=ID).
func (p *Page) FlameGraph(w http.ResponseWriter, r *http.Request) {
	of, title, status, err := p.profile(r.FormValue("cgroup"))
	if err != nil {
		http.Error(w, printable.Text(err.Error()), status)
		return
	}
	var b bytes.Buffer
	if err := report.WriteHTML(&b, of, nil, &report.Options{Title: title}); err != nil {
		http.Error(w, printable.Text(err.Error()), http.StatusNotFound) // there are no samples
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src "+source(report.PageScript())+
		"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	_, _ = w.Write(b.Bytes()) // the client is gone if it fails
}

// profile returns the last profile of a cgroup, or of the node for "". With an error it returns the status of the answer.
func (p *Page) profile(cgroup string) (of *profile.Profile, title string, status int, err error) {
	id, err := strconv.ParseUint(cgroup, 10, 64)
	if err != nil && cgroup != "" {
		return nil, "", http.StatusBadRequest, fmt.Errorf("cgroup=%.40q is not the number of a cgroup", cgroup)
	}
	if p.config.Windows == nil {
		return nil, "", http.StatusNotFound, fmt.Errorf("no profiles are taken, because the configuration has no server to push to")
	}
	all, why := p.config.Windows()
	if len(all) == 0 {
		if why != nil {
			return nil, "", http.StatusServiceUnavailable, fmt.Errorf("there is no profile yet: %w", why)
		}
		return nil, "", http.StatusServiceUnavailable, fmt.Errorf("the first profile is being taken: try again later")
	}
	last := all[len(all)-1]
	if cgroup == "" {
		return last.Profile, "", 0, nil
	}
	for i := range last.Parts {
		if part := &last.Parts[i]; part.Cgroup == id && part.Path != "" {
			return part.Profile, titleOf(&part.Name), 0, nil
		}
	}
	return nil, "", http.StatusNotFound, fmt.Errorf("cgroup %d has no samples in the last profile", id)
}
