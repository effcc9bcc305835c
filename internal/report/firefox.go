package report

import (
	"io"
	"strconv"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/profile"
)

// The processed format of the Firefox Profiler, version 47 (docs-developer/CHANGELOG-formats.md there). Newer profilers upgrade it as they load it.
const (
	firefoxVersion = 47
	geckoVersion   = 27
)

type firefox struct {
	Meta     firefoxMeta     `json:"meta"`
	Libs     []firefoxLib    `json:"libs"`
	Pages    []any           `json:"pages"`
	Counters []any           `json:"counters"`
	Threads  []firefoxThread `json:"threads"`
}

// firefoxMeta has the fields that the format requires of it.
type firefoxMeta struct {
	Interval      float64           `json:"interval"` // ms
	StartTime     float64           `json:"startTime"`
	ABI           string            `json:"abi"`
	Misc          string            `json:"misc"`
	OSCPU         string            `json:"oscpu"`
	Platform      string            `json:"platform"`
	ProcessType   int               `json:"processType"`
	Product       string            `json:"product"`
	Stackwalk     int               `json:"stackwalk"`
	Toolkit       string            `json:"toolkit"`
	Version       int               `json:"version"`
	Preprocessed  int               `json:"preprocessedProfileVersion"`
	Symbolicated  bool              `json:"symbolicated"`
	Categories    []firefoxCategory `json:"categories"`
	MarkerSchema  []any             `json:"markerSchema"`
	Extensions    firefoxExtensions `json:"extensions"`
	SampleUnits   map[string]string `json:"sampleUnits"`
	SourceURL     string            `json:"sourceURL"`
	OnlyOneStacks bool              `json:"usesOnlyOneStackType"`
	NoImplement   bool              `json:"doesNotUseFrameImplementation"`
}

type firefoxExtensions struct {
	BaseURL []int `json:"baseURL"`
	ID      []int `json:"id"`
	Name    []int `json:"name"`
	Length  int   `json:"length"`
}

type firefoxCategory struct {
	Name          string   `json:"name"`
	Color         string   `json:"color"`
	Subcategories []string `json:"subcategories"`
}

// firefoxCategories are indexed by profile.Kind.
var firefoxCategories = []firefoxCategory{
	{"Other", "grey", []string{"Other"}},
	{"User", "yellow", []string{"Other"}},
	{"Kernel", "orange", []string{"Other"}},
	{"BPF", "purple", []string{"Other"}},
	{"Hypervisor", "green", []string{"Other"}},
	{"Guest user", "green", []string{"Other"}},
	{"Guest kernel", "green", []string{"Other"}},
}

type firefoxLib struct {
	Arch       string `json:"arch"`
	Name       string `json:"name"`
	Path       string `json:"path"`
	DebugName  string `json:"debugName"`
	DebugPath  string `json:"debugPath"`
	BreakpadID string `json:"breakpadId"`
	CodeID     string `json:"codeId"`
}

// firefoxThread has the fields that the format requires of a thread.
type firefoxThread struct {
	ProcessType         string          `json:"processType"`
	ProcessName         string          `json:"processName"`
	ProcessStartupTime  float64         `json:"processStartupTime"`
	ProcessShutdownTime *float64        `json:"processShutdownTime"`
	RegisterTime        float64         `json:"registerTime"`
	UnregisterTime      *float64        `json:"unregisterTime"`
	PausedRanges        []any           `json:"pausedRanges"`
	Name                string          `json:"name"`
	IsMainThread        bool            `json:"isMainThread"`
	PID                 string          `json:"pid"`
	TID                 int32           `json:"tid"`
	Samples             firefoxSamples  `json:"samples"`
	Markers             firefoxMarkers  `json:"markers"`
	StackTable          firefoxStacks   `json:"stackTable"`
	FrameTable          firefoxFrames   `json:"frameTable"`
	StringArray         []string        `json:"stringArray"`
	FuncTable           firefoxFuncs    `json:"funcTable"`
	ResourceTable       firefoxResource `json:"resourceTable"`
	NativeSymbols       firefoxSymbols  `json:"nativeSymbols"`
}

