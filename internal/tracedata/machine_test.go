package tracedata

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// TestFormatsOfThisMachine parses all formats of the running kernel.
func TestFormatsOfThisMachine(t *testing.T) {
	files, _ := filepath.Glob("/sys/kernel/tracing/events/*/*/format")
	if len(files) == 0 {
		t.Skip("tracefs is not mounted, or may not be read")
	}
	refused := map[string]int{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has disappeared
		}
		f, err := parseFormat(filepath.Base(filepath.Dir(filepath.Dir(file))), string(text), binary.LittleEndian, 8)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if f.PrintErr != nil {
			refused[f.PrintErr.Error()]++
			t.Logf("%s:%s: %v: %s", f.System, f.Name, f.PrintErr, f.Print)
		}
		for _, raw := range [][]byte{nil, make([]byte, 8), make([]byte, 256)} {
			f.AppendText(nil, raw, nil)
		}
	}
	t.Logf("%d formats; refused: %v", len(files), refused)
}
