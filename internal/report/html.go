package report

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/bperf/bperf/internal/profile"
)

const pageStyle = `:root { color-scheme: light dark; }
body { font: 14px sans-serif; margin: 1em; }
header p { opacity: 0.75; margin: 0.3em 0; }
nav { margin: 0.8em 0; }
nav > * { margin-right: 1em; }
svg.legend-box { height: 18px; width: 100%; display: block; }
svg.flame { width: 100%; display: block; }
.legend text { fill: currentColor; }
`

// WriteHTML writes one page with a flame graph for each event that has samples. The page is self-contained, and its content security policy
// forbids the browser to fetch anything. With a base, the graphs show a comparison as in WriteFlameGraph.
func WriteHTML(w io.Writer, p, base *profile.Profile, o *Options) error {
	var events []int
	for i, e := range p.Events {
		if e.Samples > 0 && (o.Event == "" || o.Event == e.Name) {
			events = append(events, i)
		}
	}
	if len(events) == 0 {
		return errors.New("there is nothing to draw: there are no samples")
	}
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>%s</title>
<style>%s</style>
</head>
<body>
<header>
<h1>%s</h1>
`, escape(pageTitle(p, o)), PageStyle(), escape(pageTitle(p, o)))
	if len(p.Info.Command) > 0 {
		fmt.Fprintf(out, "<p>%s</p>\n", escape(strings.Join(p.Info.Command, " ")))
	}
	if base != nil {
		of := "another profile"
		if !base.Info.Start.IsZero() {
			of = "the profile of " + base.Info.Start.Format("2006-01-02 15:04:05 MST")
		}
		fmt.Fprintf(out, "<p>Compared with %s: red has grown, blue has shrunk.</p>\n", of)
	}
	out.WriteString("</header>\n<nav>\n")
	if len(events) > 1 {
		out.WriteString(`<label>Event <select data-is="event">`)
		for _, event := range events {
			fmt.Fprintf(out, `<option value="%d">%s</option>`, event, escape(p.Events[event].Name))
		}
		out.WriteString("</select></label>\n")
	}
	out.WriteString(`<label>Search <input data-is="search" type="search" placeholder="regular expression"></label>
<button data-do="reset">Reset zoom</button>
</nav>
`)
	for _, event := range events {
		if err := writeFlames(out, p, base, o, event); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "<script>%s</script>\n</body>\n</html>\n", flameScript)
	return out.Flush()
}

// PageStyle returns the text of the only style of the pages of WriteHTML, for the hash in a Content-Security-Policy.
func PageStyle() string { return "\n" + pageStyle + flameStyle }

// PageScript returns the text of the only script of the pages of WriteHTML, for the hash in a Content-Security-Policy.
func PageScript() string { return flameScript }

func pageTitle(p *profile.Profile, o *Options) string {
	title, of := "Profile", " of "
	if o.Title != "" {
		title, of = title+of+o.Title, " on "
	}
	if p.Info.Hostname != "" {
		title += of + p.Info.Hostname
	}
	if !p.Info.Start.IsZero() {
		title += p.Info.Start.Format(", 2006-01-02 15:04:05 MST")
	}
	return title
}

// WriteFlames writes the flame graph of an event, the number of it in p.Events, as a part of a page with PageStyle and PageScript. With a
// base, it shows a comparison as in WriteFlameGraph.
func WriteFlames(w io.Writer, p, base *profile.Profile, o *Options, event int) error {
	out := bufio.NewWriter(w)
	if err := writeFlames(out, p, base, o, event); err != nil {
		return err
	}
	return out.Flush()
}

func writeFlames(out *bufio.Writer, p, base *profile.Profile, o *Options, event int) error {
	root, removed, err := flamesOf(p, base, o, event)
	if err != nil {
		return fmt.Errorf("event %s: %w", p.Events[event].Name, err)
	}
	d := &drawing{w: out, root: root, unit: p.Events[event].Unit, compare: base != nil}
	e := p.Events[event]
	fmt.Fprintf(out, `<section data-event="%d">
<p>%s: %d samples, %s <span class="matched" data-is="matched"></span></p>
`, event, escape(e.Name), e.Samples, escape(quantity(e.Value, e.Unit)))
	if base == nil {
		out.WriteString(`<svg class="legend-box">`)
		d.legend(0, 14)
		out.WriteString("</svg>\n")
	}
	fmt.Fprintf(out, `<svg class="flame" height="%d">`+"\n", (root.depth()+1)*flameHeight)
	d.frames()
	out.WriteString("</svg>\n")
	if note := flameNote(p, removed); note != "" {
		fmt.Fprintf(out, "<p>%s</p>\n", escape(note))
	}
	out.WriteString("</section>\n")
	return nil
}
