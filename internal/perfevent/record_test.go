package perfevent

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var ne = binary.NativeEndian

// trailed returns body with the trailer of process 7, thread 8, at 9 ns.
func trailed(body []byte) []byte {
	body = ne.AppendUint32(ne.AppendUint32(body, 7), 8)
	return ne.AppendUint64(body, 9)
}

func ksymbolBody(flags uint16, name string) []byte {
	b := ne.AppendUint32(ne.AppendUint64(nil, 0xffffffffc0001000), 213)
	b = ne.AppendUint16(ne.AppendUint16(b, KSymbolBPF), flags)
	return trailed(append(b, name...))
}

func bpfEventBody(kind uint16) []byte {
	b := ne.AppendUint16(ne.AppendUint16(nil, kind), 0)
	return trailed(append(ne.AppendUint32(b, 4711), "\x01\x23\x45\x67\x89\xab\xcd\xef"...))
}

func lostBody() []byte { return trailed(ne.AppendUint64(ne.AppendUint64(nil, 3), 12)) }

func TestDecode(t *testing.T) {
	by := Trailer{7, 8, 9}
	tests := []struct {
		name   string
		decode func() (any, error)
		want   any
	}{
		{"symbol", func() (any, error) {
			return Record{Body: ksymbolBody(0, "bpf_prog_0123456789abcdef_x\x00\x00\x00\x00\x00")}.KSymbol()
		}, KSymbol{by, 0xffffffffc0001000, 213, KSymbolBPF, false, "bpf_prog_0123456789abcdef_x"}},
		{"symbol gone", func() (any, error) { return Record{Body: ksymbolBody(1, "a name that fills it up..")}.KSymbol() },
			KSymbol{by, 0xffffffffc0001000, 213, KSymbolBPF, true, "a name that fills it up.."}},
		{"symbol without name", func() (any, error) { return Record{Body: ksymbolBody(2, "")}.KSymbol() },
			KSymbol{by, 0xffffffffc0001000, 213, KSymbolBPF, false, ""}},
		{"second symbol", func() (any, error) {
			return Record{Body: append(ksymbolBody(0, "bpf_prog_0123456789abcdef_x\x00\x00\x00\x00\x00"), make([]byte, 16)...)}.KSymbol()
		}, KSymbol{by, 0xffffffffc0001000, 213, KSymbolBPF, false, "bpf_prog_0123456789abcdef_x"}},
		{"third unload", func() (any, error) { return Record{Body: append(bpfEventBody(2), make([]byte, 48)...)}.BPFEvent() },
			BPFEvent{by, BPFUnload, 4711, [8]byte{1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef}}},
		{"load", func() (any, error) { return Record{Body: bpfEventBody(1)}.BPFEvent() },
			BPFEvent{by, BPFLoad, 4711, [8]byte{1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef}}},
		{"unload", func() (any, error) { return Record{Body: bpfEventBody(2)}.BPFEvent() },
			BPFEvent{by, BPFUnload, 4711, [8]byte{1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef}}},
		{"lost", func() (any, error) { return Record{Body: lostBody()}.Lost() }, Lost{by, 12}},
	}
	for _, tt := range tests {
		got, err := tt.decode()
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v, -want +got:\n%s", tt.name, err, diff)
		}
	}
}

func TestDecodeShort(t *testing.T) {
	short := Record{Body: make([]byte, 31)}
	_, symbol := short.KSymbol()
	_, event := short.BPFEvent()
	_, lost := short.Lost()
	for want, err := range map[string]error{
		"a record of a symbol of the kernel has 31 bytes, not 32 or more":    symbol,
		"a record of an event of a BPF program has 31 bytes, not 32 or more": event,
		"a record of lost records has 31 bytes, not 32 or more":              lost,
	} {
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(ksymbolBody(1, "bpf_prog_0123456789abcdef_x\x00\x00\x00\x00\x00"))
	f.Add(bpfEventBody(1))
	f.Add(lostBody())
	f.Add(make([]byte, 15))
	f.Fuzz(func(t *testing.T, body []byte) {
		r := Record{Body: body}
		k, symbol := r.KSymbol()
		_, event := r.BPFEvent()
		_, lost := r.Lost()
		if enough := len(body) >= 32; (symbol == nil) != enough || (event == nil) != enough || (lost == nil) != enough {
			t.Fatalf("of %d bytes: %v, %v, %v", len(body), symbol, event, lost)
		}
		if len(k.Name) > max(len(body)-32, 0) {
			t.Fatalf("a name of %d bytes in a record of %d", len(k.Name), len(body))
		}
	})
}
