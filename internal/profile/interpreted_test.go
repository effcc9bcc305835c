package profile

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestInterpreted(t *testing.T) {
	const loop, entry = "_PyEval_EvalFrameDefault", "Builtins_InterpreterEntryTrampoline"
	python := func(n, all int) string {
		return fmt.Sprintf("%d of %d samples show the interpreter, not the Python functions that it runs; to see these, use Python 3.12 or later with -X perf", n, all)
	}
	javaScript := func(n, all int) string {
		return fmt.Sprintf("%d of %d samples show the interpreter, not the JavaScript functions that it runs; to see these, use node --perf-basic-prof --interpreted-frames-native-stack", n, all)
	}
	for name, tt := range map[string]struct {
		samples recording
		want    []string
	}{
		"none":         {nil, nil},
		"others":       {recording{{stack: []string{"main"}, count: 5}}, nil},
		"the loop":     {recording{{stack: []string{loop}, count: 5}, {stack: []string{"work"}, count: 4}}, []string{python(5, 9)}},
		"called by it": {recording{{stack: []string{"long_add", loop, "main"}, count: 5}}, []string{python(5, 5)}},
		"named":        {recording{{stack: []string{"long_add", loop, "py::work:/a.py", loop, "main"}, count: 5}}, nil},
		"few":          {recording{{stack: []string{loop}, count: 1}, {stack: []string{"work"}, count: 199}}, nil},
		"both": {recording{{stack: []string{loop}, count: 5}, {stack: []string{entry}, count: 6}, {stack: []string{"JS:*work", entry}, count: 7}},
			[]string{python(5, 18), javaScript(6, 18)}},
	} {
		p := New(0)
		p.Events = []Event{{Name: "cpu-clock"}}
		tt.samples.addTo(p)
		if diff := cmp.Diff(tt.want, p.Interpreted()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
