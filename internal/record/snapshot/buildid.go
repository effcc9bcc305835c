package snapshot

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"

	"github.com/bperf/bperf/internal/symbol/object"
)

// KernelBuildID returns the build ID of the running kernel, or nil if it has none.
func KernelBuildID() ([]byte, error) { return noteBuildID("/sys/kernel/notes") }

// ModuleBuildID returns the build ID of a loaded module, or nil if it has none. name is the module's name in records (ModuleFile).
func ModuleBuildID(name string) ([]byte, error) {
	module, _, _ := strings.Cut(filepath.Base(strings.Trim(name, "[]")), ".ko")
	return noteBuildID("/sys/module/" + strings.ReplaceAll(module, "-", "_") + "/notes/.note.gnu.build-id")
}

func noteBuildID(file string) ([]byte, error) {
	notes, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return object.BuildIDNote(notes, binary.NativeEndian, 4), nil
}