type firefoxSamples struct {
	Length     int       `json:"length"`
	Stack      []*int    `json:"stack"`
	Time       []float64 `json:"time"`
	Weight     []float64 `json:"weight"`
	WeightType string    `json:"weightType"`
}

type firefoxMarkers struct {
	Length    int   `json:"length"`
	Category  []int `json:"category"`
	Data      []any `json:"data"`
	EndTime   []any `json:"endTime"`
	Name      []int `json:"name"`
	Phase     []int `json:"phase"`
	StartTime []any `json:"startTime"`
}

type firefoxStacks struct {
	Length      int    `json:"length"`
	Frame       []int  `json:"frame"`
	Prefix      []*int `json:"prefix"`
	Category    []int  `json:"category"`
	Subcategory []int  `json:"subcategory"`
}

type firefoxFrames struct {
	Length         int       `json:"length"`
	Address        []int64   `json:"address"`
	InlineDepth    []int     `json:"inlineDepth"`
	Category       []int     `json:"category"`
	Subcategory    []int     `json:"subcategory"`
	Func           []int     `json:"func"`
	NativeSymbol   []*int    `json:"nativeSymbol"`
	InnerWindowID  []*int    `json:"innerWindowID"`
	Implementation []*string `json:"implementation"`
	Line           []*uint32 `json:"line"`
	Column         []*int    `json:"column"`
}

type firefoxFuncs struct {
	Length        int    `json:"length"`
	IsJS          []bool `json:"isJS"`
	RelevantForJS []bool `json:"relevantForJS"`
	Name          []int  `json:"name"`
	Resource      []int  `json:"resource"`
	FileName      []*int `json:"fileName"`
	LineNumber    []*int `json:"lineNumber"`
	ColumnNumber  []*int `json:"columnNumber"`
}

type firefoxResource struct {
	Length int    `json:"length"`
	Lib    []int  `json:"lib"`
	Name   []int  `json:"name"`
	Host   []*int `json:"host"`
	Type   []int  `json:"type"`
}

type firefoxSymbols struct {
	Length       int     `json:"length"`
	Address      []int64 `json:"address"`
	FunctionSize []int   `json:"functionSize"`
	LibIndex     []int   `json:"libIndex"`
	Name         []int   `json:"name"`
}

// resourceLibrary is the resource type of a library.
const resourceLibrary = 1

// WriteFirefox writes a profile that profiler.firefox.com loads. It has a thread for each thread of the profile, with a category for each
// kind of code. Samples without times are placed one millisecond apart.
func WriteFirefox(w io.Writer, p *profile.Profile, o *Options) error {
	event, err := theEvent(p, o)
	if err != nil {
		return err
	}
	one := *o
	one.Event = p.Events[event].Name
	e := &firefoxExporter{p: p, libs: map[profile.ModuleID]int{}}
	e.out = firefox{
		Meta: firefoxMeta{
			Interval: 1, ABI: p.Info.Arch, OSCPU: "Linux " + p.Info.Release, Platform: "Linux", Product: p.Info.Hostname, Stackwalk: 1,
			Version: geckoVersion, Preprocessed: firefoxVersion, Symbolicated: true, Categories: firefoxCategories, MarkerSchema: []any{},
			SampleUnits: map[string]string{"time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns"}, OnlyOneStacks: true, NoImplement: true,
			Extensions: firefoxExtensions{[]int{}, []int{}, []int{}, 0},
		},
		Libs: []firefoxLib{}, Pages: []any{}, Counters: []any{}, Threads: []firefoxThread{},
	}
	if f := p.Events[event].Frequency; f > 0 {
		e.out.Meta.Interval = 1000 / float64(f)
	}
	if !p.Info.Start.IsZero() {
		e.out.Meta.StartTime = float64(p.Info.Start.UnixMicro()) / 1000
	}
	tracks := newTracks(p, &one)
	for i, t := range tracks {
		if first := t.samples[0].Time; i == 0 || first < e.first {
			e.first = first
		}
	}
	for i, t := range tracks {
		e.out.Threads = append(e.out.Threads, e.thread(t, i+1))
	}
	return printable.JSONEncoder(w).Encode(e.out)
}

