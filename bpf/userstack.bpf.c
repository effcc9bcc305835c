// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Records the user stacks of one process at the overflows of a perf event, for tests of unwind.h.
 *
 * Needs Linux 5.17.
 */
#include "namespace.h"

const volatile bool is_arm64 = false;
const volatile __u32 pid = 0;

#include "unwind.h"

#define MAX_SAMPLES 256

struct sample {
	__u32 frames;
	__u32 end;
	__u64 addresses[UNWIND_FRAMES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_SAMPLES);
	__type(key, __u32);
	__type(value, struct sample);
} samples SEC(".maps");

__u32 taken = 0;

SEC("perf_event")
int on_sample(void *ctx)
{
	__u32 process = process_id((void *)bpf_get_current_task()), key;
	struct sample *s;

	if (process != pid)
		return 0;
	key = __sync_fetch_and_add(&taken, 1);
	s = bpf_map_lookup_elem(&samples, &key);
	if (s)
		s->frames = unwind_user(ctx, process, s->addresses, &s->end);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
