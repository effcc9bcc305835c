package main

import (
	"debug/elf"
	"encoding/binary"
	"slices"
)

// The two programs of a ping-pong are plain arm64 machine code. A Go program has other threads, which would run in between and be counted, too.

// Memory addresses. The whole file is mapped, including its headers; the data follow it.
const (
	fileAddress  = 0x400000
	headerSize   = 64 + 56
	tripsAddress = fileAddress + 0x1000 // 8 bytes: the number of round trips, from standard input
	ballAddress  = tripsAddress + 8     // the byte that goes back and forth
	startAddress = tripsAddress + 16    // struct timespec of the first trip's start
	endAddress   = startAddress + 16    // struct timespec of the last trip's end
	dataEnd      = endAddress + 16
)

// Descriptors of the programs.
const (
	fromStart  = 0 // ping: the number of round trips; pong: the ball
	toStart    = 1 // ping: both times; pong: the ball
	pingToPong = 3
	pongToPing = 4
)

// Numbers of system calls: include/uapi/asm-generic/unistd.h.
const (
	sysRead         = 63
	sysWrite        = 64
	sysExit         = 93
	sysClockGettime = 113
)

const clockMonotonicRaw = 4 // include/uapi/linux/time.h

// ping reads a number, makes that many round trips, and writes the start time and the end time. It repeats this until there is nothing to read.
func ping() []byte {
	c := exit()
	again := c.here()
	c.call(sysRead, fromStart, tripsAddress, 8)
	c.exitUnlessPositive()
	c.load(20, tripsAddress)
	c.add(0xf9400293) // ldr x19, [x20]
	c.call(sysClockGettime, clockMonotonicRaw, startAddress)

	trip := c.here()
	c.call(sysWrite, pingToPong, ballAddress, 1)
	c.call(sysRead, pongToPing, ballAddress, 1)
	c.exitUnlessPositive()
	c.add(0xf1000673) // subs x19, x19, #1
	c.branch(notEqual, trip)

	c.call(sysClockGettime, clockMonotonicRaw, endAddress)
	c.call(sysWrite, toStart, startAddress, dataEnd-startAddress)
	c.branch(always, again)
	return c.elf(again)
}

// pong sends back each byte that it reads, until there is nothing to read.
func pong() []byte {
	c := exit()
	again := c.here()
	c.call(sysRead, fromStart, ballAddress, 1)
	c.exitUnlessPositive()
	c.call(sysWrite, toStart, ballAddress, 1)
	c.branch(always, again)
	return c.elf(again)
}

// code is a list of instructions. The first three exit the program, so that all branches go back.
type code []uint32

func exit() *code {
	c := new(code)
	c.call(sysExit, 0, 0, 0)
	return c
}

func (c *code) here() int { return len(*c) }

func (c *code) add(instructions ...uint32) { *c = append(*c, instructions...) }

// load sets a register to a value of 32 bits.
func (c *code) load(register, value uint32) {
	c.add(
		0xd2800000|value&0xffff<<5|register, // movz
		0xf2a00000|value>>16<<5|register)    // movk, lsl #16
}

func (c *code) call(number uint32, args ...uint32) {
	for register, value := range args {
		c.load(uint32(register), value)
	}
	c.load(8, number)
	c.add(0xd4000001) // svc #0
}

func (c *code) exitUnlessPositive() {
	c.add(0xf100001f) // cmp x0, #0
	c.branch(lessOrEqual, 0)
}

// condition is the condition of a branch, as encoded in b.cond.
type condition uint32

const (
	notEqual    condition = 1
	lessOrEqual condition = 13
	always      condition = 14
)

func (c *code) branch(when condition, to int) {
	distance := uint32(to-c.here()) & 0x7ffff
	c.add(0x54000000 | distance<<5 | uint32(when))
}

// elf returns an executable (elf(5)) that starts at the instruction with index start.
func (c *code) elf(start int) []byte {
	return slices.Concat(
		encode(elf.Header64{
			Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
			Type:  uint16(elf.ET_EXEC), Machine: uint16(elf.EM_AARCH64), Version: uint32(elf.EV_CURRENT),
			Entry: fileAddress + headerSize + 4*uint64(start), Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1,
		}),
		encode(elf.Prog64{
			Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_W | elf.PF_X),
			Vaddr: fileAddress, Filesz: headerSize + 4*uint64(len(*c)), Memsz: dataEnd - fileAddress, Align: 0x1000,
		}),
		encode(*c))
}

// encode encodes a value of fixed size as on arm64.
func encode(value any) []byte {
	b, err := binary.Append(nil, binary.LittleEndian, value)
	if err != nil {
		panic(err) // not of fixed size
	}
	return b
}
