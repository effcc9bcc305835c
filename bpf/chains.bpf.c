// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Unwinds the user stack at each overflow of a perf event, and writes it to the ring of the event's CPU. The kernel writes the
 * sample to the same ring right after the program. internal/record/chains puts the stack into the sample.
 *
 * Needs Linux 5.17.
 */
#include "namespace.h"

const volatile bool is_arm64 = false;

#define UNWIND_64BIT_ONLY
#include "unwind.h"

/* The record begins at end: then its frames are aligned to 8 bytes in the ring, behind the 32-bit size of raw data. */
struct chain {
	__u32 unused;
	__u32 end; /* enum unwind_end */
	__u64 addresses[UNWIND_FRAMES];
};

/* The kernel does not run a program of a perf event on a CPU where such a program runs. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct chain);
} scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__type(key, __u32);
	__type(value, __u32);
} outputs SEC(".maps");

SEC("perf_event")
int on_sample(void *ctx)
{
	__u32 zero = 0, pid = process_id((void *)bpf_get_current_task());
	struct chain *c = bpf_map_lookup_elem(&scratch, &zero);
	__u64 n;

	if (!c)
		return 1;
	n = unwind_user(ctx, pid, c->addresses, &c->end);
	if (n > UNWIND_FRAMES)
		n = UNWIND_FRAMES;
	/* If this fails, the reader misses the chain of the sample, and counts that. */
	bpf_perf_event_output(ctx, &outputs, BPF_F_CURRENT_CPU, &c->end, sizeof(c->end) + n * sizeof(c->addresses[0]));
	return 1;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
