package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bperf/bperf/test/require"
)

// chromium is a browser that a test drives through the DevTools protocol, over pipes: it listens nowhere.
type chromium struct {
	commands   io.Writer
	answers    chan devtools
	session    string // of the only tab
	last       int    // number of the last command
	complaints []string
	requests   []string // addresses that the page asked for
}

// devtools is a message of the DevTools protocol.
type devtools struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// browserPatience is how long a test waits for a browser. It only ends tests that hang.
const browserPatience = 5 * time.Minute

// startChromium starts Chromium with an empty tab. It ends with the test.
func startChromium(t *testing.T) *chromium {
	t.Helper()
	path := require.Browser(t)
	dir, err := os.MkdirTemp("", "bperf-browser-")
	if err != nil {
		t.Fatal(err)
	}
	var ours, theirs [2]*os.File
	for i := range ours {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		ours[i], theirs[i] = w, r
		if i == 1 {
			ours[i], theirs[i] = r, w
		}
	}
	cmd := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions", "--no-first-run",
		"--user-data-dir="+filepath.Join(dir, "data"), "--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = theirs[:] // 3 and 4, as the option says
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, f := range theirs {
		f.Close()
	}
	c := &chromium{commands: ours[0], answers: make(chan devtools, 1000)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(c.answers)
		messages := bufio.NewReader(ours[1])
		for {
			text, err := messages.ReadBytes(0)
			if err != nil {
				return
			}
			var m devtools
			if json.Unmarshal(bytes.TrimSuffix(text, []byte{0}), &m) == nil {
				c.answers <- m
			}
		}
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // fails if it has exited
		_ = cmd.Wait()
		ours[0].Close()
		ours[1].Close()
		for range c.answers { // what came after the last command
		}
		<-read
		for os.RemoveAll(dir) != nil { // processes of the browser that have not quite ended write files
			time.Sleep(10 * time.Millisecond)
		}
	})
	var tab struct{ TargetID, SessionID string }
	c.do(t, "Target.createTarget", map[string]any{"url": "about:blank"}, &tab)
	c.do(t, "Target.attachToTarget", map[string]any{"targetId": tab.TargetID, "flatten": true}, &tab)
	c.session = tab.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		c.do(t, domain+".enable", nil, nil)
	}
	return c
}

// do runs a command, and decodes its result unless result is nil.
func (c *chromium) do(t *testing.T, method string, params map[string]any, result any) {
	t.Helper()
	m := c.answer(t, method, params)
	if m.Error != nil {
		t.Fatalf("%s %v: %s", method, params, m.Error)
	}
	if result == nil {
		return
	}
	if err := json.Unmarshal(m.Result, result); err != nil {
		t.Fatalf("%s: %v", method, err)
	}
}

// answer runs a command and returns its answer.
func (c *chromium) answer(t *testing.T, method string, params map[string]any) devtools {
	t.Helper()
	c.last++
	text, err := json.Marshal(params)
	if err != nil {
		t.Fatal(err)
	}
	if params == nil {
		text = nil
	}
	message, err := json.Marshal(devtools{ID: c.last, Session: c.session, Method: method, Params: text})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.commands.Write(append(message, 0)); err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	timeout := time.After(browserPatience)
	for {
		select {
		case m, open := <-c.answers:
			if !open {
				t.Fatalf("%s: the browser has ended", method)
			}
			if m.ID == c.last {
				return m
			}
			c.note(m)
		case <-timeout:
			t.Fatalf("%s: no answer", method)
		}
	}
}

// note keeps complaints and requests.
func (c *chromium) note(m devtools) {
	switch m.Method {
	case "Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled":
		c.complaints = append(c.complaints, string(m.Params))
	case "Network.requestWillBeSent":
		var sent struct{ Request struct{ URL string } }
		if json.Unmarshal(m.Params, &sent) == nil {
			c.requests = append(c.requests, sent.Request.URL)
		}
	}
}

// value evaluates an expression, and returns its value as text: an error if the page leaves for another one meanwhile.
func (c *chromium) value(t *testing.T, expression string) string {
	t.Helper()
	m := c.answer(t, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true})
	if m.Error != nil {
		return string(m.Error)
	}
	var got struct {
		Result           struct{ Value any }
		ExceptionDetails json.RawMessage
	}
	if err := json.Unmarshal(m.Result, &got); err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	if got.ExceptionDetails != nil {
		return "exception " + string(got.ExceptionDetails)
	}
	return fmt.Sprint(got.Result.Value)
}

