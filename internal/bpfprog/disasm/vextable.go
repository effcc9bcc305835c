package disasm

import (
	"fmt"
	"strings"
	"sync"
)

// operation is selected by the prefix, map and opcode of an instruction.
type operation struct {
	evex   bool
	opmap  byte
	pp     byte
	opcode byte
}

// operations is built from the table at first use, because few runs of bperf disassemble anything.
var operations = sync.OnceValue(func() map[operation]string { return makeOperations(operationTable) })

// operationTable has the forms (see vector.text) of AVX, AVX2, FMA and BMI, and those of AVX-512 that libraries use. EVEX instructions that it
// does not list have the form of VEX.
const operationTable = `
1 - 10 vmovups m,r
1 - 11 vmovups r,m
1 66 10 vmovupd m,r
1 66 11 vmovupd r,m
1 - 12 vmovlps mx,vx,rx@8
1 - 13 vmovlps rx,mx@8
1 66 12 vmovlpd mx,vx,rx@8
1 66 13 vmovlpd rx,mx@8
1 f2 12 vmovddup m,r
1 f3 12 vmovsldup m,r
1 f3 16 vmovshdup m,r
1 - 16 vmovhps mx,vx,rx@8
1 - 17 vmovhps rx,mx@8
1 66 16 vmovhpd mx,vx,rx@8
1 66 17 vmovhpd rx,mx@8
1 - 14 vunpcklps m,v,r
1 66 14 vunpcklpd m,v,r
1 - 15 vunpckhps m,v,r
1 66 15 vunpckhpd m,v,r
1 - 28 vmovaps m,r
1 - 29 vmovaps r,m
1 66 28 vmovapd m,r
1 66 29 vmovapd r,m
1 f3 2a vcvtsi2ss mg,vx,rx@s
1 f2 2a vcvtsi2sd mg,vx,rx@s
1 - 2b vmovntps r,m
1 66 2b vmovntpd r,m
1 f3 2c vcvttss2si mx,rg@4
1 f2 2c vcvttsd2si mx,rg@8
1 f3 2d vcvtss2si mx,rg@4
1 f2 2d vcvtsd2si mx,rg@8
1 - 2e vucomiss mx,rx@4
1 66 2e vucomisd mx,rx@8
1 - 2f vcomiss mx,rx@4
1 66 2f vcomisd mx,rx@8
1 - 50 vmovmskps m,rd
1 66 50 vmovmskpd m,rd
1 - 5b vcvtdq2ps m,r
1 66 5b vcvtps2dq m,r
1 f3 5b vcvttps2dq m,r
1 f3 5a vcvtss2sd mx,vx,rx@4
1 f2 5a vcvtsd2ss mx,vx,rx@8
1 - 5a vcvtps2pd mx,r@half
1 66 5a vcvtpd2ps m,rx
1 66 6e vmovd/vmovq mg,rx@s
1 66 7e vmovd/vmovq rx,mg@s
1 f3 7e vmovq mx,rx@8
1 66 d6 vmovq rx,mx@8
1 66 6f vmovdqa|vmovdqa32/vmovdqa64 m,r
1 66 7f vmovdqa|vmovdqa32/vmovdqa64 r,m
1 f3 6f vmovdqu|vmovdqu32/vmovdqu64 m,r
1 f3 7f vmovdqu|vmovdqu32/vmovdqu64 r,m
e1 f2 6f vmovdqu8/vmovdqu16 m,r
e1 f2 7f vmovdqu8/vmovdqu16 r,m
1 66 70 vpshufd i,m,r
1 f3 70 vpshufhw i,m,r
1 f2 70 vpshuflw i,m,r
1 66 71 [,,vpsrlw,,vpsraw,,vpsllw] i,m,v
1 66 72 [,,vpsrld,,vpsrad,,vpslld] i,m,v
e1 66 72 [vprord/vprorq,vprold/vprolq,vpsrld,,vpsrad/vpsraq,,vpslld] i,m,v
1 66 73 [,,vpsrlq,vpsrldq,,,vpsllq,vpslldq] i,m,v
1 - ae [,,vldmxcsr,vstmxcsr] md
1 - c2 vcmpps i,m,v,r|rk
1 66 c2 vcmppd i,m,v,r|rk
1 f3 c2 vcmpss i,mx,vx,rx|rk@4
1 f2 c2 vcmpsd i,mx,vx,rx|rk@8
1 66 c4 vpinsrw i,md,vx,rx@2
1 66 c5 vpextrw i,mx,rd
1 - c6 vshufps i,m,v,r
1 66 c6 vshufpd i,m,v,r
1 66 d0 vaddsubpd m,v,r
1 f2 d0 vaddsubps m,v,r
1 66 7c vhaddpd m,v,r
1 f2 7c vhaddps m,v,r
1 66 d7 vpmovmskb m,rd
1 f3 e6 vcvtdq2pd mx,r@half
1 66 e6 vcvttpd2dq m,rx
1 f2 e6 vcvtpd2dq m,rx
1 66 e7 vmovntdq r,m
1 f2 f0 vlddqu m,r
1 - 41 kandw/kandq mk,vk,rk
1 66 41 kandb/kandd mk,vk,rk
1 - 42 kandnw/kandnq mk,vk,rk
1 66 42 kandnb/kandnd mk,vk,rk
1 - 44 knotw/knotq mk,rk
1 66 44 knotb/knotd mk,rk
1 - 45 korw/korq mk,vk,rk
1 66 45 korb/kord mk,vk,rk
1 - 46 kxnorw/kxnorq mk,vk,rk
1 66 46 kxnorb/kxnord mk,vk,rk
1 - 47 kxorw/kxorq mk,vk,rk
1 66 47 kxorb/kxord mk,vk,rk
1 - 4a kaddw/kaddq mk,vk,rk
1 66 4a kaddb/kaddd mk,vk,rk
1 - 4b kunpckwd/kunpckdq mk,vk,rk
1 66 4b kunpckbw mk,vk,rk
1 - 90 kmovw/kmovq mk,rk
1 66 90 kmovb/kmovd mk,rk
1 - 91 kmovw/kmovq rk,mk
1 66 91 kmovb/kmovd rk,mk
1 - 92 kmovw md,rk
1 66 92 kmovb md,rk
1 f2 92 kmovd/kmovq mg,rk
1 - 93 kmovw mk,rd
1 66 93 kmovb mk,rd
1 f2 93 kmovd/kmovq mk,rg
1 - 98 kortestw/kortestq mk,rk
1 66 98 kortestb/kortestd mk,rk
1 - 99 ktestw/ktestq mk,rk
1 66 99 ktestb/ktestd mk,rk
2 66 0c vpermilps m,v,r
2 66 0d vpermilpd m,v,r
2 66 17 vptest m,r
2 66 18 vbroadcastss mx,r@4
2 66 19 vbroadcastsd mx,r@8
2 66 1a vbroadcastf128 mx,r@16
e2 66 1a vbroadcastf32x4/vbroadcastf64x2 mx,r@16
2 66 5a vbroadcasti128 mx,r@16
e2 66 5a vbroadcasti32x4/vbroadcasti64x2 mx,r@16
2 66 58 vpbroadcastd mx,r@4
2 66 59 vpbroadcastq mx,r@8
2 66 78 vpbroadcastb mx,r@1
2 66 79 vpbroadcastw mx,r@2
e2 66 7a vpbroadcastb md,r
e2 66 7b vpbroadcastw md,r
e2 66 7c vpbroadcastd/vpbroadcastq mg,r
2 66 1c vpabsb m,r
2 66 1d vpabsw m,r
2 66 1e vpabsd m,r
2 66 2a vmovntdqa m,r
2 66 2c vmaskmovps m,v,r
2 66 2d vmaskmovpd m,v,r
2 66 16 vpermps m,v,r
2 66 36 vpermd|vpermd/vpermq m,v,r
2 66 45 vpsrlvd/vpsrlvq m,v,r
2 66 46 vpsravd m,v,r
2 66 47 vpsllvd/vpsllvq m,v,r
2 66 8c vpmaskmovd/vpmaskmovq m,v,r
2 66 8e vpmaskmovd/vpmaskmovq r,v,m
2 66 db vaesimc mx,rx
2 66 dc vaesenc m,v,r
2 66 dd vaesenclast m,v,r
2 66 de vaesdec m,v,r
2 66 df vaesdeclast m,v,r
2 66 cf vgf2p8mulb m,v,r
2 - f2 andn mg,vg,rg
2 - f3 [,blsr,blsmsk,blsi] mg,vg
2 - f5 bzhi vg,mg,rg
2 f3 f5 pext mg,vg,rg
2 f2 f5 pdep mg,vg,rg
2 f2 f6 mulx mg,vg,rg
2 - f7 bextr vg,mg,rg
2 66 f7 shlx vg,mg,rg
2 f3 f7 sarx vg,mg,rg
2 f2 f7 shrx vg,mg,rg
e2 66 14 /vprorvq m,v,r
e2 66 15 vprolvd/vprolvq m,v,r
e2 66 26 vptestmb/vptestmw m,v,rk
e2 66 27 vptestmd/vptestmq m,v,rk
e2 f3 26 vptestnmb/vptestnmw m,v,rk
e2 f3 27 vptestnmd/vptestnmq m,v,rk
e2 66 54 vpopcntb/vpopcntw m,r
e2 66 55 vpopcntd/vpopcntq m,r
e2 66 63 vpcompressb/vpcompressw r,m@1
e2 66 8b vpcompressd/vpcompressq r,m@s
e2 66 64 vpblendmd/vpblendmq m,v,r
e2 66 66 vpblendmb/vpblendmw m,v,r
e2 66 75 vpermi2b/vpermi2w m,v,r
e2 66 76 vpermi2d/vpermi2q m,v,r
e2 66 7d vpermt2b/vpermt2w m,v,r
e2 66 7e vpermt2d/vpermt2q m,v,r
e2 66 8d vpermb/vpermw m,v,r
e2 66 b4 vpmadd52luq m,v,r
e2 66 b5 vpmadd52huq m,v,r
2 66 b4 vpmadd52luq m,v,r
2 66 b5 vpmadd52huq m,v,r
3 66 00 vpermq i,m,r
3 66 01 vpermpd i,m,r
3 66 02 vpblendd i,m,v,r
e3 66 03 valignd/valignq i,m,v,r
3 66 04 vpermilps i,m,r
3 66 05 vpermilpd i,m,r
3 66 06 vperm2f128 i,m,v,r
3 66 08 vroundps i,m,r
3 66 09 vroundpd i,m,r
3 66 0a vroundss i,mx,vx,rx
3 66 0b vroundsd i,mx,vx,rx
3 66 0c vblendps i,m,v,r
3 66 0d vblendpd i,m,v,r
3 66 0e vpblendw i,m,v,r
3 66 0f vpalignr i,m,v,r
3 66 14 vpextrb i,rx,md@1
3 66 15 vpextrw i,rx,md@2
3 66 16 vpextrd/vpextrq i,rx,mg@s
3 66 17 vextractps i,rx,md@4
3 66 18 vinsertf128 i,mx,v,r@16
e3 66 18 vinsertf32x4/vinsertf64x2 i,mx,v,r@16
e3 66 1a vinsertf32x8/vinsertf64x4 i,my,v,r@32
3 66 19 vextractf128 i,r,mx@16
e3 66 19 vextractf32x4/vextractf64x2 i,r,mx@16
e3 66 1b vextractf32x8/vextractf64x4 i,r,my@32
3 66 20 vpinsrb i,md,vx,rx@1
3 66 21 vinsertps i,mx,vx,rx@4
3 66 22 vpinsrd/vpinsrq i,mg,vx,rx@s
e3 66 1e vpcmpud/vpcmpuq i,m,v,rk
e3 66 1f vpcmpd/vpcmpq i,m,v,rk
e3 66 3e vpcmpub/vpcmpuw i,m,v,rk
e3 66 3f vpcmpb/vpcmpw i,m,v,rk
e3 66 23 vshuff32x4/vshuff64x2 i,m,v,r
e3 66 43 vshufi32x4/vshufi64x2 i,m,v,r
e3 66 25 vpternlogd/vpternlogq i,m,v,r
3 66 30 kshiftrb/kshiftrw i,mk,rk
3 66 31 kshiftrd/kshiftrq i,mk,rk
3 66 32 kshiftlb/kshiftlw i,mk,rk
3 66 33 kshiftld/kshiftlq i,mk,rk
3 66 38 vinserti128 i,mx,v,r@16
e3 66 38 vinserti32x4/vinserti64x2 i,mx,v,r@16
e3 66 3a vinserti32x8/vinserti64x4 i,my,v,r@32
3 66 39 vextracti128 i,r,mx@16
e3 66 39 vextracti32x4/vextracti64x2 i,r,mx@16
e3 66 3b vextracti32x8/vextracti64x4 i,r,my@32
3 66 44 vpclmulqdq i,m,v,r
3 66 46 vperm2i128 i,m,v,r
3 66 4a vblendvps s,m,v,r
3 66 4b vblendvpd s,m,v,r
3 66 4c vpblendvb s,m,v,r
3 66 ce vgf2p8affineqb i,m,v,r
3 66 cf vgf2p8affineinvqb i,m,v,r
3 f2 f0 rorx i,mg,rg
`

