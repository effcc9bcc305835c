package annotate

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"path/filepath"
	"strings"

	"github.com/bperf/bperf/internal/printable"
)

//go:embed page.html
var pageText string

// HTML writes the report as one self-contained page: a section for each function, with instructions and lines coloured by their share.
func (r *Report) HTML(w io.Writer) error {
	page := template.New("page").Funcs(template.FuncMap{
		"base":    filepath.Base,
		"percent": func(v Value) string { return fmt.Sprintf("%.2f", v.Percent) },
		"heat":    heat,
	})
	var b strings.Builder
	if err := template.Must(page.Parse(pageText)).Execute(&b, r); err != nil {
		return err
	}
	_, err := io.WriteString(w, printable.Lines(b.String()))
	return err
}

// heat returns the strength of an instruction's colour, from 0 to 1: 0.5 at 5 %.
func heat(v Value) string { return fmt.Sprintf("%.2f", 1-math.Exp2(-v.Percent/5)) }
