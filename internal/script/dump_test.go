package script

import "testing"

func TestAppendDump(t *testing.T) {
	for raw, want := range map[string]string{
		"": "",
		"\x00\x01~\x7f\x80abcde": `
      BPF output: 0000: 00 01 7e 7f 80 61 62 63  ..~..abc
                  0008: 64 65                    de      
`,
		"text\x00\x00\x00": `
      BPF output: 0000: 74 65 78 74 00 00 00     text... 
      BPF string: "text"
`,
		"text\x00\x00\x01": `
      BPF output: 0000: 74 65 78 74 00 00 01     text... 
`,
	} {
		if got := string(appendDump(nil, []byte(raw))); got != want {
			t.Errorf("%q:\n%s\nwant:\n%s", raw, got, want)
		}
	}
}

// TestSourcePaths prints the last part of paths of source files, or all of them.
func TestSourcePaths(t *testing.T) {
	for full, want := range map[bool]string{false: "a.c:7", true: "/src/?/a.c:7"} {
		p := &text{printer: &printer{o: Options{FullPaths: full}}}
		if got := string(p.appendSourceLine(nil, "/src/\x1b/a.c", 7)); got != want {
			t.Errorf("whole paths %t: %q, want %q", full, got, want)
		}
	}
}
