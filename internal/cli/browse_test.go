package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/bperf/bperf/perfdata"
	"github.com/bperf/bperf/test/perffile"
	"github.com/bperf/bperf/test/require"
)

// browseFirst is the time of the first sample of writeThreads, in ns.
const browseFirst = 5_000_000_123

// writeThreads writes a recording of two events in six threads of three processes. Two of the threads are the idle ones of two CPUs. The
// samples of a thread have a time, period and stack of their own, so that no two selections have equal sums. shift makes another
// recording of the same functions.
func writeThreads(t *testing.T, shift int) string {
	t.Helper()
	attr := perfdata.Attr{SamplePeriod: 1000, Flags: perfdata.AttrSampleIDAll, SampleType: perfdata.SampleIdentifier | perfdata.SampleIP |
		perfdata.SampleTID | perfdata.SampleTime | perfdata.SampleCPU | perfdata.SampleCallchain | perfdata.SamplePeriod}
	attr.Type, attr.Config = perfdata.TypeSoftware, perfdata.SoftwareCPUClock
	faults := attr
	faults.Config = 2 // PERF_COUNT_SW_PAGE_FAULTS
	events := []*perfdata.Event{{Name: "cpu-clock", IDs: []uint64{7}, Attr: attr}, {Name: "page-faults", IDs: []uint64{8}, Attr: faults}}
	features, program := walkProgram(t)
	return perffile.Write(t, events, features, func(w *perfdata.Writer) {
		const user, kernel = 0x400000, 0xffffffff81000000
		id := perfdata.SampleID{PID: 100, TID: 100, ID: 7}
		w.Write(perfdata.MiscKernel, &perfdata.Mmap{PID: -1, Start: kernel, Length: 0x1000000, Offset: kernel, Filename: "[kernel.kallsyms]_text"})
		threads := []perfdata.SampleID{{PID: 0, TID: 0}, {PID: 100, TID: 100}, {PID: 100, TID: 101}, {PID: 200, TID: 200}, {PID: 200, TID: 203}}
		for _, task := range threads[1:] {
			w.Write(perfdata.MiscUser, &perfdata.Comm{PID: task.PID, TID: task.TID, Comm: fmt.Sprint("thread-", task.TID), SampleID: id})
		}
		for _, pid := range []int32{100, 200} {
			w.Write(perfdata.MiscUser, &perfdata.Mmap2{PID: pid, TID: pid, Start: user, Length: 0x10000, Protection: 5, Filename: "/none/server", SampleID: id})
		}
		for _, f := range program.Functions {
			w.Write(perfdata.MiscKernel, &perfdata.KSymbol{SampleID: id, Addr: f.Address, Size: f.Size, Type: perfdata.KSymbolBPF, Name: f.Symbol})
		}
		w.Write(perfdata.MiscKernel, &perfdata.BPFEvent{SampleID: id, Type: 1, ID: uint32(program.ID)})
		outer, inner := program.Functions[0], program.Functions[1]
		system := []uint64{kernel + 0x3010, kernel + 0x2010, kernel + 0x1010}
		stacks := [][]uint64{
			append([]uint64{inner.Lines[1].Address + 1, outer.Address + 20, kernel + 0x4010}, system...),
			append([]uint64{outer.Address + 9, kernel + 0x4010}, system...),
			{kernel + 0x5020, kernel + 0x2010, kernel + 0x1010},
			{kernel + 0x5024, kernel + 0x2010, kernel + 0x1010},
		}
		for i := range 600 {
			task := threads[(i*i+i/7)%len(threads)]
			chain := append([]uint64{perfdata.ContextKernel}, stacks[(i/3+shift+int(task.TID))%len(stacks)]...)
			if task.TID != 0 {
				chain = append(chain, perfdata.ContextUser, user+0x100+uint64(task.TID), user+0x200)
			}
			task.Time, task.ID, task.CPU = browseFirst+uint64(i)*1_000_003, 7+uint64(i/5%2), uint32(i%2)
			w.Write(perfdata.MiscKernel, &perfdata.Sample{SampleID: task, IP: chain[1], Period: 1000 + uint64(i), Callchain: chain})
		}
	})
}

