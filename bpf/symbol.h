/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Asks the kernel for its own name of a kernel address. */
#pragma once

#include "kernel.h"

__u64 asked = 0;
char symbol[640]; /* more than KSYM_SYMBOL_LEN */

/* The reader runs this. */
SEC("raw_tp")
int on_symbol(void *ctx)
{
	__u64 address = asked;

	BPF_SNPRINTF(symbol, sizeof(symbol), "%pS", address);
	return 0;
}
