package object

import (
	"bytes"
	"io"
	"os"
	"strings"
)

// scriptHead is the number of bytes of a script that the kernel reads (BINPRM_BUF_SIZE of include/uapi/linux/binfmts.h).
const scriptHead = 256

// Interpreter returns the words after "#!" in the first line of a script (execve(2)): the path of the program that runs it, and the
// arguments before the script. It returns none if the file is not a script.
func (s Search) Interpreter(path string) ([]string, error) {
	return withFile(s, path, func(f *os.File) ([]string, error) {
		head, err := io.ReadAll(io.LimitReader(f, scriptHead))
		if err != nil {
			return nil, err
		}
		line, isScript := bytes.CutPrefix(head, []byte("#!"))
		if !isScript {
			return nil, nil
		}
		line, _, _ = bytes.Cut(line, []byte("\n"))
		return strings.Fields(string(line)), nil
	}, nil)
}
