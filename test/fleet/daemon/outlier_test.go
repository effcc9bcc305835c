package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bperf/bperf/test/fleet/pod"
	"github.com/bperf/bperf/test/fleet/server"
)

// rulesFile is the file of rules for Prometheus.
var rulesFile = filepath.Join("..", "..", "..", "packaging", "prometheus", "bperf.rules.yml")

// cpuTime is the end of the expression in the rules for the CPU time of a container.
const cpuTime = `(rate(bperf_container_cpu_seconds_total[5m]))`

// changeRules writes the rules with changes, each of which must find what it replaces, and returns the file.
func changeRules(t *testing.T, changes [][2]string) string {
	t.Helper()
	text, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	rules := string(text)
	for _, change := range changes {
		if !strings.Contains(rules, change[0]) {
			t.Fatalf("%s does not have %s", rulesFile, change[0])
		}
		rules = strings.ReplaceAll(rules, change[0], change[1])
	}
	path := filepath.Join(t.TempDir(), "rules.yml")
	write(t, path, rules)
	return path
}

// TestOutlier plants a container that is unlike its eight peers, and has Prometheus find it by the rules for cycles per instruction.
// Machines without a PMU count neither, and emulated ones take a cycle for each instruction. So the rules get other events here: page faults
// for each nanosecond of CPU time. They also get shorter times.
func TestOutlier(t *testing.T) {
	path := changeRules(t, [][2]string{
		{`event="cycles"`, `event="page-faults"`},
		{`event="instructions"`, `event="task-clock"`},
		{cpuTime + " > 0.25", cpuTime + " > 0"},
		{"[5m]", "[30s]"},
		{"for: 10m", "for: 5s"},
	})

	n := startNode(t, "[page-faults, task-clock]")
	const planted = "web-7d4b9c6f5d-xxxxx"
	pods := []*running{startPod(t, planted, 160)}
	for _, c := range "bcdfghjk" {
		pods = append(pods, startPod(t, "web-7d4b9c6f5d-xxxx"+string(c), 16))
	}
	for _, p := range pods {
		n.addNames(p)
	}
	// When the containers have begun to work, and have their names, their ratios no longer change.
	server.Await(t, "the node knows all containers", func() string {
		metrics := n.metrics()
		for _, p := range pods {
			if !strings.Contains(metrics, fmt.Sprintf(`namespace="%s",pod="%s",pod_uid="%s"} `, pod.Namespace, p.Name, p.UID)) {
				return p.Name
			}
		}
		return ""
	})
	e := newest.start(t, fmt.Sprintf("rule_files: [%s]\n", path)+n.job())
	found := e.awaitSeries(1, `ALERTS{alertname="BperfCPIOutlier",alertstate="firing"}`)
	for label, want := range map[string]string{"namespace": pod.Namespace, "workload": "web", "pod": planted, "container": pod.Container} {
		if got := found[0].Metric[label]; got != want {
			t.Errorf("label %s of the alert is %q, want %q", label, got, want)
		}
	}
	if got := e.query(`pod:bperf_container_cpi:ratio5m{workload="web"}`); len(got) != len(pods) {
		t.Errorf("%d of %d containers have a ratio: %v", len(got), len(pods), got)
	}
	if got := e.query(`count_over_time(ALERTS{alertname="BperfCPIOutlier",alertstate="firing"}[10m])`); len(got) != 1 {
		t.Errorf("alerts: %v", got)
	}
	if testing.Verbose() {
		for _, s := range e.query(`pod:bperf_container_cpi:ratio5m * 1e9`) {
			t.Logf("%s: %s page faults for each second of CPU time", s.Metric["pod"], s.Value[1])
		}
	}
}
