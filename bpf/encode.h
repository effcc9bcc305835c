/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Encodes numbers in as few bytes as they need. The lowest three bits of the first byte are the number of bytes that
 * follow, and all bits above them are the encoded number. If the three bits are 7, the number is in the eight bytes
 * that follow.
 */
#pragma once

#include "kernel.h"

#define MAX_ENCODED 2048
#define MAX_NUMBER 9

struct encoding {
	__u32 size;
	__u32 unused;
	__u8 bytes[MAX_ENCODED + 16];
};

/*
 * encode appends a number. It drops numbers once the size exceeds MAX_ENCODED. It is a global function, so the verifier
 * checks it once and not for each number.
 */
__noinline int encode(struct encoding *e, __u64 number)
{
	__u32 at, more;

	if (!e)
		return 0;
	at = e->size;
	if (at > MAX_ENCODED)
		return 0;
	if (number >> 53) {
		e->bytes[at] = 7;
		*(__u64 *)(e->bytes + at + 1) = number;
		e->size = at + 9;
		return 0;
	}
	more = (number >> 5 != 0) + (number >> 13 != 0) + (number >> 21 != 0) + (number >> 29 != 0) + (number >> 37 != 0) +
	       (number >> 45 != 0);
	*(__u64 *)(e->bytes + at) = number << 3 | more;
	e->size = at + 1 + more;
	return 0;
}

/* encode_signed appends a number that can be negative. The lowest bit is the sign. */
static __always_inline void encode_signed(struct encoding *e, __s64 number)
{
	encode(e, (__u64)number << 1 ^ number >> 63);
}