type firefoxExporter struct {
	p     *profile.Profile
	out   firefox
	libs  map[profile.ModuleID]int
	first int64
}

// firefoxTables are the tables of one thread while they are built.
type firefoxTables struct {
	*firefoxExporter
	thread    firefoxThread
	strings   map[string]int
	stacks    map[profile.StackID]int
	frames    map[profile.FrameID]int
	functions map[profile.FrameID]int // functions without a symbol, by their frame
	named     map[profile.FunctionID]int
	resources map[profile.ModuleID]int
}

func (e *firefoxExporter) thread(t *track, number int) firefoxThread {
	pid, tid := t.labels.PID, t.labels.TID
	if !e.p.Keys().Has(profile.PID) {
		pid = int32(number)
	}
	if !e.p.Keys().Has(profile.TID) {
		tid = int32(number)
	}
	b := &firefoxTables{
		firefoxExporter: e,
		strings:         map[string]int{}, stacks: map[profile.StackID]int{}, frames: map[profile.FrameID]int{},
		functions: map[profile.FrameID]int{}, named: map[profile.FunctionID]int{}, resources: map[profile.ModuleID]int{},
		thread: firefoxThread{
			ProcessType: "default", ProcessName: t.name, Name: t.name, IsMainThread: pid == tid, PID: strconv.Itoa(int(pid)), TID: tid, PausedRanges: []any{},
			Samples:     firefoxSamples{Stack: []*int{}, Time: []float64{}, Weight: []float64{}, WeightType: "samples"},
			Markers:     firefoxMarkers{Category: []int{}, Data: []any{}, EndTime: []any{}, Name: []int{}, Phase: []int{}, StartTime: []any{}},
			StackTable:  firefoxStacks{Frame: []int{}, Prefix: []*int{}, Category: []int{}, Subcategory: []int{}},
			StringArray: []string{},
			FrameTable: firefoxFrames{Address: []int64{}, InlineDepth: []int{}, Category: []int{}, Subcategory: []int{}, Func: []int{},
				NativeSymbol: []*int{}, InnerWindowID: []*int{}, Implementation: []*string{}, Line: []*uint32{}, Column: []*int{}},
			FuncTable: firefoxFuncs{IsJS: []bool{}, RelevantForJS: []bool{}, Name: []int{}, Resource: []int{}, FileName: []*int{},
				LineNumber: []*int{}, ColumnNumber: []*int{}},
			ResourceTable: firefoxResource{Lib: []int{}, Name: []int{}, Host: []*int{}, Type: []int{}},
			NativeSymbols: firefoxSymbols{Address: []int64{}, FunctionSize: []int{}, LibIndex: []int{}, Name: []int{}},
		},
	}
	nanoseconds := e.p.Events[t.event].Unit == "ns"
	if nanoseconds {
		b.thread.Samples.WeightType = "tracing-ms"
	}
	samples := &b.thread.Samples
	for i, s := range t.samples {
		time := float64(i)
		if e.p.Keys().Has(profile.Time) {
			time = float64(s.Time-e.first) / 1e6
		}
		weight := float64(s.Count)
		if nanoseconds {
			weight = float64(s.Value) / 1e6
		}
		samples.Stack = append(samples.Stack, b.sampleStack(s))
		samples.Time = append(samples.Time, time)
		samples.Weight = append(samples.Weight, weight)
		samples.Length++
	}
	return b.thread
}

func (b *firefoxTables) sampleStack(s *profile.Sample) *int {
	if s.Stack != 0 {
		n := b.stack(s.Stack)
		return &n
	}
	if s.Leaf == 0 {
		return nil
	}
	n := b.addStack(nil, s.Leaf)
	return &n
}

// stack returns the number of a stack. A new stack is added after its callers.
func (b *firefoxTables) stack(id profile.StackID) int {
	if n, known := b.stacks[id]; known {
		return n
	}
	s := b.p.Stacks.At(id)
	var prefix *int
	if s.Caller != 0 {
		caller := b.stack(s.Caller)
		prefix = &caller
	}
	n := b.addStack(prefix, s.Frame)
	b.stacks[id] = n
	return n
}

