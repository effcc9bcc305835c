/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The IDs of tasks in the PID namespace of the reader: the process that reads a program's results. */
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

/* number_of returns the address of a PID's struct upid for the reader's namespace. */
static __always_inline __u64 number_of(__u64 pid)
{
	return pid + bpf_core_field_offset(struct pid, numbers) + reader.level * bpf_core_type_size(struct upid);
}

/* number_for_reader returns the ID of a PID in the reader's namespace; 0 if it has none there. */
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
 * process_id returns the process ID of a task in the reader's namespace; 0 if it has none there. A task that has been
 * waited for has no PID any more, but may still run until its last switch. Its fields pid and tgid keep the IDs of the
 * first namespace, whose level is 0.
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

/* setup finds the reader's namespace. The reader runs it before the other programs. */
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
