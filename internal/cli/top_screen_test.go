package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/bperf/bperf/internal/count"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/top"
	"github.com/bperf/bperf/test/golden"
)

// topScreenOf returns a screen with a reading.
func topScreenOf(width, height int) topScreen {
	r := topReadingOf()
	return topScreen{width: width, height: height, latest: r, shown: r, columns: topColumnsOf(),
		topDetails: topDetails{examine: func(id uint64) (string, error) { return fmt.Sprintf("BPF program %d\n", id), nil }}}
}

// typed returns the keys as a terminal sends them: one per letter, or a key's name in angle brackets.
func typed(keys string) (all []tea.KeyPressMsg) {
	special := map[string]tea.Key{"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "space": {Code: tea.KeySpace, Text: " "},
		"backspace": {Code: tea.KeyBackspace}, "up": {Code: tea.KeyUp}, "down": {Code: tea.KeyDown}, "pgup": {Code: tea.KeyPgUp},
		"pgdown": {Code: tea.KeyPgDown}, "home": {Code: tea.KeyHome}, "end": {Code: tea.KeyEnd}, "left": {Code: tea.KeyLeft},
		"right": {Code: tea.KeyRight}, "tab": {Code: tea.KeyTab}, "shift+tab": {Code: tea.KeyTab, Mod: tea.ModShift}, "ctrl+u": {Code: 'u', Mod: tea.ModCtrl},
		"ctrl+c": {Code: 'c', Mod: tea.ModCtrl}, "ctrl+z": {Code: 'z', Mod: tea.ModCtrl}}
	for keys != "" {
		if name, rest, ok := strings.Cut(strings.TrimPrefix(keys, "<"), ">"); ok && keys[0] == '<' {
			all, keys = append(all, tea.KeyPressMsg(special[name])), rest
			continue
		}
		all, keys = append(all, tea.KeyPressMsg{Code: rune(keys[0]), Text: keys[:1]}), keys[1:]
	}
	return all
}

// press presses keys, and runs the commands that they return, except for waiting.
func press(s topScreen, keys string) topScreen {
	for _, k := range typed(keys) {
		model, cmd := s.Update(k)
		if s = model.(topScreen); cmd != nil {
			model, _ = s.Update(cmd())
			s = model.(topScreen)
		}
	}
	return s
}

// topTasks returns a screen of processes with events.
func topTasks(width, height int) topScreen {
	s := topScreenOf(width, height)
	s.columns = []top.Column{
		{Name: "cpu", Key: "c", Title: "cpu %", Width: 7}, {Name: "switches", Key: "w", Title: "switches/s", Width: 10, From: 44},
		{Name: "instructions", Key: "1", Title: "instructions/s", Width: 14, From: 60}, {Name: "a-longer-name", Key: "2", Title: "a-longer-name/s", Width: 14, From: 76},
		{Name: "ipc", Key: "3", Title: "IPC", Width: 14, From: 92}, {Name: "pid", Key: "i", Title: "pid", Kind: top.Number, Width: 7, From: 30},
		{Name: "name", Key: "n", Title: "name", Kind: top.Word},
	}
	row := func(id uint64, value float64, texts ...string) top.Row {
		r := top.Row{ID: id, Name: texts[6]}
		for _, text := range texts {
			r.Cells = append(r.Cells, top.Cell{Text: text, Value: value})
		}
		return r
	}
	s.shown = &top.Reading{Time: s.shown.Time, Window: s.shown.Window, Total: "2 of 9 processes ran, 12.0 switches/s, 99.000 % of a CPU",
		Cost: "bperf takes 0.500 % of a CPU; its program at each switch 0.100 %", Rows: []top.Row{
			row(4000000, 1, "0.100", "10.0", "~1.25M", "-", "~0.91", "4000000", "sh\x1b[m"),
			row(70, 2, "98.900", "2.0", "3210M", "12.34k", "2.10", "70", "spins"),
		}}
	return s
}

