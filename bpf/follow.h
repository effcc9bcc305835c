/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Follows the sampled processes and those that they start, with events that count CPUs. An event of a thread would
 * begin a separate period, and would have no sample of a thread that ends within it.
 *
 * Needs Linux 5.15.
 */
#pragma once

#include "namespace.h"

#define CLONE_THREAD 0x00010000

const volatile bool follows = false;

__u32 command = 0; /* process that is followed once it has called exec; 0 for none */
__u64 lost_processes = 0; /* new processes that did not fit into followed */

/* Keyed by process ID in the reader's PID namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, __u8);
} followed SEC(".maps");

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct signal_struct {
	struct {
		int counter;
	} live;
};

struct task_struct___followed {
	int pid;
	int tgid;
	struct signal_struct *signal;
};

#pragma clang attribute pop

static __always_inline bool is_followed(struct task_struct___leader *task)
{
	__u32 pid = process_id(task);

	return bpf_map_lookup_elem(&followed, &pid);
}

static __always_inline void follow(__u32 pid)
{
	__u8 yes = 1;

	if (bpf_map_update_elem(&followed, &pid, &yes, BPF_ANY))
		__sync_fetch_and_add(&lost_processes, 1);
}

/* A process that is not followed can have the ID of one that was, so its ID is removed. */
SEC("raw_tp/task_newtask")
int on_start(__u64 *ctx)
{
	__u32 pid;

	if (ctx[1] & CLONE_THREAD)
		return 0;
	pid = process_id((void *)ctx[0]);
	if (is_followed((void *)bpf_get_current_task()))
		follow(pid);
	else
		bpf_map_delete_elem(&followed, &pid);
	return 0;
}

/* The kernel renames a task that calls exec, right after it has enabled the perf events with enable_on_exec. */
SEC("raw_tp/task_rename")
int on_execute(__u64 *ctx)
{
	if (command && process_id((void *)ctx[0]) == command)
		follow(command);
	return 0;
}

/*
 * on_last_exit is for readers in other PID namespaces than the first, where a process has no ID after this. on_release is
 * for those in the first.
 */
SEC("raw_tp/sched_process_exit")
int on_last_exit(__u64 *ctx)
{
	struct task_struct___followed *task = (void *)ctx[0];
	__u32 pid;

	if (!reader.level || BPF_CORE_READ(task, signal, live.counter))
		return 0;
	pid = process_id((void *)task);
	bpf_map_delete_elem(&followed, &pid);
	return 0;
}

SEC("raw_tp/sched_process_free")
int on_release(__u64 *ctx)
{
	struct task_struct___followed *task = (void *)ctx[0];
	__u32 pid = BPF_CORE_READ(task, pid);

	if (!reader.level && BPF_CORE_READ(task, tgid) == pid)
		bpf_map_delete_elem(&followed, &pid);
	return 0;
}