// await waits until an expression is true. It may be evaluated while a page is still loading.
func (c *chromium) await(t *testing.T, expression string) {
	t.Helper()
	for end := time.Now().Add(browserPatience); c.value(t, expression) != "true"; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s is never true, at %s\n%s", expression, c.value(t, "location.href"), c.value(t, "document.body.innerText"))
		}
	}
}

// open goes to an address, and waits for the whole page.
func (c *chromium) open(t *testing.T, address, ready string) {
	t.Helper()
	c.do(t, "Page.navigate", map[string]any{"url": address}, nil)
	c.await(t, loaded+ready)
}

// loaded is true when a page and its scripts are there.
const loaded = `document.readyState === "complete" && `

// press presses a key.
func (c *chromium) press(t *testing.T, key string) {
	t.Helper()
	codes := map[string]int{"Tab": 9, "Enter": 13, "Escape": 27}
	down := map[string]any{"type": "rawKeyDown", "key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
	if key == "Enter" {
		down["type"], down["text"] = "keyDown", "\r"
	}
	c.do(t, "Input.dispatchKeyEvent", down, nil)
	c.do(t, "Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": codes[key]}, nil)
}

// tabTo presses Tab until the focus is on what an expression of "e", the element with the focus, is true for.
func (c *chromium) tabTo(t *testing.T, what string) {
	t.Helper()
	for range 500 {
		c.press(t, "Tab")
		if c.value(t, `(e => `+what+`)(document.activeElement)`) == "true" {
			return
		}
	}
	t.Fatalf("Tab does not lead to what is %s", what)
}

// drag moves the mouse over the histogram, from one part of its width to another.
func (c *chromium) drag(t *testing.T, from, to float64) {
	t.Helper()
	var box struct{ X, Y, Width, Height float64 }
	text := c.value(t, `document.querySelector("svg.times").scrollIntoView(), JSON.stringify(document.querySelector("svg.times").getBoundingClientRect())`)
	if err := json.Unmarshal([]byte(text), &box); err != nil {
		t.Fatal(err, text)
	}
	for _, m := range []struct {
		kind string
		at   float64
	}{{"mousePressed", from}, {"mouseMoved", (from + to) / 2}, {"mouseMoved", to}, {"mouseReleased", to}} {
		c.do(t, "Input.dispatchMouseEvent", map[string]any{"type": m.kind, "x": box.X + m.at*box.Width, "y": box.Y + box.Height/2, "button": "left",
			"buttons": 1, "clickCount": 1}, nil)
	}
}