// topFunctionsOf returns a screen of functions, sampled with an event beside the first one.
func topFunctionsOf(t *testing.T, width, height int) topScreen {
	t.Helper()
	list, err := event.Host().Parse("cpu-clock,page-faults")
	if err != nil {
		t.Fatal(err)
	}
	s := topScreenOf(width, height)
	s.columns = top.FunctionColumns(list)
	row := func(id uint64, now, total float64, samples int, object, last, name string) top.Row {
		return top.Row{ID: id, Name: object + " " + name, Cells: []top.Cell{{Text: fmt.Sprintf("%.2f", now), Value: now}, {Text: fmt.Sprintf("%.2f", total), Value: total},
			{Text: fmt.Sprint(samples), Value: float64(samples)}, {Text: "0.00"}, {Text: object}, {Text: last}, {Text: name}}}
	}
	s.shown = &top.Reading{Time: s.shown.Time, Window: s.shown.Window,
		Total: "1998 samples of cpu-clock, 3 lost, 1 in unknown functions: 100.000 % of a CPU; 0 of page-faults: 0.0/s",
		Cost:  "bperf takes 0.420 % of a CPU", Rows: []top.Row{
			row(1, 60.06, 55.5, 1200, "spins", "▁▂▃▄▅▆▇██▇▆▅▄▃▂█", "burn"),
			row(2, 20, 30.25, 400, "a_program_with_a_very_long_name", "            ▁▁▂█",
				"_ZN5alloy4core6detail20a_namespace_that_is_long9containerINS_9allocatorEE11push_back_nEm$inner_closure$tail"),
			row(3, 15, 10.25, 300, "[kernel]", "███████ ████████", "native_queued_spin_lock_slowpath"),
			row(4, 4.94, 4, 98, "bpf_prog 1163262", "               █", "on_switch\x1b[m"),
		}}
	s.latest = s.shown
	s.examine = func(uint64) (string, error) {
		return "function     burn\nobject       spins\n\nCallers, in % of its 1200 samples since 08:00:00:\n100.00  main  spins\n", nil
	}
	return s
}

// long returns the screen with n programs.
func long(s topScreen, n int) topScreen {
	r := *s.shown
	r.Rows = nil
	for i := range n {
		row := topReadingOf().Rows[0]
		row.ID, row.Name = uint64(i+1), fmt.Sprintf("program_%03d", i+1)
		row.Cells[3], row.Cells[6].Text = top.Cell{Text: fmt.Sprint(i + 1), Value: float64(i + 1)}, row.Name
		r.Rows = append(r.Rows, row)
	}
	r.Total = fmt.Sprintf("%d of %d BPF programs ran, %.1f runs/s, %.3f %% of a CPU", n, n, float64(n)*3000, float64(n)*0.03)
	s.shown, s.latest = &r, &r
	return s
}

