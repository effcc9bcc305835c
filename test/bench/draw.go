package main

import (
	"bytes"
	"fmt"
)

// panel is one of the parts of a drawing: values over time, one line for each list.
type panel struct {
	title string
	most  float64 // the upper end of the axis
	aim   float64 // where a dashed line is
	lines []line
}

type line struct {
	name, color string
	values      []float64
}

// The sizes of a drawing, in pixels.
const (
	drawnWidth, panelHeight, panelGap = 720, 150, 60
	leftMargin, topMargin             = 60, 30
)

// drawUsage draws what the daemon took over time: its share of the CPUs, and its memory.
func drawUsage(all []usage) []byte {
	var cpu, rss, anon, forks []float64
	for i := range all[1:] {
		now := all[i+1]
		cpu, rss, anon = append(cpu, 100*now.share(all[i])), append(rss, now.anon+now.file), append(anon, now.anon)
		forks = append(forks, (now.forks-all[i].forks)/now.at.Sub(all[i].at).Seconds())
	}
	minutes := all[len(all)-1].at.Sub(all[0].at).Minutes()
	return draw(minutes, []panel{
		{"CPU time, % of all CPUs", 2, 0.5, []line{{"", "#1f6feb", cpu}}},
		{"memory, MiB", 100, 64, []line{{"resident", "#1f6feb", rss}, {"without pages of files", "#d2691e", anon}}},
		{"processes and threads that the machine started in a second", 200, 0, []line{{"", "#1f6feb", forks}}},
	})
}

// draw returns an SVG file. Values above the upper end of an axis are drawn there.
func draw(minutes float64, panels []panel) []byte {
	var b bytes.Buffer
	height := topMargin + len(panels)*(panelHeight+panelGap)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n",
		leftMargin+drawnWidth+20, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="white"/>`+"\n")
	for i, p := range panels {
		top := topMargin + i*(panelHeight+panelGap)
		fmt.Fprintf(&b, `<g transform="translate(%d,%d)">`+"\n", leftMargin, top)
		p.draw(&b, minutes)
		fmt.Fprintf(&b, "</g>\n")
	}
	fmt.Fprintf(&b, "</svg>\n")
	return b.Bytes()
}

func (p *panel) draw(b *bytes.Buffer, minutes float64) {
	y := func(v float64) float64 { return panelHeight * (1 - min(v, p.most)/p.most) }
	fmt.Fprintf(b, `<text x="0" y="-8" font-weight="bold">%s</text>`+"\n", p.title)
	for step := range 5 {
		v := p.most * float64(step) / 4
		fmt.Fprintf(b, `<path d="M0 %.1fH%d" stroke="#ddd"/><text x="-8" y="%.1f" text-anchor="end">%g</text>`+"\n", y(v), drawnWidth, y(v)+4, v)
	}
	for step := range 7 {
		x := drawnWidth * step / 6
		fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle">%.3g min</text>`+"\n", x, panelHeight+16, minutes*float64(step)/6)
	}
	fmt.Fprintf(b, `<path d="M0 %.1fH%d" stroke="#888" stroke-dasharray="4"/>`+"\n", y(p.aim), drawnWidth)
	for i, l := range p.lines {
		fmt.Fprintf(b, `<polyline fill="none" stroke="%s" stroke-width="1.5" points="`, l.color)
		for n, v := range l.values {
			fmt.Fprintf(b, "%.1f,%.1f ", drawnWidth*float64(n+1)/float64(len(l.values)), y(v))
		}
		fmt.Fprintf(b, `"/>`+"\n")
		if l.name != "" {
			fmt.Fprintf(b, `<text x="%d" y="-8" fill="%s" text-anchor="end">%s</text>`+"\n", drawnWidth-160*i, l.color, l.name)
		}
	}
}
