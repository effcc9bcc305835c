// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// For tests: a program with a map like that of profile in bcc's libbpf-tools.
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

char _license[] SEC("license") = "Dual BSD/GPL";

#define MAX_ENTRIES 10240
#define MAX_STACK_DEPTH 127
#define TASK_COMM_LEN 16

struct key_t {
	__u32 pid;
	int user_stack_id;
	int kern_stack_id;
	char name[TASK_COMM_LEN];
};

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, MAX_ENTRIES);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, MAX_STACK_DEPTH * sizeof(__u64));
} stackmap SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct key_t);
	__type(value, __u64);
	__uint(max_entries, MAX_ENTRIES);
} counts SEC(".maps");

SEC("perf_event")
int do_perf_event(void *ctx)
{
	static const __u64 zero;
	struct key_t key = {};
	__u64 *count;

	key.pid = bpf_get_current_pid_tgid() >> 32;
	bpf_get_current_comm(&key.name, sizeof(key.name));
	key.kern_stack_id = bpf_get_stackid(ctx, &stackmap, 0);
	key.user_stack_id = bpf_get_stackid(ctx, &stackmap, BPF_F_USER_STACK);
	count = bpf_map_lookup_elem(&counts, &key);
	if (!count) {
		bpf_map_update_elem(&counts, &key, &zero, BPF_NOEXIST);
		count = bpf_map_lookup_elem(&counts, &key);
	}
	if (count)
		__sync_fetch_and_add(count, 1);
	return 0;
}
