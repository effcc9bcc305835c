package cli

import (
	"slices"
	"strings"
	"sync"
	"unicode"

	tea "charm.land/bubbletea/v2"

	"github.com/bperf/bperf/internal/report"
)

// reportScreen is the state of a report on a terminal. Update changes it, and text draws it.
type reportScreen struct {
	walk    *report.Walk
	stacks  bool // walk has the stacks of samples
	options *report.Options
	reportActions

	width, height int
	number        int // of the table that is shown
	table         *report.WalkTable
	zooms         []report.Zoom
	filter        string        // part of names, in lower case
	rows          []*reportNode // all rows of the table
	lines         []*reportNode // the list: rows that match the filter, and what is open below them
	cursor, first int           // indexes in lines: the selected one, and the one at the top of the screen
	prompt        *reportPrompt // nil while the user types nothing
	page          *reportPage   // shown in place of the list; nil for none
	job           *reportJob    // what runs in the background; nil for nothing
	note          string        // what came of the last key
	suspended     bool          // the process shall stop until it is continued
}

// reportActions are what a reportScreen needs from outside. They run in the background, one at a time.
type reportActions struct {
	read     func(o *report.Options) (*report.Walk, error)        // reads the recording again, for other keys
	annotate func(f report.WalkFunction) (text string, err error) // returns a function with its instructions
	write    func(text string) (path string, err error)           // writes to a new file
}

// reportPrompt is a text that the user types.
type reportPrompt struct {
	text string
	sort bool // keys to sort by; otherwise a part of names
}

// reportPage is a text to scroll.
type reportPage struct {
	title string
	lines []string
	first int // index of the first line on the screen
}

// reportJob is what runs in the background.
type reportJob struct {
	what string
	once sync.Once
	work func() (apply func(*reportScreen))
	then func(*reportScreen) // set by work
}

// reportDone is the message that a job has ended.
type reportDone struct{ job *reportJob }

// wait returns when the job is done. The job starts with the first call.
func (j *reportJob) wait() tea.Msg {
	j.once.Do(func() { j.then = j.work() })
	return reportDone{j}
}

// Init waits for the job that a suspension did not wait for.
func (s *reportScreen) Init() tea.Cmd {
	if s.job != nil {
		return s.job.wait
	}
	return nil
}

// ended implements screen.
func (s *reportScreen) ended() (again screen, err error) {
	if !s.suspended {
		return nil, nil
	}
	s.suspended = false
	return s, nil
}

// start starts a job. what completes "bperf is …".
func (s *reportScreen) start(what string, work func() (apply func(*reportScreen))) tea.Cmd {
	if s.job != nil {
		s.note = "bperf is still " + s.job.what
		return nil
	}
	s.job = &reportJob{what: what, work: work}
	return s.job.wait
}

// Update handles a message.
func (s *reportScreen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var cmd tea.Cmd
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		s.width, s.height = msg.Width, msg.Height
	case reportDone:
		if msg.job == s.job {
			s.job = nil
			msg.job.then(s)
		}
	case screenSuspend:
		if canStop() {
			s.suspended = true
			cmd = tea.Quit
		}
	case tea.KeyPressMsg:
		cmd = s.press(msg)
	}
	s.scroll()
	return s, cmd
}

// scroll moves the selected line onto the screen.
func (s *reportScreen) scroll() {
	s.cursor = max(0, min(s.cursor, len(s.lines)-1))
	s.first = max(0, min(s.first, s.cursor, len(s.lines)-s.room()), s.cursor-s.room()+1)
}

// press handles a key.
func (s *reportScreen) press(key tea.KeyPressMsg) tea.Cmd {
	s.note = ""
	switch name := key.String(); {
	case name == "ctrl+c":
		return tea.Quit
	case name == "ctrl+z":
		return func() tea.Msg { return screenSuspend{} }
	case s.prompt != nil:
		return s.pressPrompt(key)
	case s.page != nil:
		s.pressPage(name)
		return nil
	default:
		return s.pressList(name)
	}
}

