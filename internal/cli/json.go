package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/bperf/bperf/internal/printable"
)

// schema names what data is. Its version is raised when a key changes its meaning or disappears; new keys may appear in any version.
type schema string

// The schemas of bperf's own JSON. docs/json.md has their keys.
const (
	annotateSchema  schema = "bperf.annotate/1"
	countersSchema  schema = "bperf.counters/1"
	diffSchema      schema = "bperf.diff/1"
	doctorSchema    schema = "bperf.doctor/1"
	mapSchema       schema = "bperf.map/1"
	profileSchema   schema = "bperf.profile/1"
	progListSchema  schema = "bperf.prog-list/1"
	progShowSchema  schema = "bperf.prog-show/1"
	progStatsSchema schema = "bperf.prog-stats/1"
	progWatchSchema schema = "bperf.prog-watch/1"
	topSchema       schema = "bperf.top/1"
)

// envelope is what bperf's own JSON is in. Where perf has a JSON format, bperf prints that one, without an envelope.
type envelope struct {
	Schema  schema    `json:"schema"`           // what data is, and the version of its keys
	Version string    `json:"bperf,omitempty"`  // version of bperf; not in lines
	Kernel  string    `json:"kernel,omitempty"` // release of the kernel that bperf runs on; not in lines
	Time    time.Time `json:"time"`             // UTC: when the document is written, or what the line is about happened or ended
	Data    any       `json:"data"`
}

// writeDocument writes a document: an indented envelope with data.
func writeDocument(w io.Writer, s schema, data any) error {
	return streamDocument(w, s, func(out io.Writer) error { return documentEncoder(out, "  ").Encode(data) })
}

// streamDocument writes a document whose data write writes, with a line break at its end.
func streamDocument(w io.Writer, s schema, write func(io.Writer) error) error {
	release, err := kernelRelease()
	if err != nil {
		return err
	}
	var head bytes.Buffer
	e := envelope{Schema: s, Version: currentVersion(), Kernel: release, Time: time.Now().UTC()}
	if err := documentEncoder(&head, "").Encode(e); err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	out.Write(bytes.TrimSuffix(head.Bytes(), []byte("null\n}\n")))
	if err := write(out); err != nil {
		return err
	}
	out.WriteString("}\n")
	return out.Flush()
}

// documentEncoder returns an encoder of indented JSON whose lines but the first begin with prefix.
func documentEncoder(w io.Writer, prefix string) *json.Encoder {
	e := printable.JSONEncoder(w)
	e.SetIndent(prefix, "  ")
	return e
}

// writeRecord writes a line of a stream: an envelope with data of a time.
func writeRecord(w io.Writer, s schema, at time.Time, data any) error {
	return printable.JSONEncoder(w).Encode(envelope{Schema: s, Time: at.UTC(), Data: data})
}

// addJSON adds -j and --json to a command that prints one document.
func addJSON(f *pflag.FlagSet, on *bool, s schema) { addJSONFlag(f, on, "print JSON, "+string(s)) }

// addJSONLines adds -j and --json to a command that prints a line for each of several things.
func addJSONLines(f *pflag.FlagSet, on *bool, s schema) {
	addJSONFlag(f, on, "print JSON, a line each, "+string(s))
}

// addJSONFlag adds -j and --json, with the same letter for every command.
func addJSONFlag(f *pflag.FlagSet, on *bool, usage string) {
	f.BoolVarP(on, "json", "j", false, usage)
}

// kernelRelease returns the release of the running kernel, such as 6.12.9.
func kernelRelease() (string, error) {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "", fmt.Errorf("read the release of the kernel: %w", err)
	}
	return strings.TrimSpace(string(release)), nil
}
