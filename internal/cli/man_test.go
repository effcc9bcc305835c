package cli

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bperf/bperf/test/require"
)

// manPage returns the man page of a command.
func manPage(cmd *cobra.Command) string {
	var b bytes.Buffer
	writeManPage(&b, cmd, "page")
	return strings.ReplaceAll(b.String(), `\-`, "-")
}

// TestManDefaults wants each default that the help of a command shows in its man page.
func TestManDefaults(t *testing.T) {
	require.NoKernel(t)
	seen := 0
	everyCommand(t, func(t *testing.T, cmd *cobra.Command) {
		page := manPage(cmd)
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			var one pflag.FlagSet
			one.AddFlag(f)
			_, preset, found := strings.Cut(one.FlagUsages(), "(default ")
			if !found || f.Hidden {
				return
			}
			seen++
			item := regexp.MustCompile(`(?m)^\.B .*--` + regexp.QuoteMeta(f.Name) + `\b.*\n.*\(default ` + regexp.QuoteMeta(strings.TrimSpace(preset)))
			if !item.MatchString(page) {
				t.Errorf("the page has no default of --%s: %s", f.Name, preset)
			}
		})
	})
	if seen < 50 {
		t.Errorf("%d defaults", seen)
	}
}

// TestManReferences wants the sections that each page has, and the pages of bperf that it refers to.
func TestManReferences(t *testing.T) {
	require.NoKernel(t)
	pages := make(map[string]bool)
	everyCommand(t, func(_ *testing.T, cmd *cobra.Command) { pages[pageName(cmd)] = true })
	everyCommand(t, func(t *testing.T, cmd *cobra.Command) {
		if !hasPage(cmd) || isTopic(cmd) || cmd.HasParent() && !hasPage(cmd.Parent()) {
			return
		}
		page, at := manPage(cmd), 0
		for _, section := range []string{"SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "ENVIRONMENT", "SEE ALSO"} {
			next := strings.Index(page, "\n.SH "+section+"\n")
			if next < at {
				t.Errorf("%s is missing, or not where it should be", section)
			}
			at = max(at, next)
		}
		references := seeAlso(cmd)
		if len(references) == 0 || slices.Contains(references, pageName(cmd)) {
			t.Errorf("it refers to %v", references)
		}
		for _, r := range references {
			if strings.HasPrefix(r, "bperf") && !pages[r] {
				t.Errorf("it refers to %s, which does not exist", r)
			}
		}
	})
}

// TestManStatuses wants each exit status that the page of a command in docs names in its man page.
func TestManStatuses(t *testing.T) {
	require.NoKernel(t)
	for name, paths := range map[string][]string{
		"stat": {"stat"}, "record": {"record"}, "profile": {"profile"}, "doctor": {"doctor"}, "list": {"list"}, "counters": {"counters"},
		"top": {"top"}, "config": {"config"}, "prog": {"prog list", "prog show", "prog stats", "prog watch"},
	} {
		text, err := os.ReadFile(filepath.Join("../../docs", name+".md"))
		if err != nil {
			t.Fatal(err)
		}
		documented := documentedStatuses(string(text))
		if len(documented) == 0 {
			t.Errorf("docs/%s.md has no exit status", name)
		}
		for _, path := range paths {
			cmd, _, err := newRootCommand("bperf", nil).Find(strings.Fields(path))
			if err != nil {
				t.Fatal(err)
			}
			_, statuses, _ := strings.Cut(manPage(cmd), ".SH EXIT STATUS\n")
			statuses, _, _ = strings.Cut(statuses, ".SH ")
			for n := range documented {
				if !regexp.MustCompile(`(?m)^\.B ` + n + `\b`).MatchString(statuses) {
					t.Errorf("docs/%s.md has the exit status %s, which the man page of %s lacks", name, n, path)
				}
			}
		}
	}
}

// documentedStatuses returns the numbers in the cells of tables below a heading "Exit status", and behind these words in paragraphs.
func documentedStatuses(page string) map[string]bool {
	number := regexp.MustCompile(`(?:^|[^.\w])(\d{1,3})(?:[^.\w]|\.\s|\.?$)`) // no version, such as 5.16
	heading, cells := regexp.MustCompile(`(?m)^## Exit status`), regexp.MustCompile(`(?m)\| *((?:\d+(?:, )?)+)(?:,| \+| *\|)`)
	found := make(map[string]bool)
	add := func(text string) {
		for _, n := range number.FindAllStringSubmatch(text, -1) {
			found[n[1]] = true
		}
	}
	below := false
	for paragraph := range strings.SplitSeq(page, "\n\n") {
		_, behind, named := strings.Cut(strings.ToLower(paragraph), "exit status")
		switch {
		case below && strings.HasPrefix(paragraph, "|"):
			for _, cell := range cells.FindAllStringSubmatch(paragraph, -1) {
				add(cell[1])
			}
		case named:
			add(behind)
		}
		below = heading.MatchString(paragraph)
	}
	return found
}

// TestManEnvironment wants each environment variable that the code reads in a man page.
func TestManEnvironment(t *testing.T) {
	require.NoKernel(t)
	constants, read := make(map[string]string), make(map[string]string) // name to value; name, or value in quotes, to the place
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for i, name := range n.Names {
					if i < len(n.Values) {
						if text, ok := stringOf(n.Values[i]); ok {
							constants[name.Name] = text
						}
					}
				}
			case *ast.CallExpr:
				for i, arg := range n.Args[:min(len(n.Args), 2)] {
					passed := i == 1 && nameOf(n.Args[0]) == "getenv"
					if i == 0 && slices.Contains([]string{"Getenv", "LookupEnv", "getenv"}, nameOf(n.Fun)) || passed {
						if text, ok := stringOf(arg); ok {
							read[strconv.Quote(text)] = set.Position(n.Pos()).String()
						} else {
							read[nameOf(arg)] = set.Position(n.Pos()).String()
						}
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	delete(read, "name") // parameters of functions whose callers are found
	pages := ""
	everyCommand(t, func(_ *testing.T, cmd *cobra.Command) { pages += manPage(cmd) })
	for name, place := range read {
		value := strings.Trim(name, `"`)
		if value == name {
			value = constants[name]
		}
		if value == "" || !regexp.MustCompile(`(?m)^\.B (.*, )?`+regexp.QuoteMeta(value)+`\b`).MatchString(pages) {
			t.Errorf("%s reads the variable %s (%q), which no man page has", place, name, value)
		}
	}
	for _, known := range []string{`"DEBUGINFOD_TIMEOUT"`, `"PERF_CONFIG"`, "CPUVariable", `"PATH"`} {
		if read[known] == "" {
			t.Errorf("the test does not see where %s is read", known)
		}
	}
}

// nameOf returns the last name of an expression such as os.Getenv.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// stringOf returns the value of a string literal.
func stringOf(e ast.Expr) (string, bool) {
	literal, ok := e.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(literal.Value)
	return text, err == nil
}

// TestManWarnings formats each page with groff, which warns of macros and escapes that it does not know.
func TestManWarnings(t *testing.T) {
	require.Tools(t, "groff")
	everyCommand(t, func(t *testing.T, cmd *cobra.Command) {
		var page bytes.Buffer
		writeManPage(&page, cmd, "page")
		format := exec.Command("groff", "-k", "-man", "-Tutf8", "-ww", "-rLL=100n")
		format.Stdin = &page
		if got := run(t, format); got.status != 0 || strings.Contains(got.stderr, "warning") && !strings.Contains(got.stderr, "can't break line") {
			t.Errorf("status %d: %s", got.status, got.stderr)
		}
	})
}