// pressPrompt changes what the user types. The list follows a filter letter by letter.
func (s *reportScreen) pressPrompt(key tea.KeyPressMsg) tea.Cmd {
	p := s.prompt
	switch key.String() {
	case "enter":
		s.prompt = nil
		if p.sort && p.text != "" {
			return s.sortBy(p.text)
		}
		return nil
	case "esc":
		p.text, s.prompt = "", nil
	case "backspace":
		if letters := []rune(p.text); len(letters) > 0 {
			p.text = string(letters[:len(letters)-1])
		}
	case "ctrl+u":
		p.text = ""
	default:
		if !strings.ContainsFunc(key.Text, unicode.IsControl) {
			p.text += key.Text
		}
	}
	if !p.sort {
		s.filter = strings.ToLower(p.text)
		s.list(nil)
	}
	return nil
}

func (s *reportScreen) pressPage(key string) {
	switch key {
	case "q", "esc", "left", "backspace", "enter":
		s.page = nil
	default:
		room := s.pageRoom()
		s.page.first = moved(key, s.page.first, room, len(foldNotes(s.page.lines, s.width))-room+1)
	}
}

func (s *reportScreen) pressList(key string) tea.Cmd {
	switch key {
	case "q":
		return tea.Quit
	case "?", "h":
		s.page = &reportPage{title: "Keys", lines: strings.Split(reportKeys, "\n")}
	case "/":
		s.prompt = &reportPrompt{}
		s.filter = ""
		s.list(nil)
	case "n", "N":
		s.find(key == "N")
	case "s":
		s.prompt = &reportPrompt{sort: true}
	case "tab", "E":
		return s.show((s.number+1)%s.walk.Tables(), s.options, s.zooms)
	case "shift+tab":
		return s.show((s.number+s.walk.Tables()-1)%s.walk.Tables(), s.options, s.zooms)
	case "esc":
		return s.undo()
	case "P":
		s.export()
	case "enter", "right", "left", "backspace", "e", "c", "a", "t", "d":
		if len(s.lines) > 0 {
			return s.pressLine(key, s.lines[s.cursor])
		}
	default:
		s.cursor = moved(key, s.cursor, s.room(), len(s.lines))
	}
	return nil
}

// pressLine handles the keys that are about the selected line.
func (s *reportScreen) pressLine(key string, n *reportNode) tea.Cmd {
	switch key {
	case "enter":
		if n.open {
			n.open = false
		} else {
			n.expand()
		}
		s.list(n)
	case "right":
		n.expand()
		s.list(n)
	case "left", "backspace":
		if n.open || n.parent == nil {
			n.open = false
		} else {
			n = n.parent
		}
		s.list(n)
	case "e":
		n.root().expandAll()
		s.list(n)
	case "c":
		n.root().collapseAll()
		s.list(n.root())
	case "a":
		return s.annotateNode(n)
	case "t":
		return s.zoom(n.root().row.ZoomThread())
	case "d":
		return s.zoom(n.root().row.ZoomFile())
	}
	return nil
}

// list makes the list of lines, and selects a node, or the first line if the node is not in the list. If no row has the filter in its keys,
// rows with it in their call trees are in the list.
func (s *reportScreen) list(selected *reportNode) {
	s.lines = s.lines[:0]
	for _, n := range s.matching() {
		s.lines = n.appendOpen(s.lines)
	}
	s.cursor = max(0, slices.Index(s.lines, selected))
}

// matching returns the rows that match the filter.
func (s *reportScreen) matching() []*reportNode {
	if s.filter == "" {
		return s.rows
	}
	var rows []*reportNode
	for _, match := range []func(*report.WalkRow, string) bool{(*report.WalkRow).Has, (*report.WalkRow).HasCall} {
		for _, n := range s.rows {
			if match(n.row, s.filter) {
				rows = append(rows, n)
			}
		}
		if len(rows) > 0 {
			break
		}
	}
	return rows
}

// find selects the next or the previous line with the filter in its name, and opens what it is in.
func (s *reportScreen) find(back bool) {
	if s.filter == "" {
		s.note = "nothing to search for: type / and a part of a name first"
		return
	}
	var all []*reportNode
	for _, n := range s.matching() {
		all = n.appendAll(all)
	}
	if len(all) == 0 {
		return
	}
	at, step := slices.Index(all, s.lines[s.cursor]), 1
	if back {
		step = len(all) - 1
	}
	for range all {
		at = (at + step) % len(all)
		if all[at].has(s.filter) {
			for up := all[at].parent; up != nil; up = up.parent {
				up.open = true
			}
			s.list(all[at])
			return
		}
	}
}

