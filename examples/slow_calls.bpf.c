// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Keeps samples of threads that have been in a system call for some time: see docs/prog-on-samples.md.
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

char _license[] SEC("license") = "Dual BSD/GPL";

const volatile __u64 threshold_ns = 1000000; /* bperf profile --set threshold_ns=N */

/* When each thread entered the system call that it is in. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, __u64);
} entered SEC(".maps");

SEC("raw_tp/sys_enter")
int enter(void *ctx)
{
	__u32 thread = bpf_get_current_pid_tgid();
	__u64 now = bpf_ktime_get_ns();

	bpf_map_update_elem(&entered, &thread, &now, BPF_ANY);
	return 0;
}

SEC("raw_tp/sys_exit")
int leave(void *ctx)
{
	__u32 thread = bpf_get_current_pid_tgid();

	bpf_map_delete_elem(&entered, &thread);
	return 0;
}

SEC("perf_event")
int when_slow(void *ctx)
{
	__u32 thread = bpf_get_current_pid_tgid();
	__u64 *since = bpf_map_lookup_elem(&entered, &thread);

	return since && bpf_ktime_get_ns() - *since >= threshold_ns;
}
