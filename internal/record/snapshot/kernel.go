package snapshot

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/bperf/bperf/internal/procfs"
	"github.com/bperf/bperf/perfdata"
)

// KernelName is the name of the kernel's text in records. The symbol whose address is Mmap.Offset follows it, so that readers know by how much
// the kernel was relocated at boot.
const KernelName = "[kernel.kallsyms]"

// ErrHidden is returned by Kernel if the kernel hides its addresses.
var ErrHidden = errors.New("addresses of the kernel are hidden (sysctl kernel.kptr_restrict, kernel.perf_event_paranoid): " +
	"its samples have no symbols")

// Kernel emits the kernel's text and its modules.
func (s *Snapshot) Kernel(release string) error {
	text, err := findKernelText(s.proc)
	if err != nil {
		return err
	}
	m := &perfdata.Mmap{PID: -1, Start: text.start, Length: text.end - text.start, Offset: text.start, Filename: KernelName + text.symbol}
	if err := s.emit(perfdata.MiscKernel, m); err != nil {
		return err
	}
	return s.modules("/lib/modules/" + release)
}

// kernelText is the address range of the kernel's text.
type kernelText struct {
	symbol     string // at its start
	start, end uint64
}

// findKernelText returns the range of the kernel's text: the start from _text or _stext in /proc/kallsyms, which are among the first symbols there,
// and the length from /proc/iomem. If the length is hidden, it looks for _etext, which takes as long as reading all symbols.
func findKernelText(proc string) (kernelText, error) {
	f, err := os.Open(proc + "/kallsyms")
	if err != nil {
		return kernelText{}, fmt.Errorf("find the kernel's text: %w", err)
	}
	defer f.Close()
	length := codeLength(proc)
	var text, stext, etext uint64
	for e, err := range procfs.KernelSymbols(f) {
		if err != nil {
			return kernelText{}, fmt.Errorf("find the kernel's text: %w", err)
		}
		switch e.Name {
		case "_text":
			text = e.Address
		case "_stext":
			stext = e.Address
		case "_etext":
			etext = e.Address
		}
		if text != 0 && stext != 0 && length != 0 || etext != 0 {
			break
		}
	}
	found := kernelText{"_text", text, etext}
	if text == 0 {
		found.symbol, found.start = "_stext", stext
	}
	if etext == 0 {
		found.end = max(text, stext) + length
	}
	if found.start == 0 || found.end <= found.start {
		return kernelText{}, ErrHidden
	}
	return found, nil
}

// codeLength returns the length of "Kernel code" in /proc/iomem, which starts at _text, or at _stext (arm64), and ends with the text. It returns
// 0 if the file hides addresses.
func codeLength(proc string) uint64 {
	text, err := os.ReadFile(proc + "/iomem")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		addresses, name, _ := bytes.Cut(line, []byte(" : "))
		if string(bytes.TrimSpace(name)) != "Kernel code" {
			continue
		}
		low, high, _ := bytes.Cut(bytes.TrimSpace(addresses), []byte("-"))
		start, err1 := strconv.ParseUint(string(low), 16, 64)
		last, err2 := strconv.ParseUint(string(high), 16, 64)
		if err1 == nil && err2 == nil && last > start {
			return last + 1 - start
		}
	}
	return 0
}

// ModuleFile returns the name of a module in records: its file if files (ModuleFiles) has it, or else its name in brackets.
func ModuleFile(module string, files map[string]string) string {
	if file := files[module]; file != "" {
		return file
	}
	return "[" + module + "]"
}

// modules emits the modules, with their files if these are known.
func (s *Snapshot) modules(dir string) error {
	all, err := procfs.Modules(os.DirFS(s.proc))
	if errors.Is(err, os.ErrNotExist) {
		return nil // a kernel without modules
	}
	if err != nil {
		return fmt.Errorf("list the modules: %w", err)
	}
	if len(all) == 0 {
		return nil
	}
	files := ModuleFiles(dir)
	for _, m := range all {
		if err := s.emit(perfdata.MiscKernel, &perfdata.Mmap{PID: -1, Start: m.Start, Length: m.Size, Filename: ModuleFile(m.Name, files)}); err != nil {
			return err
		}
	}
	return nil
}

// ModuleFiles returns the files of the modules of a release by name, from modules.dep
// (https://man7.org/linux/man-pages/man5/modules.dep.5.html). dir is a directory of /lib/modules. Names have _ where files have -: the kernel treats
// them as the same.
func ModuleFiles(dir string) map[string]string {
	files := make(map[string]string)
	f, err := os.Open(dir + "/modules.dep")
	if err != nil {
		return files
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		file, _, ok := strings.Cut(lines.Text(), ":")
		if !ok {
			continue
		}
		name, _, _ := strings.Cut(filepath.Base(file), ".ko")
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		files[strings.ReplaceAll(name, "-", "_")] = file
	}
	return files
}
