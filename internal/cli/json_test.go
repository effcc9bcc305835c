package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bperf/bperf/internal/report"
	"github.com/bperf/bperf/test/golden"
	"github.com/bperf/bperf/test/require"
)

var stamp = regexp.MustCompile(`(?m)^  "(bperf|kernel|time)": ".+",$`)

// withoutStamp replaces what differs from run to run in a document's envelope.
func withoutStamp(document string) string { return stamp.ReplaceAllString(document, `  "$1": "…",`) }

// unwrap decodes the data of a document, or of a line of a stream. It fails the test if the envelope is not that of the schema.
func unwrap(t *testing.T, text string, s schema, data any) {
	t.Helper()
	var e struct {
		Schema        schema
		Bperf, Kernel string
		Time          time.Time
		Data          json.RawMessage
	}
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	document := strings.Count(text, "\n") > 1
	if e.Schema != s || (e.Bperf != "") != document || (e.Kernel != "") != document || e.Time.IsZero() {
		t.Errorf("the envelope is %.200q, want one of %s", text, s)
	}
	if err := json.Unmarshal(e.Data, data); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
}

func TestEnvelope(t *testing.T) {
	require.NoKernel(t)
	at := time.Date(2026, 11, 28, 7, 0, 0, 5, time.FixedZone("", 3600))
	var line, document bytes.Buffer
	if err := writeRecord(&line, mapSchema, at, []string{"a\n\x9b<"}); err != nil {
		t.Fatal(err)
	}
	if want := `{"schema":"bperf.map/1","time":"2026-11-28T06:00:00.000000005Z","data":["a\n\ufffd<"]}` + "\n"; line.String() != want {
		t.Errorf("wrote %s, want %s", &line, want)
	}
	if err := writeDocument(&document, mapSchema, map[string]int{"a": 1}); err != nil {
		t.Fatal(err)
	}
	want := "{\n  \"schema\": \"bperf.map/1\",\n  \"bperf\": \"…\",\n  \"kernel\": \"…\",\n  \"time\": \"…\",\n  \"data\": {\n    \"a\": 1\n  }\n}\n"
	if got := withoutStamp(document.String()); got != want {
		t.Errorf("wrote\n%s, want\n%s", got, want)
	}
	release, err := kernelRelease()
	if err != nil || !strings.Contains(document.String(), strconv.Quote(release)) || !strings.Contains(document.String(), strconv.Quote(currentVersion())) {
		t.Errorf("%v: the version of bperf or of the kernel is missing in\n%s", err, &document)
	}
	if err := writeDocument(brokenPipe{}, mapSchema, 1); err == nil {
		t.Error("a document to a broken pipe is no error")
	}
	failed := errors.New("failed")
	if err := writeDocument(&document, mapSchema, unencodable{failed}); !errors.Is(err, failed) {
		t.Errorf("data that cannot be encoded: %v", err)
	}
}

type unencodable struct{ err error }

func (u unencodable) MarshalText() ([]byte, error) { return nil, u.err }

// jsonDoc is a section of docs/json.md: the Go type of the data in a package below internal.
type jsonDoc struct {
	title, schema, dir, typ, text string
}

var jsonDocs = []jsonDoc{
	{"doctor --json", "bperf.doctor/1", "kernel", "Finding", "A document. `data` is an array of objects, one for each feature:"},
	{"counters --json", "bperf.counters/1", "cli", "countersJSON", "A document. `data` is an object:"},
	{"prog list --json", "bperf.prog-list/1", "cli", "progListJSON", "A document. `data` is an object:"},
	{"prog show --json", "bperf.prog-show/1", "cli", "progShowJSON", "A document. `data` is an array of objects, one for each program:"},
	{"prog stats --json", "bperf.prog-stats/1", "cli", "statsJSON", "A line for each program in each interval. `time` is the end of the interval, `data` an object:"},
	{"prog watch --json", "bperf.prog-watch/1", "bpfprog", "Change", "A line for each change. `time` is when it happened, `data` an object:"},
	{"top --json", "bperf.top/1", "cli", "topJSON", "A line for each interval. `time` is its end, `data` an object:"},
	{"report --json, profile --json", "bperf.profile/1", "report", "JSON",
		"A document; with `profile -I`, a line for each interval, and `time` is its end. `--format json` is the same. `data` is an object:"},
	{"diff --json", "bperf.diff/1", "report", "DiffJSON", "A document. `data` is an object:"},
	{"annotate --json", "bperf.annotate/1", "annotate", "Report", "A document. `--format json` is the same. `data` is an object:"},
	{"record, profile --map-format json", "bperf.map/1", "cli", "mapJSON",
		"A line for each BPF map of `--prog` that has entries. `time` is when it was read, `data` an object:"},
	{"script --json", "", "script", "sampleJSON", "A line for each sample, without an envelope. Each line is an object:"},
	{"script --json of a recording of stat record", "", "script", "countJSON", "A line for each count, without an envelope. Each line is an object:"},
}

