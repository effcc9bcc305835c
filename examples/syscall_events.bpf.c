// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Writes an event to user space for each system call of one kind: see docs/prog-on-samples.md.
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

char _license[] SEC("license") = "Dual BSD/GPL";

const volatile __s64 number = 0; /* of the system call: bperf record --set number=N */

struct event {
	__u64 sequence;
	__u32 pid;
	__u32 tid;
	char comm[16];
};

/* bperf script takes the names and types of members from here. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__type(value, struct event);
} calls SEC(".maps");

__u64 sequence;
__u64 lost; /* events for which there was no room, which the recording counts, too */

SEC("raw_tp/sys_enter")
int enter(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct event e = { .pid = id >> 32, .tid = (__u32)id };

	if ((__s64)ctx->args[1] != number)
		return 0;
	e.sequence = __sync_fetch_and_add(&sequence, 1);
	bpf_get_current_comm(&e.comm, sizeof(e.comm));
	if (bpf_perf_event_output(ctx, &calls, BPF_F_CURRENT_CPU, &e, sizeof(e)))
		__sync_fetch_and_add(&lost, 1);
	return 0;
}
