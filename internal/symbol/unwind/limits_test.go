package unwind

import (
	"encoding/binary"
	"strings"
	"testing"
)

// TestMaxSteps has entries that share common information of very many instructions.
func TestMaxSteps(t *testing.T) {
	const nops, entries = 90_000, maxExecuted/90_000 + 2
	order := binary.LittleEndian
	var frames []byte
	add := func(body []byte) {
		frames = append(order.AppendUint32(frames, uint32(len(body))), body...)
	}
	// Common information: its mark, version 1, no augmentation, factors 1 and -8, the return address in column 16; def_cfa rsp, 8.
	add(append([]byte{0, 0, 0, 0, 1, 0, 1, 0x78, 16, 0x0c, 7, 8}, make([]byte, nops)...))
	for n := range uint64(entries) {
		body := order.AppendUint32(nil, uint32(len(frames)+4))
		add(order.AppendUint64(order.AppendUint64(body, 0x1000+16*n), 16))
	}
	m, err := NewModule(AMD64, Section{Data: frames}, Section{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	table, err := m.Compile(nil)
	if err == nil || !strings.Contains(err.Error(), "instructions") {
		t.Errorf("error %v, %d rows", err, len(table.Rows))
	}
}
