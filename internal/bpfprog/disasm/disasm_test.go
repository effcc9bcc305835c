package disasm

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
)

// TestDisassemble has, but for what has no name, what llvm-mc 14 says of the same bytes (-disassemble -triple=aarch64
// -mattr=+lse,+pauth,+bti), in GNU's spelling.
func TestDisassemble(t *testing.T) {
	for _, test := range []struct{ arch, code, want string }{
		{"amd64", "f30f1efa 55 4889e5 c3", "0x1000 4 endbr64; 0x1004 1 push %rbp; 0x1005 3 mov %rsp,%rbp; 0x1008 1 retq!"},
		{"amd64", "c4e2f9f7c7 c4c271f7c0 c462abf7c3", "0x1000 5 shlx %rax,%rdi,%rax; 0x1005 5 shlx %ecx,%r8d,%eax; 0x100a 5 shrx %r10,%rbx,%r8"},
		{"amd64", "c4e2faf7c7", "0x1000 5 sarx %rax,%rdi,%rax"},
		{"amd64", "e8fb0f0000 ebfe", "0x1000 5 callq 0x2000 -> 0x2000!; 0x1005 2 jmp 0x1005 -> 0x1005!"},
		{"amd64", "c5fd6f05 88efffff c5fe6f4c0af0", "0x1000 8 vmovdqa -0x1078(%rip),%ymm0; 0x1008 6 vmovdqu -0x10(%rdx,%rcx,1),%ymm1"},
		{"amd64", "c5ed76c0 c5fb1103 c5fb11c8 c5f877", "0x1000 4 vpcmpeqd %ymm0,%ymm2,%ymm0; 0x1004 4 vmovsd %xmm0,(%rbx); 0x1008 4 vmovsd %xmm1,%xmm0,%xmm0; 0x100c 3 vzeroupper"},
		{"amd64", "62f17f486f4f01 62b37d2026d100", "0x1000 7 vmovdqu8 0x40(%rdi),%zmm1; 0x1007 7 (evex.0f3a26)"},
		{"amd64", "62f1fd4ad4c1 62f1fd58d407", "0x1000 6 vpaddq %zmm1,%zmm0,%zmm0{%k2}; 0x1006 6 vpaddq (%rdi){1to8},%zmm0,%zmm0"},
		{"amd64", "c4e2fbf6c1 f3480f38f6c1 c5fb92c8", "0x1000 5 mulx %rcx,%rax,%rax; 0x1005 6 adox %rcx,%rax; 0x100b 4 kmovd %eax,%k1"},
		{"amd64", "06 90", "0x1000 1 (bad); 0x1001 1 nop"},
		{"amd64", "e8", "0x1000 1 (bad)"},
		{"arm64", "5f2403d5 3f2303d5 bf2303d5 c0035fd6", "0x1000 4 bti c; 0x1004 4 paciasp; 0x1008 4 autiasp; 0x100c 4 ret!"},
		{"arm64", "410020f8 4100a1b8 4100e2f8", "0x1000 4 ldadd x0, x1, [x2]; 0x1004 4 ldadda w1, w1, [x2]; 0x1008 4 ldaddal x2, x1, [x2]"},
		{"arm64", "5f0020f8 5f1020f8 41fce0c8 4180e0f8", "0x1000 4 stadd x0, [x2]; 0x1004 4 stclr x0, [x2]; 0x1008 4 casal x0, x1, [x2]; 0x100c 4 swpal x0, x1, [x2]"},
		{"arm64", "02000014 fdffff97 1f2003d5", "0x1000 4 b 0x1008 -> 0x1008!; 0x1004 4 bl 0xff8 -> 0xff8!; 0x1008 4 nop"},
		{"amd64", "74fe 0f05", "0x1000 2 je 0x1000 -> 0x1000; 0x1002 2 syscall!"},
		{"arm64", "e0ffff54 e0ffffb4 010000d4 20021fd6", "0x1000 4 b.eq 0xffc -> 0xffc; 0x1004 4 cbz x0, 0x1000 -> 0x1000; 0x1008 4 svc #0x0!; 0x100c 4 br x17!"},
		{"arm64", "00000000 1f20", "0x1000 4 (bad); 0x1004 2 (bad)"},
	} {
		code, err := hex.DecodeString(strings.ReplaceAll(test.code, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		disassemble, err := For(test.arch)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, i := range disassemble(code, 0x1000) {
			s := fmt.Sprintf("%#x %d %s", i.Address, len(i.Code), i.Text)
			if i.Target != 0 {
				s += fmt.Sprintf(" -> %#x", i.Target)
			}
			if i.Transfers {
				s += "!"
			}
			got = append(got, s)
		}
		if s := strings.Join(got, "; "); s != test.want {
			t.Errorf("%s %s:\n got %s\nwant %s", test.arch, test.code, s, test.want)
		}
	}
	if _, err := For("riscv64"); err == nil {
		t.Error("riscv64 is known")
	}
}

// FuzzDisassemble wants every byte in one instruction, whatever they are.
func FuzzDisassemble(f *testing.F) {
	f.Add([]byte{0xf3, 0x0f, 0x1e, 0xfa, 0xc4, 0xe2, 0xf9, 0xf7, 0xc7})
	f.Fuzz(func(t *testing.T, code []byte) {
		for _, disassemble := range disassemblers(t) {
			sum := 0
			for _, i := range disassemble(code, 1<<63) {
				if len(i.Code) == 0 || i.Text == "" || i.Address != 1<<63+uint64(sum) {
					t.Fatalf("%+v at byte %d of % x", i, sum, code)
				}
				sum += len(i.Code)
			}
			if sum != len(code) {
				t.Errorf("%d bytes of %d", sum, len(code))
			}
		}
	})
}

func disassemblers(t *testing.T) (all []Func) {
	for _, style := range Styles {
		for _, arch := range []string{"amd64", "arm64"} {
			disassemble, err := InStyle(arch, style)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, disassemble)
		}
	}
	return all
}

// TestIntel has what objdump -M intel prints of the same bytes, but for the sizes of operands of AVX in memory, and displacements of 0.
func TestIntel(t *testing.T) {
	for _, test := range []struct{ code, want string }{
		{"f30f1efa 55 4889e5 c3", "endbr64; push rbp; mov rbp,rsp; ret"},
		{"e8fb0f0000 ebfe", "call 0x2000; jmp 0x1005"},
		{"418b7108 4c89442418 c744247400000000", "mov esi,DWORD PTR [r9+0x8]; mov QWORD PTR [rsp+0x18],r8; mov DWORD PTR [rsp+0x74],0x0"},
		{"4181eb06000000 c1e806", "sub r11d,0x6; shr eax,0x6"},
		{"c4e2f9f7c7", "shlx rax,rdi,rax"},
		{"c5fd6f05 88efffff c5fe6f4c0af0", "vmovdqa ymm0,[rip-0x1078]; vmovdqu ymm1,[rdx+rcx*1-0x10]"},
		{"62f17f486f4f01 62f1fd4ad4c1 62f1fd58d407", "vmovdqu8 zmm1,[rdi+0x40]; vpaddq zmm0{k2},zmm0,zmm1; vpaddq zmm0,zmm0,[rdi]{1to8}"},
		{"0f1f840000000000 0f840a000000 490f45c0 0f93c0", "nop DWORD PTR [rax+rax*1]; je 0x1018; cmovne rax,r8; setae al"},
		{"64488b042528000000 488d1dc8ea1a00 f644500120 660f6f95e0feffff",
			"mov rax,QWORD PTR fs:0x28; lea rbx,[rip+0x1aeac8]; test BYTE PTR [rax+rdx*2+0x1],0x20; movdqa xmm2,XMMWORD PTR [rbp-0x120]"},
		{"c5f877 06", "vzeroupper; (bad)"},
	} {
		code, err := hex.DecodeString(strings.ReplaceAll(test.code, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		disassemble, err := InStyle("amd64", "intel")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, i := range disassemble(code, 0x1000) {
			got = append(got, i.Text)
		}
		if s := strings.Join(got, "; "); s != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.code, s, test.want)
		}
	}
}