// TestJSONDocs makes docs/json.md: the keys of bperf's own JSON, from its Go types and their comments.
func TestJSONDocs(t *testing.T) {
	require.NoKernel(t)
	doc, err := os.ReadFile("../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := strings.Cut(string(doc), "\n## `")
	w := &docWriter{t: t, packages: map[string]*docPackage{}, written: map[docType]string{}}
	var documented []string
	for _, d := range jsonDocs {
		heading := "## `bperf " + d.title + "`"
		if d.schema != "" {
			documented = append(documented, d.schema)
			heading += ": `" + d.schema + "`"
		}
		w.b.WriteString("\n" + heading + "\n\n" + d.text + "\n\n")
		w.section(d.title, d.dir, d.typ)
	}
	golden.Compare(t, "../../docs/json.md", text+w.b.String())
	defined := w.schemas()
	slices.Sort(documented)
	slices.Sort(defined)
	if !slices.Equal(documented, defined) {
		t.Errorf("documented are %q, json.go has %q", documented, defined)
	}
}

// docWriter writes tables of keys.
type docWriter struct {
	t        *testing.T
	packages map[string]*docPackage
	written  map[docType]string // the headings of the sections that have the tables
	b        strings.Builder
}

// docPackage has the types of a package that are not local to functions, and those with a method MarshalText.
type docPackage struct {
	dir     string
	types   map[string]*ast.TypeSpec
	imports map[string]string // directories below internal, by names of packages
	texts   map[string]bool
	files   []*ast.File
}

func (w *docWriter) load(dir string) *docPackage {
	if p := w.packages[dir]; p != nil {
		return p
	}
	p := &docPackage{dir: dir, types: map[string]*ast.TypeSpec{}, imports: map[string]string{}, texts: map[string]bool{}}
	w.packages[dir] = p
	entries, err := os.ReadDir("../" + dir)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), "../"+dir+"/"+e.Name(), nil, parser.ParseComments)
		if err != nil {
			w.t.Fatal(err)
		}
		p.add(file)
	}
	return p
}

func (p *docPackage) add(file *ast.File) {
	p.files = append(p.files, file)
	for _, i := range file.Imports {
		path, _ := strconv.Unquote(i.Path.Value)
		if dir, ours := strings.CutPrefix(path, "github.com/bperf/bperf/internal/"); ours {
			p.imports[path[strings.LastIndexByte(path, '/')+1:]] = dir
		}
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if s, is := s.(*ast.TypeSpec); is {
					p.types[s.Name.Name] = s
				}
			}
		case *ast.FuncDecl:
			if d.Recv == nil || d.Name.Name != "MarshalText" {
				continue
			}
			if name, is := d.Recv.List[0].Type.(*ast.Ident); is {
				p.texts[name.Name] = true
			}
		}
	}
}

// schemas returns the values of the constants of the type schema.
func (w *docWriter) schemas() (all []string) {
	for _, file := range w.load("cli").files {
		ast.Inspect(file, func(n ast.Node) bool {
			if v, is := n.(*ast.ValueSpec); is {
				if of, is := v.Type.(*ast.Ident); is && of.Name == "schema" && len(v.Values) == 1 {
					value, _ := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
					all = append(all, value)
				}
			}
			return true
		})
	}
	return all
}

// docType is a struct whose keys need a table.
type docType struct {
	in   *docPackage
	name string
}

