package daemon

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bperf/bperf/test/fleet/server"
)

// dashboard has the parts of packaging/grafana/bperf.json that the tests check.
type dashboard struct {
	Templating struct {
		List []struct{ Name, Query string }
	}
	Panels []struct {
		ID      int
		Title   string
		Type    string
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ Expr string }
	}
}

func readDashboard(t *testing.T) *dashboard {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "packaging", "grafana", "bperf.json"))
	if err != nil {
		t.Fatal(err)
	}
	d := new(dashboard)
	if err := json.Unmarshal(text, d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestDashboard asks Prometheus for each expression of the dashboard. Each must have a result. Machines without a PMU count none of its
// events, so others take their places.
func TestDashboard(t *testing.T) {
	d := readDashboard(t)
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusBadRequest) }))
	defer refuses.Close()
	n := startNode(t, `[page-faults, task-clock, nosuch]
push: [{kind: otlp, url: "`+refuses.URL+`"}]
profile: {every: 1s}`)
	p := startPod(t, "web-0", 16)
	n.addNames(p)
	e := newest.start(t, n.job())
	fill := strings.NewReplacer("$__rate_interval", "1m", "$instance", ".*", "$namespace", ".*", "> 0.05", "> 0",
		`event="cycles"`, `event="page-faults"`, `event="instructions"`, `event="task-clock"`,
		`event="cache-misses"`, `event="page-faults"`, `event="branch-misses"`, `event="page-faults"`)
	asked := 0
	for _, panel := range d.Panels {
		for _, target := range panel.Targets {
			expr := fill.Replace(target.Expr)
			if strings.Contains(expr, "$") {
				t.Errorf("panel %s: unknown variable: %s", panel.Title, expr)
			}
			asked++
			server.Await(t, panel.Title, func() string {
				if found, err := e.ask(expr); err != nil || len(found) == 0 {
					return expr + ": no result"
				}
				return ""
			})
		}
	}
	if asked < 15 {
		t.Errorf("the dashboard has only %d expressions: has its format changed?", asked)
	}
	for _, variable := range d.Templating.List[1:] {
		metric, label, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(variable.Query, "label_values("), ")"), ", ")
		e.awaitSeries(1, "count(count by ("+label+") ("+fill.Replace(metric)+"))")
	}
}

// TestDashboardLayout checks that panels have numbers of their own, and lie beside each other.
func TestDashboardLayout(t *testing.T) {
	taken := make(map[[2]int]string)
	ids := make(map[int]bool)
	for _, panel := range readDashboard(t).Panels {
		if ids[panel.ID] {
			t.Errorf("panel %s: another has the ID %d", panel.Title, panel.ID)
		}
		ids[panel.ID] = true
		at := panel.GridPos
		if at.X < 0 || at.W < 1 || at.H < 1 || at.X+at.W > 24 {
			t.Errorf("panel %s is not within the 24 columns", panel.Title)
		}
		for x := range at.W {
			for y := range at.H {
				cell := [2]int{at.X + x, at.Y + y}
				if other := taken[cell]; other != "" {
					t.Fatalf("panel %s lies on %s", panel.Title, other)
				}
				taken[cell] = panel.Title
			}
		}
	}
}
