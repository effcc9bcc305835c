package record

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

// kernelName is the name of the kernel's text in records. Behind the brackets stands the symbol whose address is Mmap.Offset, so that
// readers know by how much the kernel was moved at boot.
const kernelName = "[kernel.kallsyms]"

// errHidden says that addresses of the kernel may not be seen.
var errHidden = errors.New("addresses of the kernel are hidden (sysctl kernel.kptr_restrict, kernel.perf_event_paranoid): " +
	"its samples have no symbols")

// kernel tells where the kernel's text is, and its modules.
func (s *synthesizer) kernel(release string) error {
	text, err := findKernelText(s.proc)
	if err != nil {
		return err
	}
	m := &perfdata.Mmap{PID: -1, Start: text.start, Length: text.end - text.start, Offset: text.start, Filename: kernelName + text.symbol}
	if err := s.emit(perfdata.MiscKernel, m); err != nil {
		return err
	}
	return s.modules("/lib/modules/" + release)
}

// kernelText is where the kernel's text is.
type kernelText struct {
	symbol     string // at its start
	start, end uint64
}

// findKernelText looks for the first of _text and _stext in /proc/kallsyms, where they are among the first, and takes the length from
// /proc/iomem. Where that is hidden it looks for _etext, which takes as long as reading all symbols.
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
		return kernelText{}, errHidden
	}
	return found, nil
}

// codeLength is the length of "Kernel code" in /proc/iomem, which is from _text or _stext (arm64) to the end of the text; 0 where it is
// hidden.
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

// moduleFile returns the name that a module has in records: its file, of those by name, or else its name in brackets.
func moduleFile(module string, files map[string]string) string {
	if file := files[module]; file != "" {
		return file
	}
	return "[" + module + "]"
}

// modules tells where modules are, with their files where these are found.
func (s *synthesizer) modules(dir string) error {
	all, err := procfs.Modules(os.DirFS(s.proc))
	if errors.Is(err, os.ErrNotExist) {
		return nil // a kernel without
	}
	if err != nil {
		return fmt.Errorf("list the modules: %w", err)
	}
	if len(all) == 0 {
		return nil
	}
	files := moduleFiles(dir)
	for _, m := range all {
		if err := s.emit(perfdata.MiscKernel, &perfdata.Mmap{PID: -1, Start: m.Start, Length: m.Size, Filename: moduleFile(m.Name, files)}); err != nil {
			return err
		}
	}
	return nil
}

// moduleFiles are the files of modules by name, from modules.dep (https://man7.org/linux/man-pages/man5/modules.dep.5.html). In the names of
// modules - and _ are the same.
func moduleFiles(dir string) map[string]string {
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