func TestTopScreen(t *testing.T) {
	wide, usual := topScreenOf(160, 20), topScreenOf(80, 24)
	first := usual
	first.latest, first.shown = nil, nil
	none := topScreenOf(80, 24)
	none.shown.Rows, none.shown.Total = nil, "no such BPF program is loaded"
	gone := press(topScreenOf(80, 14), "<enter>")
	gone.shown.Rows, gone.shown.Total = nil, "no such BPF program is loaded"
	reading := topScreenOf(80, 14)
	reading.drill = &topDrill{topDetail: topDetail{id: 8}}
	failed, _ := reading.Update(topExamined{topDetail{id: 8}, "", errors.New("no such\x1b program")})
	shown := topScreenOf(80, 14)
	shown.examine = func(uint64) (string, error) {
		var b strings.Builder
		err := printProgShow(&b, shownProgs()[:1])
		return b.String(), err
	}
	past := shown
	past.past = func(id uint64) []string {
		return []string{fmt.Sprint("runs/s  ▂▃▅▇█  at most ", id), "cpu %   ▂▃▅▇█  at most 8"}
	}
	next, _ := press(past, "<enter>").Update(topRead{reading: past.shown})
	for name, s := range map[string]topScreen{
		"wide":              wide,
		"drill-past":        next.(topScreen),
		"drill-past-end":    press(past, "<enter><end>"),
		"functions-80x24":   topFunctionsOf(t, 80, 24),
		"functions-200x50":  topFunctionsOf(t, 200, 50),
		"functions-40x10":   topFunctionsOf(t, 40, 10),
		"functions-callers": press(topFunctionsOf(t, 80, 24), "<enter>"),
		"functions-kernel":  press(topFunctionsOf(t, 80, 24), "/KERNEL<enter>"),
		"help":              press(topFunctionsOf(t, 80, 24), "?"),
		"80x24":             usual,
		"40x10":             topScreenOf(40, 10),
		"50x8":              topScreenOf(50, 8),
		"20x3":              topScreenOf(20, 3),
		"1x1":               topScreenOf(1, 1),
		"tasks-160":         topTasks(160, 9),
		"tasks-80":          topTasks(80, 9),
		"tasks-30":          topTasks(30, 9),
		"tasks-sorted":      press(topTasks(100, 9), "22"),
		"first":             first,
		"none":              none,
		"paused":            press(usual, "<space>"),
		"typing":            press(usual, "/Cil"),
		"filtered":          press(usual, "/Cilx<backspace><enter>"),
		"no-match":          press(usual, "/nothing"),
		"sorted":            press(usual, "n<down><down>"),
		"turned":            press(usual, "c"),
		"long":              long(topScreenOf(80, 12), 100),
		"long-middle":       press(long(topScreenOf(80, 12), 100), "<pgdown><pgdown><down>"),
		"long-end":          press(long(topScreenOf(80, 12), 100), "<end>"),
		"drill":             press(shown, "<enter>"),
		"drill-scroll":      press(shown, "<enter><pgdown><down>"),
		"drill-end":         press(shown, "<enter><end>"),
		"drill-read":        reading,
		"drill-failed":      failed.(topScreen),
		"drill-gone":        gone,
	} {
		t.Run(name, func(t *testing.T) {
			text := s.text()
			golden.Compare(t, filepath.Join("testdata", "top-screen-"+name+".golden"),
				strings.NewReplacer("\x1b[1m", "«bold»", "\x1b[7m", "«reverse»", "\x1b[m", "«»").Replace(text)+"\n")
			lines := strings.Split(text, "\n")
			if len(lines) > s.height {
				t.Errorf("%d lines on a terminal of %d", len(lines), s.height)
			}
			for _, l := range lines {
				l = strings.NewReplacer("\x1b[1m", "", "\x1b[7m", "", "\x1b[m", "").Replace(l)
				if n := utf8.RuneCountInString(l); n > s.width || strings.ContainsRune(l, '\x1b') {
					t.Errorf("%d letters on a terminal of %d: %q", n, s.width, l)
				}
			}
		})
	}
	if got := topScreenOf(0, 0).text(); got != "" {
		t.Errorf("%q on a terminal without a size", got)
	}
	if v := usual.View(); !v.AltScreen || v.Content != usual.text() {
		t.Errorf("%+v", v)
	}
}

// TestDistributionsText draws two events, and one without runs.
func TestDistributionsText(t *testing.T) {
	var few, many count.Runs
	few.Buckets[count.BucketOf(3)] = 2
	many.Buckets[count.BucketOf(1000)], many.Buckets[count.BucketOf(5000)] = 10, 40
	got := distributionsText([]top.Distribution{
		{Event: &event.Event{Name: "page-faults", Scale: 1}, Runs: few},
		{Event: &event.Event{Name: "dummy", Scale: 1}},
		{Event: &event.Event{Name: "cpu-clock", Unit: "msec", Scale: 1e-6}, Runs: many},
	})
	golden.Compare(t, filepath.Join("testdata", "top-distributions.golden"), got)
	if got := distributionsText(nil); got != "" {
		t.Errorf("%q of nothing", got)
	}
}

