// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Writes a record to a perf event when the kernel loads or unloads a module. The event adds the time; the record has
 * the address and the size of the module's code. /proc/modules has the size of all the module's memory instead, and
 * does not list a module that was unloaded at once.
 *
 * Needs Linux 5.5 (bpf_probe_read_kernel).
 */
#include "kernel.h"

#define MODULE_NAME_LEN 56 /* include/linux/moduleparam.h, on 64-bit */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct module_memory {
	void *base;
	unsigned int size;
};

struct module {
	char name[MODULE_NAME_LEN];
	struct module_memory mem[1]; /* Linux 6.4; the first is MOD_TEXT */
};

struct module_layout {
	void *base;
	unsigned int text_size;
};

struct module___before_6_4 {
	struct module_layout core_layout;
};

#pragma clang attribute pop

struct module_change {
	__u64 start;
	__u32 size;
	__u32 unloaded;
	char name[MODULE_NAME_LEN];
};

/* Indexed by CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} outputs SEC(".maps");

__u64 lost = 0; /* changes on CPUs without an event, and changes for which the event's ring had no room */

static __always_inline int report(void *ctx, struct module *module, bool unloaded)
{
	struct module___before_6_4 *old = (void *)module;
	struct module_change c = { .unloaded = unloaded };

	if (bpf_core_field_exists(module->mem)) {
		c.start = (__u64)BPF_CORE_READ(module, mem[0].base);
		c.size = BPF_CORE_READ(module, mem[0].size);
	} else {
		c.start = (__u64)BPF_CORE_READ(old, core_layout.base);
		c.size = BPF_CORE_READ(old, core_layout.text_size);
	}
	bpf_core_read(c.name, sizeof(c.name), &module->name);
	if (bpf_perf_event_output(ctx, &outputs, BPF_F_CURRENT_CPU, &c, sizeof(c)))
		__sync_fetch_and_add(&lost, 1);
	return 0;
}

SEC("raw_tp/module_load")
int on_load(struct bpf_raw_tracepoint_args *ctx)
{
	return report(ctx, (void *)ctx->args[0], false);
}

SEC("raw_tp/module_free")
int on_free(struct bpf_raw_tracepoint_args *ctx)
{
	return report(ctx, (void *)ctx->args[0], true);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