// size sets the size of the window.
func (c *chromium) size(t *testing.T, width, height int) {
	t.Helper()
	c.do(t, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
}

// colours sets what the user prefers: light or dark.
func (c *chromium) colours(t *testing.T, scheme string) {
	t.Helper()
	c.do(t, "Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// graph is an expression for the text above the flame graph.
const graph = `document.querySelector("section p").innerText`

// contrast is an expression for the contrast of a page's text (WCAG 2, from 1 to 21).
const contrast = `(() => {
	const luminance = c => c.match(/[\d.]+/g).slice(0, 3).map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
		.reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
	const background = document.createElement("div");
	background.style.color = "Canvas"; document.body.append(background);
	const of = [getComputedStyle(document.querySelector(".note, th")).color, getComputedStyle(background).color].map(luminance);
	background.remove();
	return (Math.max(...of) + 0.05) / (Math.min(...of) + 0.05) >= 4.5;
})()`

// TestBrowseChromium goes through the pages of --http in Chromium, from the address that bperf prints: flame graph, search, threads, times,
// a function's source, a difference; with the mouse and by keyboard, in wide and narrow windows, light and dark. Nothing else than bperf may
// be asked, and the browser must not complain.
func TestBrowseChromium(t *testing.T) {
	require.NoKernel(t)
	require.Browser(t)
	served := servePages(t, "report", "-i", writeThreads(t, 0), "--kallsyms", kernelSymbols(t, walkSymbols), "--diff", writeThreads(t, 1), "--http")
	c := startChromium(t)
	c.size(t, 1200, 900)
	c.open(t, served.url, `location.search === "" && document.querySelectorAll(".f").length > 10`)
	c.await(t, graph+`.includes("cpu-clock: 300 samples")`)

	c.tabTo(t, `e.dataset.is === "search"`)
	c.do(t, "Input.insertText", map[string]any{"text": "^schedule$"}, nil)
	c.await(t, `document.querySelectorAll(".match").length > 0 && document.querySelector("[data-is=matched]").textContent.includes("49.87%")`)
	c.tabTo(t, `e.matches(".f") && e.querySelector("text").dataset.n === "do_syscall_64"`)
	frames := c.value(t, `document.querySelectorAll(".f:not(.hidden)").length`)
	c.press(t, "Enter")
	c.await(t, `document.querySelectorAll(".f:not(.hidden)").length < `+frames)
	c.press(t, "Escape")
	c.await(t, `document.querySelectorAll(".f:not(.hidden)").length === `+frames)

	c.value(t, `(s => { s.value = "203"; s.dispatchEvent(new Event("change", { bubbles: true })); })(document.querySelector("[name=tid]"))`)
	c.await(t, loaded+`location.search.includes("tid=203") && document.querySelector("[name=tid]").value === "203"`)
	whole := c.value(t, graph)
	c.drag(t, 0.25, 0.5)
	c.await(t, loaded+`location.search.includes("from=0.1") && `+graph+` !== `+fmt.Sprintf("%q", whole))
	chosen, err := url.Parse(c.value(t, "location.href"))
	if err != nil {
		t.Fatal(err)
	}
	q := chosen.Query()
	if served.get(t, "/?"+url.Values{"tid": {"203"}, "from": q["from"], "to": q["to"]}.Encode()); q.Get("tid") != "203" || q.Get("to")[:3] != "0.2" {
		t.Errorf("dragging over a quarter led to %s", chosen)
	}

	c.tabTo(t, `e.matches("td.name a") && e.textContent.includes("sum_up")`)
	c.press(t, "Enter")
	c.await(t, loaded+`location.pathname === "/function" && [...document.querySelectorAll("tr.source")].some(r => r.innerText.includes("for (u32 i = 0;"))`)
	c.checkLook(t, "the function's page")
	c.tabTo(t, `e.textContent === "Back to the profile"`)
	c.press(t, "Enter")
	c.await(t, loaded+`location.pathname === "/" && document.querySelector("[name=tid]").value === "203"`)

	c.tabTo(t, `e.textContent === "Show all"`)
	c.press(t, "Enter")
	c.await(t, loaded+`location.search === "" && document.querySelector("[name=diff]").value === ""`)
	c.value(t, `(s => { s.value = "base"; s.dispatchEvent(new Event("change", { bubbles: true })); })(document.querySelector("[name=diff]"))`)
	c.await(t, loaded+`location.search.includes("diff=base") && document.body.innerText.includes("Red has grown, blue has shrunk.")`)
	c.checkLook(t, "the difference")
	c.open(t, served.address+"/", graph+`.includes("300 samples")`)
	c.checkLook(t, "the first page")

	for _, address := range c.requests {
		if u, err := url.Parse(address); err != nil || u.Scheme+"://"+u.Host != served.address && address != "about:blank" {
			t.Errorf("the browser asked for %s", address)
		}
	}
	if i := slices.IndexFunc(c.requests, func(a string) bool { return strings.Contains(a, "/function") }); i < 0 {
		t.Errorf("the requests of the browser were not seen: %q", c.requests)
	}
	if len(c.complaints) > 0 {
		t.Error(errors.New(strings.Join(c.complaints, "\n")))
	}
}

// checkLook checks a page in windows from 400 pixels on, light and dark: nothing is wider than the window, and text can be read.
func (c *chromium) checkLook(t *testing.T, page string) {
	t.Helper()
	for _, scheme := range []string{"dark", "light"} {
		c.colours(t, scheme)
		for _, width := range []int{400, 1200} {
			c.size(t, width, 900)
			if got := c.value(t, "document.documentElement.scrollWidth <= innerWidth && innerWidth"); got != fmt.Sprint(width) {
				t.Errorf("%s is wider than a window of %d pixels: %s", page, width, got)
			}
			if c.value(t, contrast) != "true" {
				t.Errorf("%s: the text can hardly be read, %s", page, scheme)
			}
		}
	}
}