// section writes the table of a type, and those of the types below it that no section before it has.
func (w *docWriter) section(heading, dir, name string) {
	waiting := []docType{{w.load(dir), name}}
	for n := 0; n < len(waiting); n++ {
		of := waiting[n]
		if n > 0 {
			if first := w.written[of]; first != "" {
				fmt.Fprintf(&w.b, "\n%s: as in `bperf %s`.\n", title(of.name), first)
				continue
			}
			fmt.Fprintf(&w.b, "\n%s:\n\n", title(of.name))
		}
		w.written[of] = heading
		w.b.WriteString("| key | type | what it is | absent |\n|---|---|---|---|\n")
		for _, row := range w.rows(of) {
			w.b.WriteString(row.line + "\n")
			if row.below != nil && !slices.Contains(waiting, *row.below) {
				waiting = append(waiting, *row.below)
			}
		}
	}
}

// title returns what a struct is called in the docs.
func title(name string) string {
	name = strings.TrimSuffix(strings.TrimPrefix(name, "json"), "JSON")
	var words []string
	for _, word := range regexp.MustCompile(`JITed|[A-Z]*[a-z]+`).FindAllString(name, -1) {
		if word != "JITed" {
			word = strings.ToLower(word)
		}
		words = append(words, word)
	}
	return "`" + strings.Join(words, " ") + "`"
}

// docRow is the row of a key.
type docRow struct {
	key, line string
	below     *docType // the struct of the value
}

// rows returns the rows of a struct. Like encoding/json, it takes the keys of an embedded struct that the struct itself does not have.
func (w *docWriter) rows(of docType) (rows []docRow) {
	spec := of.in.types[of.name]
	if spec == nil {
		w.t.Fatalf("%s has no type %s", of.in.dir, of.name)
	}
	var embedded []docRow
	for _, field := range spec.Type.(*ast.StructType).Fields.List {
		tag := reflect.StructTag("")
		if field.Tag != nil {
			text, _ := strconv.Unquote(field.Tag.Value)
			tag = reflect.StructTag(text)
		}
		key, options, _ := strings.Cut(tag.Get("json"), ",")
		switch {
		case key == "-" || len(field.Names) > 0 && !field.Names[0].IsExported():
		case len(field.Names) == 0 && key == "":
			_, below := w.typeOf(of.in, field.Type)
			embedded = append(embedded, w.rows(*below)...)
		default:
			if key == "" {
				w.t.Errorf("%s.%s has no key", of.name, field.Names[0].Name)
			}
			kind, below := w.typeOf(of.in, field.Type)
			rows = append(rows, docRow{key, docLine(key, kind, comment(field), strings.Contains(options, "omit")), below})
		}
	}
	for _, row := range embedded {
		if !slices.ContainsFunc(rows, func(r docRow) bool { return r.key == row.key }) {
			rows = append(rows, row)
		}
	}
	return rows
}

// comment returns the comment of a field: the one behind it, or those before it.
func comment(field *ast.Field) string {
	for _, c := range []*ast.CommentGroup{field.Comment, field.Doc} {
		if c != nil {
			return strings.ReplaceAll(strings.TrimSpace(c.Text()), "\n", " ")
		}
	}
	return ""
}

// whenAbsent matches the last part of a comment if it says when the key is absent.
var whenAbsent = regexp.MustCompile(`^(?:absent|empty|nil|0) ((?:if|without|with|for|in) .*)$`)

var nilText = regexp.MustCompile(`\bnil `)

// nothing describes the value that is left out of an object.
func nothing(kind string) string {
	switch kind {
	case "number", "ns":
		return "it is 0"
	case "bool":
		return "it is false"
	}
	return "it is empty"
}

