package disasm

import (
	"encoding/hex"
	"strings"
	"testing"
)

// TestBPF has what TestNotation of package bpfprog cannot load: what newer kernels know, what only the verifier makes, and what nobody knows.
func TestBPF(t *testing.T) {
	for _, test := range []struct{ code, want string }{
		{"79110000000000005501050000000000", "r1 = *(u64 *)(r1 +0); if r1 != 0x0 goto pc+5"},
		{"8500000001000000 8500000000000100 8510000005000000 8520000007000000 8530000000000000",
			"call bpf_map_lookup_elem#1; call unknown#65536; call pc+5; call kernel-function#7; (bad)"},
		{"18110000 0c000000 00000000 00000000 18210000 ffffffff 00000000 10000000", "r1 = map[id:12]; r1 = map[id:4294967295][0]+16"},
		{"18420000 fdffffff 00000000 00000000 18020000 ffffffff 00000000 ffffff7f", "r2 = subprog[-3]; r2 = 0x7fffffffffffffff"},
		{"db21 0000 00000000 c321f0ff 40000000", "lock *(u64 *)(r1 +0) += r2; lock *(u32 *)(r1 -16) |= r2"},
		{"db2100000 0010000 cb21000010010000 c3210000 10010000", "r1 = load_acquire((u64 *)(r2 +0)); store_release((u16 *)(r1 +0), r2); store_release((u32 *)(r1 +0), r2)"},
		{"bf21ffff00000000 bf21010001000000 bf21010000000100 bc21010000000000 bf21070000000000",
			"r1 = &(void __percpu *)(r2); r1 = addr_space_cast(r2, 0, 1); r1 = addr_space_cast(r2, 1, 0); (bad); (bad)"},
		{"bc21000000000000 bc21200000000000 e5000300000000000d010000 00000000 c200000000000000", "w1 = w2; (bad); may_goto pc+3; gotox r1; nospec"},
		{"d401000008000000 d701000010000000 dc01000020000000", "(bad); r1 = bswap16 r1; r1 = be32 r1"},
		{"99210000 00000000 3801000000000000 db2100003000 0000 d321000000000000", "(bad); (bad); (bad); (bad)"},
		{"0f b1 0000 00000000 0f1b000000000000 8d00000000000000 e600000000000000 f700000000000000", "(bad); (bad); (bad); (bad); (bad)"},
		{"9500000000000000 1801000000000000", "exit; (bad)"},
		{"9500", "(bad)"},
	} {
		code, err := hex.DecodeString(strings.ReplaceAll(test.code, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, b := range DecodeBPF(code) {
			got = append(got, b.String())
		}
		if s := strings.Join(got, "; "); s != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.code, s, test.want)
		}
	}
	for number, want := range map[int32]string{-1: "", 0: "", 1: "bpf_map_lookup_elem", 10: "bpf_l3_csum_replace", 1 << 30: ""} {
		if got := Helper(number); got != want {
			t.Errorf("helper %d is %q, want %q", number, got, want)
		}
	}
}

// FuzzBPF wants every byte in one instruction of one line, whatever they are.
func FuzzBPF(f *testing.F) {
	f.Add([]byte{0x18, 0x11, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xdb, 0x21, 0, 0, 0xf1, 0, 0, 0, 0x95})
	f.Fuzz(func(t *testing.T, code []byte) {
		next := 0
		for _, b := range DecodeBPF(code) {
			if b.Slot != next {
				t.Fatalf("slot %d after %d of % x", b.Slot, next, code)
			}
			next++
			if b.IsWide() {
				next++
			}
			if s := b.String(); s == "" || len(s) > 80 || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("%+v is %q", b, s)
			}
			if b.bad && next*bpfSlot < len(code)-2*bpfSlot {
				t.Errorf("the code ends at slot %d of % x", b.Slot, code)
			}
		}
		if len(code)%bpfSlot == 0 && next < len(code)/bpfSlot-1 {
			t.Errorf("%d of %d slots", next, len(code)/bpfSlot)
		}
	})
}
