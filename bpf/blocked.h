/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Finds the switches at which a thread begins to be blocked, and selects the threads that are measured. The files that
 * include this attach programs to sched_switch.
 *
 * Needs Linux 5.15.
 */
#pragma once

#include "namespace.h"

#define TASK_INTERRUPTIBLE 0x0001
#define TASK_UNINTERRUPTIBLE 0x0002

#define MAX_CGROUPS 64

/*
 * Since Linux 5.18 the state is an argument of the tracepoint. The task itself has another state already if it is woken
 * at that moment.
 */
const volatile bool has_prev_state = true;
const volatile bool only_threads = false;
const volatile bool only_cpus = false;
const volatile __u32 nr_cgroups = 0;

bool enabled = false;

__u64 lost_targets = 0; /* new threads that did not fit into targets */

/* Keyed by thread ID in the reader's PID namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, __u8);
} targets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u8);
} cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
	__uint(max_entries, MAX_CGROUPS);
	__type(key, __u32);
	__type(value, __u32);
} cgroups SEC(".maps");

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct task_struct___blocked {
	int pid;
	unsigned int flags;
	unsigned int __state;
};

#pragma clang attribute pop

/* chosen reports whether a task is measured. It must be the current task. */
static __always_inline bool chosen(void *task)
{
	__u32 i, key;

	if (only_cpus) {
		__u8 *yes;

		key = bpf_get_smp_processor_id();
		yes = bpf_map_lookup_elem(&cpus, &key);
		if (!yes || !*yes)
			return false;
	}
	if (only_threads) {
		key = thread_id(task);
		if (!bpf_map_lookup_elem(&targets, &key))
			return false;
	}
	if (!nr_cgroups)
		return true;
	for (i = 0; i < MAX_CGROUPS && i < nr_cgroups; i++)
		if (bpf_current_task_under_cgroup(&cgroups, i) == 1)
			return true;
	return false;
}

/* begins_to_wait returns the state of the current task if it blocks at this sched_switch, and 0 otherwise. */
static __always_inline __u32 begins_to_wait(__u64 *ctx)
{
	struct task_struct___blocked *prev = (void *)ctx[1];
	bool preempted = ctx[0];
	__u32 state;

	if (has_prev_state)
		state = ctx[3];
	else
		state = prev->__state;
	if (!enabled || preempted || !(state & (TASK_INTERRUPTIBLE | TASK_UNINTERRUPTIBLE)))
		return 0;
	if (prev->flags & (PF_KTHREAD | PF_EXITING) || !chosen(prev))
		return 0;
	return state;
}

/* forget_target removes a task that exits from targets. */
static __always_inline void forget_target(struct task_struct___blocked *task)
{
	__u32 tid;

	if (!only_threads)
		return;
	tid = thread_id((void *)task);
	bpf_map_delete_elem(&targets, &tid);
}

SEC("tp_btf/task_newtask")
int on_newtask(__u64 *ctx)
{
	__u32 parent = thread_id((void *)bpf_get_current_task()), child;
	__u8 yes = 1;

	if (!bpf_map_lookup_elem(&targets, &parent))
		return 0;
	child = thread_id((void *)ctx[0]);
	if (bpf_map_update_elem(&targets, &child, &yes, BPF_ANY))
		__sync_fetch_and_add(&lost_targets, 1);
	return 0;
}
