package report

import (
	"context"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bperf/bperf/internal/profile"
	"github.com/bperf/bperf/test/require"
)

// probe clicks, searches and resets, and stores the results in an attribute of the page.
const probe = `<script>
window.addEventListener("load", function () {
  function find(name) { return Array.from(document.querySelectorAll(".f")).find(function (g) { return g.querySelector("text").getAttribute("data-n") === name; }); }
  function shown() { return document.querySelectorAll(".f:not(.hidden)").length; }
  function fill(name) { return getComputedStyle(find(name).querySelector("rect")).fill; }
  var bpf = "bpf_prog_6deef7357e7b4530_count (program 42)", seen = ["all " + shown()];
  find("do_syscall_64").dispatchEvent(new MouseEvent("click", { bubbles: true }));
  seen.push("zoomed " + shown(), "width " + find("do_syscall_64").querySelector("rect").getAttribute("width"));
  document.querySelector("[data-do=reset]").click();
  seen.push("reset " + shown());
  var input = document.querySelector("[data-is=search]");
  input.value = "^(vfs|bpf_prog)_";
  input.dispatchEvent(new Event("input"));
  seen.push(document.querySelector("[data-is=matched]").textContent, "matches " + document.querySelectorAll(".match").length);
  input.value = "";
  input.dispatchEvent(new Event("input"));
  seen.push("cleared " + document.querySelectorAll(".match").length);
  var colours = [fill(bpf), fill("vfs_read"), fill("main.serve")];
  seen.push("colours " + new Set(colours).size);
  seen.push("requests " + performance.getEntriesByType("resource").length);
  document.body.setAttribute("data-seen", seen.join("; "));
});
</script>`

// TestBrowser opens the page with a flame graph in a browser: zoom, search and reset work, BPF code has its own colour, and the page
// fetches nothing.
func TestBrowser(t *testing.T) {
	chromium := require.Browser(t)
	var page strings.Builder
	if err := WriteHTML(&page, mixed(profile.Comm, 1), nil, &Options{}); err != nil {
		t.Fatal(err)
	}
	for _, address := range regexp.MustCompile(`(?i)\b(src|href)=|url\(|@import`).FindAllString(page.String(), -1) {
		t.Errorf("the page has %q", address)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "page.html")
	if err := os.WriteFile(path, []byte(strings.Replace(page.String(), "</body>", probe+"</body>", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--user-data-dir="+dir,
		"--dump-dom", "file://"+path)
	cmd.WaitDelay = time.Minute
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", chromium, err)
	}
	m := regexp.MustCompile(`data-seen="([^"]*)"`).FindSubmatch(out)
	if m == nil {
		t.Fatalf("the script of the page has not run to its end:\n%s", out)
	}
	all := len(regexp.MustCompile(`class="f `).FindAllString(page.String(), -1))
	want := fmt.Sprintf("all %d; zoomed 7; width 100%%; reset %d; Matched: 35.71%%; matches 2; cleared 0; colours 3; requests 0", all, all)
	if got := html.UnescapeString(string(m[1])); got != want {
		t.Errorf("in the browser: %s\nwant %s", got, want)
	}
}