// pages is what bperf report --http serves to a client that has the token.
type pages struct {
	url     string // as printed, with the token
	address string // without a path
	client  *http.Client
}

// servePages starts a command with --http. It ends with the test.
func servePages(t *testing.T, args ...string) *pages {
	t.Helper()
	cmd := bperf(args...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var notes strings.Builder
	cmd.Stderr = &notes
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGINT)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%q ended with %v\n%s", args, err, notes.String())
		}
	})
	if err != nil {
		t.Fatalf("%q printed no address: %v", args, err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &pages{url: strings.TrimSpace(line), client: &http.Client{Jar: jar}}
	p.address, _, _ = strings.Cut(p.url, "/?")
	p.get(t, strings.TrimPrefix(p.url, p.address))
	return p
}

func (p *pages) get(t *testing.T, path string) string {
	t.Helper()
	answer, err := p.client.Get(p.address + path)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v\n%s", path, answer.Status, err, body)
	}
	return string(body)
}

// functionRow is a row of the table of functions. Shares are as the page prints them.
var functionRow = regexp.MustCompile(`<tr><td>([0-9.]+) %</td><td>([0-9.]+) %</td><td>(\d+)</td><td class="name">(.*?)</td><td class="name">(.*?)</td></tr>`)

// functionLink matches the link to a function.
var functionLink = regexp.MustCompile(`^<a href="(.*?)">(.*)</a>$`)

// modeLetter is what tables write in front of a symbol.
var modeLetter = regexp.MustCompile(`^\[.\] `)

// functionSamples is what the page of a function says of its samples.
var functionSamples = regexp.MustCompile(`: (\d+) samples, ([0-9.]+) % of the selection`)

