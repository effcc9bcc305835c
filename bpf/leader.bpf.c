// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A leader in the layout that perf publishes for `perf stat --bpf-counters`: perf's followers attach to on_switch by its
 * name, and add what it leaves in diff_readings to their own sums. The names of the program and of its maps, and
 * their types, are that layout.
 *
 * Needs Linux 5.10: BPF_F_PRESERVE_ELEMS, and BPF_PROG_TEST_RUN of raw tracepoints.
 */
#include <linux/bpf.h>
#include <linux/errno.h>
#include <bpf/bpf_helpers.h>

/*
 * The counter of each possible CPU. The counters stay when the process that put them here exits, because others may be
 * following.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(map_flags, BPF_F_PRESERVE_ELEMS);
	__type(key, __u32);
	__type(value, __u32);
} events SEC(".maps");

/* The last reading. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct bpf_perf_event_value);
} prev_readings SEC(".maps");

/* How much it had grown since the reading before. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct bpf_perf_event_value);
} diff_readings SEC(".maps");

SEC("raw_tp/sched_switch")
int on_switch(struct bpf_raw_tracepoint_args *ctx)
{
	struct bpf_perf_event_value now, *prev, *diff;
	__u32 zero = 0;
	long err;

	prev = bpf_map_lookup_elem(&prev_readings, &zero);
	diff = bpf_map_lookup_elem(&diff_readings, &zero);
	if (!prev || !diff)
		return 0;

	err = bpf_perf_event_read_value(&events, BPF_F_CURRENT_CPU, &now, sizeof(now));
	if (err) {
		/* Followers run nevertheless, and add what they find in diff_readings. */
		__builtin_memset(diff, 0, sizeof(*diff));
		/* The next counter of this CPU begins at 0. A counter that merely cannot be read at the moment goes on. */
		if (err == -ENOENT)
			__builtin_memset(prev, 0, sizeof(*prev));
		return 0;
	}
	diff->counter = now.counter - prev->counter;
	diff->enabled = now.enabled - prev->enabled;
	diff->running = now.running - prev->running;
	*prev = now;
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
