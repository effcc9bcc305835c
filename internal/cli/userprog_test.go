package cli

import (
	"bytes"
	"testing"

	"github.com/bperf/bperf/internal/userprog"
	"github.com/bperf/bperf/test/golden"
)

func TestPrintMap(t *testing.T) {
	var out bytes.Buffer
	few := userprog.Map{Name: "by\x1bcomm", Columns: []string{"pid", "comm", "value.ns", "value.calls"}, Keys: 2, Rows: []userprog.Row{
		{uint64(1234), "sh\x1b[2J", uint64(18446744073709551615), int64(-3)}, {uint64(1), "init", uint64(7), int64(12)}}}
	many := userprog.Map{Name: "many", Columns: []string{"key", "value"}, Keys: 1}
	for i := range uint64(40) {
		many.Rows = append(many.Rows, userprog.Row{i, true})
	}
	printMap(&out, &few)
	printMap(&out, &many)
	many.Cut = true
	printMap(&out, &many)
	golden.Compare(t, "testdata/userprog-maps.golden", out.String())
}