// reportedFunctions returns the rows of each event's table, as the page prints them, in alphabetical order.
func reportedFunctions(t *testing.T, args ...string) map[string][]string {
	t.Helper()
	got := run(t, bperf(args...))
	var document struct {
		Data struct {
			Tables []struct {
				Events []struct{ Name string }
				Rows   []struct {
					Keys   map[string]string
					Values []struct {
						Samples  uint64
						Self     float64 `json:"self_percent"`
						Children float64 `json:"children_percent"`
					}
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(got.stdout), &document); got.status != 0 || err != nil {
		t.Fatalf("%q: %v, %+v", args, err, got)
	}
	tables := map[string][]string{}
	for _, table := range document.Data.Tables {
		var rows []string
		for _, r := range table.Rows {
			v := r.Values[0]
			rows = append(rows, fmt.Sprintf("%.2f %.2f %d %s %s", v.Self, v.Children, v.Samples, modeLetter.ReplaceAllString(r.Keys["symbol"], ""), r.Keys["dso"]))
		}
		slices.Sort(rows)
		tables[table.Events[0].Name] = rows
	}
	return tables
}

// TestBrowseSums checks that a selection on the page of --http has the sums that report prints with options that select the same: in the flame
// graph, which must be that of --format html, in the table of functions, and on the page of each function.
func TestBrowseSums(t *testing.T) {
	require.NoKernel(t)
	input := []string{"report", "-i", writeThreads(t, 0), "--kallsyms", kernelSymbols(t, walkSymbols)}
	ns := func(after int64) string { return fmt.Sprintf("5.%09d", browseFirst%1_000_000_000+after) }
	type selected struct{ query, same string }
	for _, test := range []struct {
		sort, options string
		selections    []selected
	}{
		{"", "", []selected{
			{"", ""},
			{"pid=100", "--pid 100"},
			{"pid=0", "--pid 0"},
			{"tid=203", "--tid 203"},
			{"tid=0", "--tid 0"},
			{"pid=200&tid=200", "--pid 200 --tid 200"},
			{"from=0.100000300&to=0.200000600", "--time " + ns(100_000_300) + "," + ns(200_000_600)},
			{"to=0.2", "--time ," + ns(200_000_000)},
			{"tid=101&from=0.3", "--tid 101 --time " + ns(300_000_000) + ","},
		}},
		{"", "--comms thread-101,thread-200", []selected{{"", ""}}},
		{"", "--comms thread-101,thread-200 --percentage relative", []selected{{"pid=100", "--pid 100"}}},
		{"", "--symbols schedule,entry_SYSCALL_64 --max-stack 3", []selected{{"tid=101", "--tid 101"}}},
		{"", "--hide-unresolved --ignore-callees do_syscall_64", []selected{{"pid=200", "--pid 200"}}},
		{"pid,cpu", "--pid 100,200", []selected{{"tid=101", "--tid 101"}}},
	} {
		options := slices.Concat(input, strings.Fields(test.options))
		sorted := options
		if test.sort != "" {
			sorted = slices.Concat(options, []string{"--sort", test.sort})
		}
		served := servePages(t, slices.Concat(sorted, []string{"--http"})...)
		for _, s := range test.selections {
			same := strings.Fields(s.same)
			graphs := run(t, bperf(slices.Concat(sorted, same, []string{"--format", "html"})...)).stdout
			tables := reportedFunctions(t, slices.Concat(options, same, []string{"--format", "json", "--children", "--sort", "dso,symbol"})...)
			for event, name := range []string{"cpu-clock", "page-faults"} {
				what := fmt.Sprintf("%s %s: ?e=%d&%s", test.sort, test.options, event, s.query)
				page := served.get(t, fmt.Sprintf("/?e=%d&%s", event, s.query))
				if want := section(graphs, event); section(page, event) != want || want == "" {
					t.Errorf("%s: the flame graph is\n%s\nthat of report %s\n%s", what, section(page, event), s.same, want)
				}
				if rows := served.functions(t, what, page); !slices.Equal(rows, tables[name]) {
					t.Errorf("%s: functions\n%s\nreport %s\n%s", what, strings.Join(rows, "\n"), s.same, strings.Join(tables[name], "\n"))
				}
			}
		}
	}
}

// functions returns the table of functions of a page, as reportedFunctions does. It checks that the page of each function has as many samples
// as its row, and the same share.
func (p *pages) functions(t *testing.T, what, page string) (rows []string) {
	t.Helper()
	for _, m := range functionRow.FindAllStringSubmatch(page, -1) {
		name := m[4]
		if l := functionLink.FindStringSubmatch(name); l != nil {
			name = l[2]
			of := functionSamples.FindStringSubmatch(p.get(t, html.UnescapeString(l[1])))
			if of == nil || of[1] != m[3] || of[2] != m[1] {
				t.Errorf("%s: the table has %s samples of %s, %s %%; its page %v", what, m[3], name, m[1], of)
			}
		}
		rows = append(rows, strings.Join([]string{m[1], m[2], m[3], html.UnescapeString(name), m[5]}, " "))
	}
	slices.Sort(rows)
	return rows
}

// section returns the flame graph of an event in a page.
func section(page string, event int) string {
	start := strings.Index(page, fmt.Sprintf(`<section data-event="%d">`, event))
	if start < 0 {
		return ""
	}
	text, _, _ := strings.Cut(page[start:], "</section>")
	return text
}

// TestBrowseTasks checks that each process and each thread of a recording can be selected, even the idle ones, whose IDs are 0.
func TestBrowseTasks(t *testing.T) {
	require.NoKernel(t)
	served := servePages(t, "report", "-i", writeThreads(t, 0), "--http")
	page := served.get(t, "/?e=0")
	for name, want := range map[string]string{"pid": "0 100 200", "tid": "0 100 101 200 203"} {
		_, list, _ := strings.Cut(page, `<select name="`+name+`">`)
		list, _, _ = strings.Cut(list, "</select>")
		var values []string
		for _, m := range regexp.MustCompile(`<option value="(\d+)"`).FindAllStringSubmatch(list, -1) {
			values = append(values, m[1])
			chosen := served.get(t, "/?"+url.Values{name: {m[1]}}.Encode())
			if !strings.Contains(chosen, fmt.Sprintf(`<option value="%s" selected>`, m[1])) {
				t.Errorf("%s=%s is not what the page shows as selected", name, m[1])
			}
		}
		if slices.Sort(values); strings.Join(values, " ") != want {
			t.Errorf("%s: the page lists %q, want %q", name, values, want)
		}
	}
}