// TestTopKeys presses keys on a list whose IDs are 8, 100000, 7, 100001 and 9 in the order of CPU shares.
func TestTopKeys(t *testing.T) {
	for _, tt := range []struct {
		keys   string
		chosen uint64
		order  top.Order
		filter string
		typing bool
		paused bool
		drill  uint64
	}{
		{keys: "", chosen: 8},
		{keys: "<down>", chosen: 100000},
		{keys: "jjk", chosen: 100000},
		{keys: "<up>", chosen: 8},
		{keys: "<end>", chosen: 9},
		{keys: "G<down>", chosen: 9},
		{keys: "<end><home>", chosen: 8},
		{keys: "<pgdown>", chosen: 9},
		{keys: "<pgdown><pgup>", chosen: 8},
		{keys: "xyz", chosen: 8},
		{keys: "i", chosen: 7, order: top.Order{Column: 3}},
		{keys: "ii", chosen: 100001, order: top.Order{Column: 3, Turned: true}},
		{keys: "iii", chosen: 7, order: top.Order{Column: 3}},
		{keys: "c", chosen: 9, order: top.Order{Turned: true}},
		{keys: "r", chosen: 8, order: top.Order{Column: 1}},
		{keys: "s", chosen: 100000, order: top.Order{Column: 2}},
		{keys: "t", chosen: 9, order: top.Order{Column: 4}},
		{keys: "n", chosen: 100000, order: top.Order{Column: 6}},
		{keys: "<down>i", chosen: 100000, order: top.Order{Column: 3}}, // the selected row stays selected
		{keys: "<space>", chosen: 8, paused: true},
		{keys: "<space><space>", chosen: 8},
		{keys: "/sd q", chosen: 0, filter: "sd q", typing: true},
		{keys: "/SD_<enter>", chosen: 9, filter: "sd_"},
		{keys: "/sx<backspace><backspace><backspace>sd<enter>", chosen: 9, filter: "sd"},
		{keys: "/cil<ctrl+u>sd<enter>", chosen: 9, filter: "sd"},
		{keys: "/sd<esc>", chosen: 8},
		{keys: "/sd<enter><esc>", chosen: 8},
		{keys: "/zzz<enter><enter><down>", chosen: 0, filter: "zzz"},
		{keys: "<enter>", chosen: 8, drill: 8},
		{keys: "<down><enter>", chosen: 100000, drill: 100000},
		{keys: "<enter><esc>", chosen: 8},
		{keys: "<enter><left><down>", chosen: 100000},
		{keys: "<enter><down><space>", chosen: 8, drill: 8, paused: true},
	} {
		s := press(topScreenOf(80, 24), tt.keys)
		var drilled uint64
		if s.drill != nil {
			drilled = s.drill.id
		}
		if s.chosen() != tt.chosen || s.order != tt.order || s.filter != tt.filter || s.typing != tt.typing || s.paused != tt.paused || drilled != tt.drill {
			t.Errorf("%q: chosen %d, order %+v, filter %q (%v), paused %v, drilled %d; want %+v",
				tt.keys, s.chosen(), s.order, s.filter, s.typing, s.paused, drilled, tt)
		}
	}
}

// TestTopEndKeys presses the keys that end or suspend top in all views.
func TestTopEndKeys(t *testing.T) {
	for _, tt := range []struct {
		before, key string
		want        tea.Msg
	}{
		{"", "q", tea.QuitMsg{}},
		{"<enter>", "q", tea.QuitMsg{}},
		{"", "<ctrl+c>", tea.QuitMsg{}},
		{"/", "<ctrl+c>", tea.QuitMsg{}},
		{"", "<ctrl+z>", screenSuspend{}},
		{"/", "<ctrl+z>", screenSuspend{}},
		{"/", "q", nil},
	} {
		_, cmd := press(topScreenOf(80, 24), tt.before).Update(typed(tt.key)[0])
		var got tea.Msg
		if cmd != nil {
			got = cmd()
		}
		if got != tt.want {
			t.Errorf("%q after %q: %#v, want %#v", tt.key, tt.before, got, tt.want)
		}
	}
}

