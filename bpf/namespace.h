/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The IDs that tasks have in the PID namespace of the process that reads what a program leaves.
 */
#pragma once

#include "kernel.h"

/* The PID namespace of the reader. */
struct {
	__u64 address;
	__u32 level;
} reader;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct task_struct___leader {
	int pid;
	int tgid;
	struct task_struct___leader *group_leader;
	struct pid *thread_pid;
};

struct upid___ns {
	int nr;
	void *ns;
};

#pragma clang attribute pop

/* Where the number of a PID in the reader's namespace is. */
static __always_inline __u64 number_of(__u64 pid)
{
	return pid + bpf_core_field_offset(struct pid, numbers) + reader.level * bpf_core_type_size(struct upid);
}

/* The number that the reader knows it by; 0 in other namespaces. */
static __always_inline __u32 number_for_reader(struct pid *pid)
{
	__u64 number, ns = 0;
	__u32 nr = 0;

	if (!pid || BPF_CORE_READ(pid, level) < reader.level)
		return 0;
	number = number_of((__u64)pid);
	bpf_probe_read_kernel(&ns, sizeof(ns), (void *)(number + bpf_core_field_offset(struct upid___ns, ns)));
	if (ns != reader.address)
		return 0;
	bpf_probe_read_kernel(&nr, sizeof(nr), (void *)(number + bpf_core_field_offset(struct upid, nr)));
	return nr;
}

/*
 * A task that has been waited for has no PID any more and may still run, up to its last switch. Its fields keep the numbers of
 * the first namespace, whose level is 0.
 */
static __always_inline __u32 process_id(struct task_struct___leader *task)
{
	if (!reader.level)
		return BPF_CORE_READ(task, tgid);
	return number_for_reader(BPF_CORE_READ(task, group_leader, thread_pid));
}

static __always_inline __u32 thread_id(struct task_struct___leader *task)
{
	if (!reader.level)
		return BPF_CORE_READ(task, pid);
	return number_for_reader(BPF_CORE_READ(task, thread_pid));
}

/* Run by the reader, before the other programs. */
SEC("raw_tp")
int setup(void *ctx)
{
	struct task_struct___leader *task = (void *)bpf_get_current_task();
	__u64 pid = (__u64)BPF_CORE_READ(task, thread_pid), ns = 0;

	reader.level = BPF_CORE_READ((struct pid *)pid, level);
	bpf_probe_read_kernel(&ns, sizeof(ns), (void *)(number_of(pid) + bpf_core_field_offset(struct upid___ns, ns)));
	reader.address = ns;
	return 0;
}
