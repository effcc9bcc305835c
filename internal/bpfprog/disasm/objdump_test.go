package disasm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestObjdump disassembles the C library as objdump does. An instruction that is not known may have no text, but it
// has its length: what follows is decoded from the right place.
func TestObjdump(t *testing.T) {
	const library = "/lib/x86_64-linux-gnu/libc.so.6"
	if _, err := exec.LookPath("objdump"); err != nil {
		t.Skip("needs objdump (Debian: binutils)")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "objdump", "-d", "--section=.text", "--insn-width=16", library)
	cmd.WaitDelay = time.Minute
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("needs %s: %v", library, err)
	}
	all, wrong, unknown := 0, 0, 0
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		fields := strings.Split(lines.Text(), "\t") // address, bytes, text
		if len(fields) < 3 || strings.Contains(fields[2], "(bad)") {
			continue
		}
		address, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(fields[0]), ":"), 16, 64)
		if err != nil {
			continue
		}
		code, err := hex.DecodeString(strings.ReplaceAll(fields[1], " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		all++
		got := x86One(append(code, make([]byte, 16)...), address, att)
		if len(got.Code) != len(code) {
			wrong++
			if wrong <= 40 {
				t.Logf("%d bytes, %q: %s", len(got.Code), got.Text, lines.Text())
			}
		}
		if strings.HasPrefix(got.Text, "(") {
			unknown++
		}
	}
	t.Logf("%d instructions, %d of another length, %d without a name", all, wrong, unknown)
	if all < 100_000 || wrong > all/10_000 || unknown > all/1000 {
		t.Errorf("too many of them")
	}
}