// TestTopUpdate sends messages other than keys.
func TestTopUpdate(t *testing.T) {
	update := func(s topScreen, msg tea.Msg) (topScreen, tea.Cmd) {
		model, cmd := s.Update(msg)
		return model.(topScreen), cmd
	}
	old, fresh := topScreenOf(80, 24), topReadingOf()

	s, cmd := update(old, topRead{reading: fresh})
	if s.shown != fresh || s.latest != fresh || cmd != nil {
		t.Error("a reading is not shown, or ends the screen")
	}
	s, _ = update(press(old, "<space>"), topRead{reading: fresh})
	if s.shown != old.shown || s.latest != fresh {
		t.Error("a reading is shown though the screen is paused")
	}
	if s = press(s, "<space>"); s.shown != fresh {
		t.Error("the latest reading is not shown when it goes on")
	}
	failed := errors.New("failed")
	if s, cmd = update(old, topRead{err: failed}); s.err != failed || cmd == nil || cmd() != (tea.QuitMsg{}) {
		t.Errorf("after a failed reading: %v", s.err)
	}
	if s, _ = update(old, tea.WindowSizeMsg{Width: 7, Height: 5}); s.width != 7 || s.height != 5 {
		t.Errorf("%d by %d", s.width, s.height)
	}
	s, _ = update(press(old, "<enter>"), topExamined{topDetail: topDetail{id: 9}, text: "another"})
	if diff := cmp.Diff([]string{"BPF program 8"}, s.drill.lines); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if s, _ = update(old, topExamined{topDetail: topDetail{id: 8}, text: "late"}); s.drill != nil {
		t.Error("it looks into a program after it was told to go back")
	}
	if s.Init() != nil || press(old, "<enter>").Init() != nil {
		t.Error("it reads details again that it has")
	}
	unread, _ := update(old, typed("<enter>")[0])
	if s, _ = update(unread, unread.Init()()); s.drill.lines == nil {
		t.Error("it does not read the details that a suspension kept from being read")
	}
	moved := press(old, "<down>")
	gone := topReadingOf()
	gone.Rows = gone.Rows[:1]
	if s, _ = update(moved, topRead{reading: gone}); s.chosen() != 7 {
		t.Errorf("%d is chosen as the one that was is gone", s.chosen())
	}
}

// TestTopInstructions shows instructions, first at the hottest one, then wherever the user scrolls to. Only functions have them.
func TestTopInstructions(t *testing.T) {
	s := topScreenOf(80, 14)
	if got := press(s, "a"); got.drill != nil {
		t.Error("BPF programs have instructions")
	}
	reads, hot := 0, 40
	s.live = true
	s.instructions = func(id uint64) (string, error) {
		reads++
		var b strings.Builder
		for i := range 60 {
			share := 0.0
			if i == hot {
				share = 90
			}
			fmt.Fprintf(&b, "%8.2f%8.2f :   %x: nop of %d\n", share, share, i, id)
		}
		return b.String(), nil
	}
	next := func() {
		model, cmd := s.Update(topRead{reading: topReadingOf()})
		s = model.(topScreen)
		model, _ = s.Update(cmd())
		s = model.(topScreen)
	}
	see := func(what string, shown bool) {
		t.Helper()
		if strings.Contains(s.text(), what) != shown {
			t.Errorf("%q is shown: %v, want %v, in\n%s", what, !shown, shown, s.text())
		}
	}
	s = press(s, "<enter>")
	see("a instructions", true)
	s = press(s, "a")
	see("90.00   90.00 :   28: nop of", true)
	see("a instructions", false)
	hot = 2
	next()
	see("28: nop", true)
	s = press(s, "<home>")
	see("90.00   90.00 :   2: nop of", true)
	s = press(s, "<space>")
	if model, cmd := s.Update(topRead{reading: topReadingOf()}); cmd != nil {
		t.Error("a paused screen reads instructions", model)
	}
	if s = press(s, "<esc>"); s.drill != nil || reads != 2 {
		t.Errorf("%d reads, %v", reads, s.drill)
	}
}

// TestFoldNotes breaks a note between words, but nothing else.
func TestFoldNotes(t *testing.T) {
	lines := []string{"   1.00 :   1f: nop of a line that is long", "        : # its code cannot be read: open /proc/kcore", "        : # short"}
	want := []string{lines[0], "        : # its code cannot", "        : # be read: open", "        : # /proc/kcore", lines[2]}
	if diff := cmp.Diff(want, foldNotes(lines, 28)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
