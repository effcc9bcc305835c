/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the kernel itself calls an address of its own.
 */
#pragma once

#include "kernel.h"

__u64 asked = 0;
char symbol[640]; /* KSYM_SYMBOL_LEN is less */

/* Run by the reader. */
SEC("raw_tp")
int on_symbol(void *ctx)
{
	__u64 address = asked;

	BPF_SNPRINTF(symbol, sizeof(symbol), "%pS", address);
	return 0;
}
