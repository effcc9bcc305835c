// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// For tests: a program with maps like those of offcputime in bcc's libbpf-tools. It does not run on samples.
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

char _license[] SEC("license") = "Dual BSD/GPL";

#define MAX_ENTRIES 10240
#define MAX_STACK_DEPTH 127
#define TASK_COMM_LEN 16

const volatile char only[TASK_COMM_LEN] = ""; /* threads with this name; empty for all */

struct key {
	__u32 pid; /* of the thread */
	__u32 tgid;
	int user_stack_id;
	int kern_stack_id;
};

struct value {
	__u64 delta; /* ns */
	char comm[TASK_COMM_LEN];
};

struct started {
	__u64 start_ts;
	struct key key;
	char comm[TASK_COMM_LEN];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, struct started);
	__uint(max_entries, MAX_ENTRIES);
} start SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, MAX_ENTRIES);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, MAX_STACK_DEPTH * sizeof(__u64));
} stackmap SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct key);
	__type(value, struct value);
	__uint(max_entries, MAX_ENTRIES);
} info SEC(".maps");

static __always_inline int wanted(const char *comm)
{
	int i;

	for (i = 0; only[0] && i < TASK_COMM_LEN; i++)
		if (comm[i] != only[i])
			return 0;
	return 1;
}

struct task_struct {
	int pid;
} __attribute__((preserve_access_index));

/* Replaces the tool's sched_switch: does what it does for the outgoing and for the incoming thread. */
SEC("raw_tp/sched_switch")
int sched_switch(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *next = (void *)ctx->args[2];
	__u64 id = bpf_get_current_pid_tgid();
	struct value *v, fresh = {};
	struct started *s, now = {};
	__u32 thread = id;

	bpf_get_current_comm(&now.comm, sizeof(now.comm));
	if (thread && wanted(now.comm)) {
		now.start_ts = bpf_ktime_get_ns();
		now.key.pid = thread;
		now.key.tgid = id >> 32;
		now.key.user_stack_id = bpf_get_stackid(ctx, &stackmap, BPF_F_USER_STACK);
		now.key.kern_stack_id = bpf_get_stackid(ctx, &stackmap, 0);
		bpf_map_update_elem(&start, &thread, &now, BPF_ANY);
	}
	bpf_core_read(&thread, sizeof(thread), &next->pid);
	s = bpf_map_lookup_elem(&start, &thread);
	if (!s)
		return 0;
	v = bpf_map_lookup_elem(&info, &s->key);
	if (!v) {
		__builtin_memcpy(fresh.comm, s->comm, sizeof(fresh.comm));
		bpf_map_update_elem(&info, &s->key, &fresh, BPF_NOEXIST);
		v = bpf_map_lookup_elem(&info, &s->key);
	}
	if (v)
		__sync_fetch_and_add(&v->delta, bpf_ktime_get_ns() - s->start_ts);
	bpf_map_delete_elem(&start, &thread);
	return 0;
}
