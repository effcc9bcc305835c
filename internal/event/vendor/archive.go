package vendor

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Models are the tables of an architecture's CPU models.
type Models struct {
	CPUs   []CPU   // in order: the first that fits is the model
	Models []Model // a model comes after its base
}

// CPU says which CPUs are a model.
type CPU struct {
	Pattern string // as in the kernel's mapfile.csv: a regular expression on x86, the MIDR on arm64
	Model   string
}

// Model is the table of a model.
type Model struct {
	Name  string
	Base  string // the model from whose table this one differs little, which has no base itself; empty if there is none
	Table *Table
}

// The archive is an index of lines, an empty line, and the tables in the order of the index. Each table is a zstd frame, with the text of the
// base as the dictionary.
//
//	model NAME BASE SIZE     BASE is "-" without a base, SIZE the bytes of the frame
//	cpu PATTERN NAME
const (
	dictionary = 1       // the ID of a dictionary, which the base has
	window     = 8 << 20 // more than the text of two tables
	maxText    = 4 << 20
)

// Encode returns the archive of an architecture's tables.
func (m *Models) Encode() ([]byte, error) {
	var index strings.Builder
	var frames []byte
	texts := map[string]string{}
	for _, model := range m.Models {
		texts[model.Name] = model.Table.text()
		base, ok := texts[model.Base]
		if model.Base != "" && !ok {
			return nil, fmt.Errorf("the base %s of %s does not come before it", model.Base, model.Name)
		}
		frame, err := compress(texts[model.Name], base)
		if err != nil {
			return nil, fmt.Errorf("compress the table of %s: %w", model.Name, err)
		}
		frames = append(frames, frame...)
		fmt.Fprintf(&index, "model %s %s %d\n", model.Name, cmp.Or(model.Base, "-"), len(frame))
	}
	for _, cpu := range m.CPUs {
		fmt.Fprintf(&index, "cpu %s %s\n", cpu.Pattern, cpu.Model)
	}
	return append([]byte(index.String()+"\n"), frames...), nil
}

// LastSize returns the bytes that the last table takes in the archive.
func (m *Models) LastSize() (int, error) {
	last := m.Models[len(m.Models)-1]
	base := ""
	for _, model := range m.Models {
		if model.Name == last.Base {
			base = model.Table.text()
		}
	}
	frame, err := compress(last.Table.text(), base)
	return len(frame), err
}

func compress(text, base string) ([]byte, error) {
	options := []zstd.EOption{zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window)}
	if base != "" {
		options = append(options, zstd.WithEncoderDictRaw(dictionary, []byte(base)))
	}
	encoder, err := zstd.NewWriter(nil, options...)
	if err != nil {
		return nil, err
	}
	return encoder.EncodeAll([]byte(text), nil), nil
}

// archive is a decoded index.
type archive struct {
	cpus   []CPU
	frames map[string]frame
}

type frame struct {
	base string
	data []byte
}

func openArchive(data []byte) (*archive, error) {
	index, rest, ok := bytes.Cut(data, []byte("\n\n"))
	if !ok {
		return nil, fmt.Errorf("it has no index")
	}
	a := &archive{frames: map[string]frame{}}
	for line := range strings.SplitSeq(string(index), "\n") {
		words := strings.Split(line, " ")
		switch {
		case len(words) == 4 && words[0] == "model":
			size, err := strconv.Atoi(words[3])
			if err != nil || size < 0 || size > len(rest) {
				return nil, fmt.Errorf("the table of %s has the size %s, and %d bytes are left", words[1], words[3], len(rest))
			}
			a.frames[words[1]] = frame{strings.TrimPrefix(words[2], "-"), rest[:size]}
			rest = rest[size:]
		case len(words) == 3 && words[0] == "cpu":
			a.cpus = append(a.cpus, CPU{words[1], words[2]})
		default:
			return nil, fmt.Errorf("its index has the line %q", line)
		}
	}
	return a, nil
}

// text returns the text of a model's table. Only the model's own base is decoded: bases have none.
func (a *archive) text(name string) (string, error) {
	f := a.frames[name]
	var base []byte
	var err error
	if f.base != "" {
		if base, err = decompress(a.frames[f.base].data, nil); err != nil {
			return "", fmt.Errorf("decompress the table of %s: %w", f.base, err)
		}
	}
	text, err := decompress(f.data, base)
	if err != nil {
		return "", fmt.Errorf("decompress the table of %s: %w", name, err)
	}
	return string(text), nil
}

func decompress(data, base []byte) ([]byte, error) {
	options := []zstd.DOption{zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxText), zstd.WithDecoderMaxWindow(window)}
	if base != nil {
		options = append(options, zstd.WithDecoderDictRaw(dictionary, base))
	}
	decoder, err := zstd.NewReader(nil, options...)
	if err != nil {
		return nil, err
	}
	defer decoder.Close()
	return decoder.DecodeAll(data, nil)
}

// everywhere are the names of the tables that all models share: "common" does not depend on the CPU, and "sys" has the PMUs of systems on
// chips. Compat says which system an event of "sys" is for.
var everywhere = []string{"common", "sys"}

// table returns the table of a CPU. It is that of all CPUs if no model fits.
func (a *archive) table(cpuid string) (*Table, error) {
	t := &Table{}
	names := everywhere
	if model, ok := a.model(cpuid); ok {
		names = append([]string{model}, everywhere...)
		t.model = model
	}
	for _, name := range names {
		if _, ok := a.frames[name]; !ok {
			continue
		}
		text, err := a.text(name)
		if err != nil {
			return nil, err
		}
		if err := t.parse(text); err != nil {
			return nil, fmt.Errorf("the table of %s: %w", name, err)
		}
	}
	t.sort()
	return t, nil
}

// model returns the name of a CPU's model.
func (a *archive) model(cpuid string) (string, bool) {
	for _, cpu := range a.cpus {
		if Fits(cpuid, cpu.Pattern) {
			return cpu.Model, true
		}
	}
	return "", false
}
