/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Numbers in as few bytes as they need: the lowest three bits of the first byte are how many follow, and the number is
 * what is above them. With 7, there are eight more, which are the number.
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

/* Looked at by the verifier once, and not for each number. What is behind the end is left out. */
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

/* One that may be below 0: the sign is the lowest bit. */
static __always_inline void encode_signed(struct encoding *e, __s64 number)
{
	encode(e, (__u64)number << 1 ^ number >> 63);
}