// docLine returns the row of a key. A comment may say when the key is absent; otherwise it is when its value would be 0, false or empty.
func docLine(key, kind, comment string, omitted bool) string {
	absent := ""
	if omitted {
		absent = "if " + nothing(kind)
		parts := strings.Split(strings.TrimSuffix(comment, "."), "; ")
		if why := whenAbsent.FindStringSubmatch(parts[len(parts)-1]); why != nil {
			absent, comment = why[1], strings.Join(parts[:len(parts)-1], "; ")
		}
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s |", key, kind, nilText.ReplaceAllString(comment, "null "), absent)
}

// typeOf returns the JSON type of a Go type, with its unit if the type has one, and the struct that it or its elements are.
func (w *docWriter) typeOf(in *docPackage, of ast.Expr) (string, *docType) {
	switch of := of.(type) {
	case *ast.StarExpr:
		kind, below := w.typeOf(in, of.X)
		return kind, below
	case *ast.ArrayType:
		kind, below := w.typeOf(in, of.Elt)
		return "array of " + kind, below
	case *ast.MapType:
		kind, below := w.typeOf(in, of.Value)
		return "object of " + kind, below
	case *ast.SelectorExpr:
		switch name := of.X.(*ast.Ident).Name + "." + of.Sel.Name; name {
		case "time.Time":
			return "RFC 3339", nil
		case "time.Duration":
			return "ns", nil
		}
		return w.typeOf(w.load(in.imports[of.X.(*ast.Ident).Name]), of.Sel)
	case *ast.Ident:
		return w.named(in, of.Name)
	}
	w.t.Fatalf("a type in %s is unknown: %T", in.dir, of)
	return "", nil
}

func (w *docWriter) named(in *docPackage, name string) (string, *docType) {
	switch name {
	case "string":
		return "string", nil
	case "bool":
		return "bool", nil
	case "any":
		return "any", nil
	case "int", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float64":
		return "number", nil
	}
	if in.texts[name] {
		return "string", nil
	}
	spec := in.types[name]
	if spec == nil {
		w.t.Fatalf("%s has no type %s", in.dir, name)
	}
	if _, is := spec.Type.(*ast.StructType); is {
		return title(name), &docType{in, name}
	}
	return w.typeOf(in, spec.Type)
}

// TestDiffJSON checks the numbers of diff --json, in the order of the table.
func TestDiffJSON(t *testing.T) {
	require.NoKernel(t)
	old, file := filepath.Join(recordings, "callchain.data"), filepath.Join(recordings, "pipe.data")
	table := runHere(t, "diff", "-q", "-t", ";", "-s", "comm", old, file)
	got := runHere(t, "diff", "--json", "-s", "comm", old, file)
	var data report.DiffJSON
	unwrap(t, got.stdout, diffSchema, &data)
	if len(data.Events) != 1 || !slices.Equal(data.Files, []string{old, file}) || data.Compute != report.AbsoluteDelta {
		t.Fatalf("the data are %+v", data)
	}
	var lines strings.Builder
	for _, row := range data.Events[0].Rows {
		if len(row.Values) != 2 || row.Values[0].Comparison != nil {
			t.Fatalf("a row is %+v", row)
		}
		share, change := "", ""
		if row.Values[0].Period > 0 {
			share = fmt.Sprintf("%.2f", row.Values[0].Percent)
		}
		if c := row.Values[1].Comparison; c != nil {
			change = fmt.Sprintf("%+.2f%%", *c)
		}
		fmt.Fprintf(&lines, "%s;%s;%s\n", share, change, row.Keys["comm"])
	}
	if lines.String() != table.stdout || table.stdout == "" {
		t.Errorf("as JSON\n%sas a table\n%s", &lines, table.stdout)
	}
}

// TestJSONOfReport checks that --json is --format json, whatever the file of -o is called.
func TestJSONOfReport(t *testing.T) {
	require.NoKernel(t)
	input, output := filepath.Join(recordings, "callchain.data"), filepath.Join(t.TempDir(), "x.csv")
	var short, long report.JSON
	unwrap(t, runHere(t, "report", "-i", input, "-j").stdout, profileSchema, &short)
	unwrap(t, runHere(t, "report", "-i", input, "--format", "json").stdout, profileSchema, &long)
	if !reflect.DeepEqual(short, long) || len(short.Tables) != 1 {
		t.Errorf("-j: %+v\n--format json: %+v", short, long)
	}
	got := runHere(t, "report", "-i", input, "-j", "-o", output)
	text, err := os.ReadFile(output)
	if err != nil || got.stdout != "" {
		t.Fatalf("%v, %+v", err, got)
	}
	unwrap(t, string(text), profileSchema, &short)
}