func (b *firefoxTables) addStack(prefix *int, frame profile.FrameID) int {
	t := &b.thread.StackTable
	t.Frame = append(t.Frame, b.frame(frame))
	t.Prefix = append(t.Prefix, prefix)
	t.Category = append(t.Category, int(b.p.Frames()[frame].Kind))
	t.Subcategory = append(t.Subcategory, 0)
	t.Length++
	return t.Length - 1
}

func (b *firefoxTables) frame(id profile.FrameID) int {
	if n, known := b.frames[id]; known {
		return n
	}
	f := b.p.Frames()[id]
	t := &b.thread.FrameTable
	depth := 0
	if f.Inlined {
		depth = 1
	}
	var line *uint32
	if f.Line != 0 {
		line = &f.Line
	}
	// JavaScript has no exact integers above 2^53. Kernel addresses exceed that, and the profiler does not need them.
	address := int64(-1)
	if f.Address != 0 && f.Address < 1<<53 {
		address = int64(f.Address)
	}
	t.Address = append(t.Address, address)
	t.InlineDepth = append(t.InlineDepth, depth)
	t.Category = append(t.Category, int(f.Kind))
	t.Subcategory = append(t.Subcategory, 0)
	t.Func = append(t.Func, b.function(id, &f))
	t.NativeSymbol = append(t.NativeSymbol, nil)
	t.InnerWindowID = append(t.InnerWindowID, nil)
	t.Implementation = append(t.Implementation, nil)
	t.Line = append(t.Line, line)
	t.Column = append(t.Column, nil)
	b.frames[id] = t.Length
	t.Length++
	return t.Length - 1
}

func (b *firefoxTables) function(id profile.FrameID, f *profile.Frame) int {
	if n, known := b.functions[id]; known {
		return n
	}
	if n, known := b.named[f.Function]; known && f.Function != 0 {
		return n
	}
	t := &b.thread.FuncTable
	if f.Function != 0 {
		b.named[f.Function] = t.Length
	} else {
		b.functions[id] = t.Length
	}
	function := b.p.Functions.At(f.Function)
	var file *int
	if name := b.p.Strings.At(function.File); name != "" {
		n := b.text(name)
		file = &n
	}
	t.IsJS = append(t.IsJS, false)
	t.RelevantForJS = append(t.RelevantForJS, false)
	t.Name = append(t.Name, b.text(frameTitle(b.p, id)))
	t.Resource = append(t.Resource, b.resource(f.Module))
	t.FileName = append(t.FileName, file)
	t.LineNumber = append(t.LineNumber, nil)
	t.ColumnNumber = append(t.ColumnNumber, nil)
	t.Length++
	return t.Length - 1
}

// resource returns the number of a module's resource, or -1 without a module.
func (b *firefoxTables) resource(id profile.ModuleID) int {
	if id == 0 {
		return -1
	}
	if n, known := b.resources[id]; known {
		return n
	}
	lib := b.lib(id)
	t := &b.thread.ResourceTable
	t.Lib = append(t.Lib, lib)
	t.Name = append(t.Name, b.text(b.out.Libs[lib].Name))
	t.Host = append(t.Host, nil)
	t.Type = append(t.Type, resourceLibrary)
	b.resources[id] = t.Length
	t.Length++
	return t.Length - 1
}

func (e *firefoxExporter) lib(id profile.ModuleID) int {
	if n, known := e.libs[id]; known {
		return n
	}
	module := e.p.Modules.At(id)
	name, path := e.p.Strings.At(module.Name), e.p.Strings.At(module.Path)
	n := len(e.out.Libs)
	e.libs[id] = n
	e.out.Libs = append(e.out.Libs, firefoxLib{Arch: e.p.Info.Arch, Name: name, Path: path, DebugName: name, DebugPath: path,
		CodeID: e.p.Strings.At(module.BuildID)})
	return n
}

func (b *firefoxTables) text(s string) int {
	if n, known := b.strings[s]; known {
		return n
	}
	n := len(b.thread.StringArray)
	b.strings[s] = n
	b.thread.StringArray = append(b.thread.StringArray, s)
	return n
}
