package report

import (
	"bufio"
	_ "embed" // for the script and the style of flame graphs
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/profile"
)

//go:embed flame.js
var flameScript string

//go:embed flame.css
var flameStyle string

const (
	flameWidth  = 1200 // width of a drawing without an enclosing page, in pixels
	flameHeight = 17   // height of a frame, in pixels
	letterWidth = 7.3  // width of a letter of the font, in pixels
	textMargin  = 3
	// Frames narrower than this share of the graph are left out: a third of a pixel.
	flameSmallest = 1.0 / (3 * flameWidth)
)

// drawing is one flame graph.
type drawing struct {
	w       *bufio.Writer
	root    *flame
	unit    string
	compare bool
}

// WriteFlameGraph writes a flame graph as an SVG file with search and zoom for browsers. The file fetches nothing. With a base, the graph
// shows p in red where a share has grown since base, and in blue where it has shrunk.
func WriteFlameGraph(w io.Writer, p, base *profile.Profile, o *Options) error {
	event, err := theEvent(p, o)
	if err != nil {
		return err
	}
	root, removed, err := flamesOf(p, base, o, event)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	d := &drawing{w: out, root: root, unit: p.Events[event].Unit, compare: base != nil}
	top := 3 * flameHeight
	height := top + (root.depth()+2)*flameHeight
	fmt.Fprintf(out, `<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" class="page" width="%d" height="%d" viewBox="0 0 %d %d">
<style><![CDATA[%s]]></style>
<text class="title" x="%d" y="20" text-anchor="middle">%s</text>
<text class="button" data-do="reset" x="10" y="40" tabindex="0" role="button">Reset zoom</text>
<text class="button" data-do="search" x="110" y="40" tabindex="0" role="button">Search</text>
<text class="matched" data-is="matched" x="%d" y="40" text-anchor="end"></text>
`, flameWidth, height, flameWidth, height, flameStyle, flameWidth/2, escape(flameTitle(p, base, event)), flameWidth-10)
	d.legend(180, 40)
	fmt.Fprintf(out, `<svg class="flame" x="0" y="%d" width="%d" height="%d">`+"\n", top, flameWidth, (root.depth()+1)*flameHeight)
	d.frames()
	out.WriteString("</svg>\n")
	fmt.Fprintf(out, `<text class="note" x="10" y="%d" data-is="detail">%s</text>`+"\n", height-6, escape(flameNote(p, removed)))
	fmt.Fprintf(out, "<script><![CDATA[%s]]></script>\n</svg>\n", flameScript)
	return out.Flush()
}

// flamesOf builds the tree of an event and, unless base is nil, adds the same event of base. It also returns the number of frames that are
// too narrow and therefore removed.
func flamesOf(p, base *profile.Profile, o *Options, event int) (*flame, int, error) {
	root := newFlames(p, o, event)
	if root.value == 0 {
		return nil, 0, errors.New("there is nothing to draw: no samples are left")
	}
	if base != nil {
		named := *o
		named.Event = p.Events[event].Name
		of, err := theEvent(base, &named)
		if err != nil {
			return nil, 0, fmt.Errorf("the profile to compare with: %w", err)
		}
		root.addBase(base, o, of)
	}
	return root, root.prune(uint64(float64(root.value) * flameSmallest)), nil
}

func flameTitle(p, base *profile.Profile, event int) string {
	title := p.Events[event].Name
	if p.Info.Hostname != "" {
		title += " on " + p.Info.Hostname
	}
	if base != nil {
		title += ", compared: red has grown, blue has shrunk"
	}
	return title
}

// flameNote describes what the graph lacks: narrow frames and lost samples.
func flameNote(p *profile.Profile, removed int) string {
	var notes []string
	if removed > 0 {
		notes = append(notes, fmt.Sprintf("%d frames too narrow to be seen are left out", removed))
	}
	if p.Losses.Samples > 0 {
		notes = append(notes, fmt.Sprintf("%d samples were lost", p.Losses.Samples))
	}
	if p.Losses.MissedEstimate > 0 {
		notes = append(notes, fmt.Sprintf("about %d more samples were due but not taken (an estimate)", p.Losses.MissedEstimate))
	}
	if p.Losses.Truncated > 0 {
		notes = append(notes, fmt.Sprintf("%d stacks were cut", p.Losses.Truncated))
	}
	for _, l := range p.Losses.Reasons {
		notes = append(notes, fmt.Sprintf("%d samples are missing: %s", l.Samples, l.Reason))
	}
	return strings.Join(notes, "; ")
}

