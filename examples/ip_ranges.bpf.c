// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Counts samples by the range of addresses that their instruction pointer is in: see docs/prog-on-samples.md.
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

char _license[] SEC("license") = "Dual BSD/GPL";

/* The first address, and the one behind the last: bperf record --set hot_start=0x… --set hot_end=0x… */
const volatile __u64 hot_start = 0;
const volatile __u64 hot_end = 0;

enum range { HOT, OTHER_USER, KERNEL };

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 3);
	__type(key, enum range);
	__type(value, __u64);
} samples SEC(".maps");

SEC("perf_event")
int count_by_range(void *ctx)
{
	enum range range = OTHER_USER;
	__u64 ip = 0, one = 1, *n;

	/* The innermost frame is the instruction pointer, on each architecture: of the kernel, or else of user space. */
	bpf_get_stack(ctx, &ip, sizeof(ip), 0);
	if (ip)
		range = KERNEL;
	else
		bpf_get_stack(ctx, &ip, sizeof(ip), BPF_F_USER_STACK);
	if (ip >= hot_start && ip < hot_end)
		range = HOT;

	n = bpf_map_lookup_elem(&samples, &range);
	if (n)
		__sync_fetch_and_add(n, 1);
	else if (bpf_map_update_elem(&samples, &range, &one, BPF_NOEXIST)) {
		n = bpf_map_lookup_elem(&samples, &range); /* another CPU was faster */
		if (n)
			__sync_fetch_and_add(n, 1);
	}
	return 1;
}
