// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// For tests: a program with a map like that of llcstat in bcc's libbpf-tools, with one more member in the key.
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

char _license[] SEC("license") = "Dual BSD/GPL";

#define MAX_ENTRIES 10240
#define TASK_COMM_LEN 16

enum parity { EVEN, ODD };

struct key_info {
	__u32 cpu;
	__u32 pid;
	__u32 tid;
	enum parity parity;
};

struct value_info {
	__u64 ref;
	__u64 miss;
	char comm[TASK_COMM_LEN];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_ENTRIES);
	__type(key, struct key_info);
	__type(value, struct value_info);
} infos SEC(".maps");

__u64 samples; /* for which on_cache_ref ran */

static __always_inline struct value_info *value_of(enum parity parity)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct value_info *v, fresh = {};
	struct key_info key = { .pid = id >> 32, .tid = (__u32)id, .cpu = bpf_get_smp_processor_id(), .parity = parity };

	v = bpf_map_lookup_elem(&infos, &key);
	if (v)
		return v;
	bpf_get_current_comm(&fresh.comm, sizeof(fresh.comm));
	bpf_map_update_elem(&infos, &key, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&infos, &key);
}

SEC("perf_event")
int on_cache_miss(void *ctx)
{
	struct value_info *v = value_of(EVEN);

	if (v)
		__sync_fetch_and_add(&v->miss, 1);
	return 0;
}

SEC("perf_event")
int on_cache_ref(void *ctx)
{
	struct value_info *v = value_of(__sync_fetch_and_add(&samples, 1) & 1 ? ODD : EVEN);

	if (v)
		__sync_fetch_and_add(&v->ref, 1);
	return 0;
}
