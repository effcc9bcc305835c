// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Samples only while a thread is in a given system call: see docs/prog-on-samples.md.
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

char _license[] SEC("license") = "Dual BSD/GPL";

const volatile __s64 number = 0; /* of the system call: bperf record --set number=N */

/* The threads that are in it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, __u8);
} inside SEC(".maps");

SEC("raw_tp/sys_enter")
int enter(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 thread = bpf_get_current_pid_tgid();
	__u8 yes = 1;

	if ((__s64)ctx->args[1] == number)
		bpf_map_update_elem(&inside, &thread, &yes, BPF_ANY);
	return 0;
}

SEC("raw_tp/sys_exit")
int leave(void *ctx)
{
	__u32 thread = bpf_get_current_pid_tgid();

	bpf_map_delete_elem(&inside, &thread);
	return 0;
}

SEC("perf_event")
int while_inside(void *ctx)
{
	__u32 thread = bpf_get_current_pid_tgid();

	return bpf_map_lookup_elem(&inside, &thread) != 0;
}