// legend draws the meaning of the colours. A comparison gets none, because its title explains them.
func (d *drawing) legend(x, y int) {
	if d.compare {
		return
	}
	classes := flameClasses
	if d.root.isOf(wallClasses) {
		classes = slices.Concat(classes, wallClasses)
	}
	d.w.WriteString(`<g class="legend">` + "\n")
	for _, c := range classes {
		fmt.Fprintf(d.w, `<g class="%s"><rect x="%d" y="%d" width="14" height="12"/><text x="%d" y="%d">%s</text></g>`+"\n",
			c.class, x, y-11, x+18, y, escape(c.title))
		x += 18 + int(letterWidth*float64(len(c.title)+2))
	}
	d.w.WriteString("</g>\n")
}

func (d *drawing) frames() {
	var draw func(f *flame, x uint64, depth int)
	draw = func(f *flame, x uint64, depth int) {
		d.frame(f, x, depth)
		for _, c := range f.calls {
			draw(c, x, depth+1)
			x += c.value
		}
	}
	draw(d.root, 0, 0)
}

// frame draws a frame. Positions are shares of the graph, so that the graph fits any width.
func (d *drawing) frame(f *flame, x uint64, depth int) {
	left, width := float64(x)/float64(d.root.value), float64(f.value)/float64(d.root.value)
	fmt.Fprintf(d.w, `<g class="f %s" data-x="%.6f" data-w="%.6f" data-d="%d" tabindex="0"><title>%s</title>`,
		f.class, left, width, depth, escape(d.describe(f)))
	colour := fmt.Sprint("c", shade(f.name))
	if d.compare {
		colour = changeColour(f, d.root.value)
	}
	fmt.Fprintf(d.w, `<rect x="%.4f%%" y="%d" width="%.4f%%" height="%d" class="%s"/>`,
		100*left, depth*flameHeight, 100*width, flameHeight-1, colour)
	l := newLabel(printable.Text(f.name), !slices.Contains(threadClasses, f.class))
	fmt.Fprintf(d.w, `<text x="%.4f%%" dx="%d" y="%d" data-n="%s"%s>%s</text></g>`+"\n",
		100*left, textMargin, depth*flameHeight+12, escape(f.name), l.cuts(), escape(l.within(int((width*flameWidth-2*textMargin)/letterWidth))))
}

// describe returns the text that is shown for the frame under the pointer.
func (d *drawing) describe(f *flame) string {
	text := fmt.Sprintf("%s (%s, %.2f%%", f.name, quantity(f.value, d.unit), percent(f.value, d.root.value))
	if d.compare {
		text += fmt.Sprintf(", %+.2f%%", percent(f.value, d.root.value)-percent(f.base, d.root.value))
	}
	return text + ")"
}

func quantity(n uint64, unit string) string {
	switch unit {
	case "ns":
		return fmt.Sprintf("%.3f ms", float64(n)/1e6)
	case "", "count":
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d %s", n, unit)
}

// shade hashes a name to one of four shades of a colour, so that neighbours usually differ and a function looks the same everywhere.
func shade(name string) int {
	h := uint32(2166136261)
	for i := range len(name) {
		h = (h ^ uint32(name[i])) * 16777619
	}
	return int(h>>8) % 4
}

// changes is the number of shades of red and blue in flame.css, besides the palest ones.
const changes = 8

// changeColour returns a class of flame.css: red for growth and blue for shrinkage; the smaller the change, the paler the colour.
func changeColour(f *flame, all uint64) string {
	change := (float64(f.value) - float64(f.base)) / float64(all)
	// A change of a tenth of the total has the full strength.
	strength := int(min(max(change, -change)*10, 1)*changes + 0.5)
	if change < 0 {
		return fmt.Sprint("down", strength)
	}
	return fmt.Sprint("up", strength)
}

// escape makes any string safe as text in SVG and HTML, even one with bytes that XML does not allow.
func escape(text string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(printable.Text(text))); err != nil {
		return html.EscapeString(text)
	}
	return b.String()
}