// show shows a table, with other options or zooms.
func (s *reportScreen) show(number int, o *report.Options, zooms []report.Zoom) tea.Cmd {
	walk := s.walk
	return s.start("making the table", func() func(*reportScreen) {
		t, err := walk.Table(number, o, zooms)
		return func(s *reportScreen) { s.shown(t, err, number, o, zooms) }
	})
}

// shown takes a table over, unless there was an error.
func (s *reportScreen) shown(t *report.WalkTable, err error, number int, o *report.Options, zooms []report.Zoom) {
	if err != nil {
		s.note = err.Error()
		return
	}
	s.table, s.number, s.options, s.zooms = t, number, o, zooms
	s.rows = nil
	for _, r := range t.Rows {
		s.rows = append(s.rows, &reportNode{row: r})
	}
	s.list(nil)
}

// zoom leaves only a thread or a file.
func (s *reportScreen) zoom(z report.Zoom, err error) tea.Cmd {
	if err != nil {
		s.note = err.Error()
		return nil
	}
	if slices.Contains(s.zooms, z) {
		s.note = "that is all that is shown: only " + z.String()
		return nil
	}
	return s.show(s.number, s.options, append(slices.Clone(s.zooms), z))
}

// undo drops the filter of names or, if there is none, the last zoom.
func (s *reportScreen) undo() tea.Cmd {
	switch last := len(s.zooms) - 1; {
	case s.filter != "":
		s.filter = ""
		selected := (*reportNode)(nil)
		if len(s.lines) > 0 {
			selected = s.lines[s.cursor]
		}
		s.list(selected)
	case last >= 0:
		return s.show(s.number, s.options, s.zooms[:last:last])
	}
	return nil
}

// sortBy shows the rows of other keys. If the profile does not have the keys, bperf reads the recording again.
func (s *reportScreen) sortBy(text string) tea.Cmd {
	o := *s.options
	o.Fields = nil
	if err := o.SetSort(strings.Split(text, ","), nil); err != nil {
		s.note = err.Error()
		return nil
	}
	needed, err := o.NeededKeys()
	if err != nil {
		s.note = err.Error()
		return nil
	}
	if s.walk.Profile().Keys().Has(needed) && (s.stacks || !o.NeedsStacks()) {
		return s.show(s.number, &o, s.zooms)
	}
	number, zooms, read := s.number, s.zooms, s.read
	return s.start("reading the recording again: the samples in memory do not have these keys", func() func(*reportScreen) {
		walk, err := read(&o)
		if err != nil {
			return func(s *reportScreen) { s.note = err.Error() }
		}
		if walk.Tables() == 0 {
			return func(s *reportScreen) { s.note = "the recording has no samples any more" }
		}
		number = min(number, walk.Tables()-1)
		t, err := walk.Table(number, &o, zooms)
		return func(s *reportScreen) {
			if s.shown(t, err, number, &o, zooms); err == nil {
				s.walk, s.stacks = walk, o.NeedsStacks()
			}
		}
	})
}

// annotateNode shows the instructions of a line's function.
func (s *reportScreen) annotateNode(n *reportNode) tea.Cmd {
	f, ok := n.function, true
	if n.row != nil {
		f, ok = n.row.Function()
	}
	switch {
	case !ok:
		s.note = "a row can be of several functions: sort by symbol first"
	case f.Symbol == "":
		s.note = f.Name + " is in no known function"
	case f.Inlined:
		s.note = f.Name + " has no instructions of its own: annotate the function that it is in"
	default:
		annotate := s.annotate
		return s.start("reading the recording for the instructions of "+f.Name, func() func(*reportScreen) {
			text, err := annotate(f)
			return func(s *reportScreen) { s.annotated(f, text, err) }
		})
	}
	return nil
}

// annotated shows the text of a function, at the instruction with the most samples.
func (s *reportScreen) annotated(f report.WalkFunction, text string, err error) {
	if err != nil {
		s.note = err.Error()
		return
	}
	p := &reportPage{title: "Instructions of " + f.Name, lines: strings.Split(strings.TrimRight(text, "\n"), "\n")}
	lines := foldNotes(p.lines, s.width)
	at, _ := hottest(lines)
	room := s.pageRoom()
	p.first = max(0, min(at-room/2, len(lines)-room))
	s.page = p
}

// export writes the list to a file.
func (s *reportScreen) export() {
	path, err := s.write(s.plainText())
	if err != nil {
		s.note = err.Error()
		return
	}
	s.note = "wrote " + path
}