var prefixes = map[string]byte{"-": 0, "66": 1, "f3": 2, "f2": 3}

func makeOperations(table string) map[operation]string {
	all := make(map[operation]string)
	for line := range strings.Lines(table) {
		opmap, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if rest == "" {
			continue
		}
		pp, rest, _ := strings.Cut(rest, " ")
		code, form, _ := strings.Cut(rest, " ")
		o := operation{evex: opmap[0] == 'e', opmap: opmap[len(opmap)-1] - '0', pp: prefixes[pp]}
		fmt.Sscanf(code, "%02x", &o.opcode)
		all[o] = form
	}
	scalar := func(name string) string { return fmt.Sprintf("%s mx,vx,rx@s", name) }

	// Scalar moves have two operands if one is in memory. With registers, a third provides the upper part.
	for pp, name := range map[byte]string{2: "vmovss", 3: "vmovsd"} {
		all[operation{opmap: 1, pp: pp, opcode: 0x10}] = name + " mx,vM,rx@s"
		all[operation{opmap: 1, pp: pp, opcode: 0x11}] = name + " rx,vM,mx@s"
	}
	// Arithmetic of packed and scalar floating point numbers.
	for opcode, name := range map[byte]string{0x51: "sqrt", 0x54: "and", 0x55: "andn", 0x56: "or", 0x57: "xor", 0x58: "add", 0x59: "mul", 0x5c: "sub", 0x5d: "min", 0x5e: "div", 0x5f: "max"} {
		packed := " m,v,r"
		if opcode == 0x51 {
			packed = " m,r"
		}
		all[operation{opmap: 1, pp: 0, opcode: opcode}] = "v" + name + "ps" + packed
		all[operation{opmap: 1, pp: 1, opcode: opcode}] = "v" + name + "pd" + packed
		if opcode < 0x54 || opcode > 0x57 {
			all[operation{opmap: 1, pp: 2, opcode: opcode}] = scalar("v" + name + "ss")
			all[operation{opmap: 1, pp: 3, opcode: opcode}] = scalar("v" + name + "sd")
		}
	}
	// Fused multiplication and addition: the upper half of the opcode selects 132, 213 or 231.
	for i, order := range []string{"132", "213", "231"} {
		for low, name := range map[byte]string{6: "fmaddsub", 7: "fmsubadd", 8: "fmadd", 10: "fmsub", 12: "fnmadd", 14: "fnmsub"} {
			o := operation{opmap: 2, pp: 1, opcode: byte(0x90+0x10*i) | low}
			all[o] = fmt.Sprintf("v%s%sps/v%[1]s%[2]spd m,v,r", name, order)
			if low >= 8 {
				o.opcode++
				all[o] = scalar(fmt.Sprintf("v%s%sss/v%[1]s%[2]ssd", name, order))
			}
		}
	}
	// Integers: names in the order of opcodes, "." for none.
	for _, run := range []struct {
		opmap, opcode byte
		names, form   string
	}{
		{1, 0x60, "vpunpcklbw vpunpcklwd vpunpckldq vpacksswb", "m,v,r"},
		{1, 0x64, "vpcmpgtb vpcmpgtw vpcmpgtd", "m,v,r|rk"},
		{1, 0x67, "vpackuswb vpunpckhbw vpunpckhwd vpunpckhdq vpackssdw vpunpcklqdq vpunpckhqdq", "m,v,r"},
		{1, 0x74, "vpcmpeqb vpcmpeqw vpcmpeqd", "m,v,r|rk"},
		{1, 0xd1, "vpsrlw vpsrld vpsrlq", "mx,v,r@16"},
		{1, 0xd4, "vpaddq vpmullw . . vpsubusb vpsubusw vpminub vpand|vpandd/vpandq vpaddusb vpaddusw vpmaxub vpandn|vpandnd/vpandnq vpavgb", "m,v,r"},
		{1, 0xe1, "vpsraw vpsrad", "mx,v,r@16"},
		{1, 0xe3, "vpavgw vpmulhuw vpmulhw . . vpsubsb vpsubsw vpminsw vpor|vpord/vporq vpaddsb vpaddsw vpmaxsw vpxor|vpxord/vpxorq", "m,v,r"},
		{1, 0xf1, "vpsllw vpslld vpsllq", "mx,v,r@16"},
		{1, 0xf4, "vpmuludq vpmaddwd vpsadbw . vpsubb vpsubw vpsubd vpsubq vpaddb vpaddw vpaddd", "m,v,r"},
		{2, 0x00, "vpshufb vphaddw vphaddd vphaddsw vpmaddubsw vphsubw vphsubd vphsubsw vpsignb vpsignw vpsignd vpmulhrsw", "m,v,r"},
		{2, 0x20, "vpmovsxbw vpmovsxbd vpmovsxbq vpmovsxwd vpmovsxwq vpmovsxdq", "mx,r"},
		{2, 0x28, "vpmuldq", "m,v,r"},
		{2, 0x29, "vpcmpeqq", "m,v,r|rk"},
		{2, 0x2b, "vpackusdw", "m,v,r"},
		{2, 0x30, "vpmovzxbw vpmovzxbd vpmovzxbq vpmovzxwd vpmovzxwq vpmovzxdq", "mx,r"},
		{2, 0x37, "vpcmpgtq", "m,v,r|rk"},
		{2, 0x38, "vpminsb vpminsd|vpminsd/vpminsq vpminuw vpminud|vpminud/vpminuq vpmaxsb vpmaxsd|vpmaxsd/vpmaxsq vpmaxuw vpmaxud|vpmaxud/vpmaxuq vpmulld|vpmulld/vpmullq", "m,v,r"},
	} {
		for i, name := range strings.Fields(run.names) {
			if name != "." {
				all[operation{opmap: run.opmap, pp: 1, opcode: run.opcode + byte(i)}] = name + " " + run.form
			}
		}
	}
	return all
}
