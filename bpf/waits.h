/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Adds up the time that threads are blocked like samples: each time is one sample, and its value is in ns. A time is
 * counted when the thread runs again; until then, its stack is in the map waits. Part of sample.bpf.c.
 */
#pragma once

#include "blocked.h"

/* wait is a thread that was blocked at least once. */
struct wait {
	__u64 since; /* when it blocked, in ns; 0 if it is not blocked */
	struct key key;
	__u32 end; /* why the user stack ends */
	__u32 unused;
	struct stack stack;
};

/* Keyed by thread ID in the first PID namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wait);
} waits SEC(".maps");

__u64 lost_waits = 0; /* times that a thread blocked and did not fit into waits */

static const struct wait no_wait = {};

/* leave notes that the current task blocks. Another task may already be waking it. */
static __always_inline void leave(void *ctx, struct task_struct___blocked *task, __u32 state)
{
	__u32 pid = task->pid;
	struct wait *w;

	w = bpf_map_lookup_elem(&waits, &pid);
	if (!w) {
		bpf_map_update_elem(&waits, &pid, &no_wait, BPF_NOEXIST);
		w = bpf_map_lookup_elem(&waits, &pid);
		if (!w) {
			add(&lost_waits, 1);
			return;
		}
	}
	describe(&w->key.subject, (void *)task);
	if (by_state)
		w->key.subject.state = state;
	if (by_stack)
		take_stack(ctx, &w->stack, &w->end);
	w->key.subject.event = event;
	w->since = bpf_ktime_get_ns();
}

/* When measuring began (CLOCK_MONOTONIC, ns), and the IDs of the measured cgroups. */
__u64 enabled_at = 0;
const volatile __u64 cgroup_ids[MAX_CGROUPS] = {};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct thread_info___cpu {
	unsigned int cpu;
};

struct task_struct___asleep {
	struct thread_info___cpu thread_info;
	unsigned int flags;
	unsigned int __state;
	int on_cpu;
	int prio;
	unsigned long nvcsw;
	unsigned long nivcsw;
	struct css_set *cgroups;
	char comm[16];
};

struct task_struct___cpu { /* before Linux 5.16, on some architectures */
	unsigned int cpu;
};

#pragma clang attribute pop

/*
 * asleep returns how often a blocked thread has left a CPU. For other threads it returns 0: they run, or are about to.
 */
static __always_inline __u64 asleep(struct task_struct___asleep *task)
{
	if (!(BPF_CORE_READ(task, __state) & (TASK_INTERRUPTIBLE | TASK_UNINTERRUPTIBLE)) ||
	    BPF_CORE_READ_BITFIELD_PROBED(task, on_cpu)) /* an int, and a byte in newer kernels */
		return 0;
	return BPF_CORE_READ(task, nvcsw) + BPF_CORE_READ(task, nivcsw);
}

static __always_inline __u32 last_cpu(struct task_struct___asleep *task)
{
	if (bpf_core_field_exists(task->thread_info.cpu))
		return BPF_CORE_READ(task, thread_info.cpu);
	return BPF_CORE_READ((struct task_struct___cpu *)task, cpu);
}

/* chosen_asleep is chosen for a thread that does not run. */
static __always_inline bool chosen_asleep(struct task_struct___asleep *task)
{
	struct cgroup *cgroup = BPF_CORE_READ(task, cgroups, dfl_cgrp);
	__u32 key, depth, i;

	if (only_cpus) {
		__u8 *yes;

		key = last_cpu(task);
		yes = bpf_map_lookup_elem(&cpus, &key);
		if (!yes || !*yes)
			return false;
	}
	if (only_threads) {
		key = thread_id((void *)task);
		if (!bpf_map_lookup_elem(&targets, &key))
			return false;
	}
	if (!nr_cgroups)
		return true;
	for (depth = 0; depth < 32 && cgroup; depth++) {
		struct cgroup_subsys_state *parent = BPF_CORE_READ(cgroup, self.parent);
		__u64 id = BPF_CORE_READ(cgroup, kn, id);

		for (i = 0; i < MAX_CGROUPS && i < nr_cgroups; i++)
			if (cgroup_ids[i] == id)
				return true;
		cgroup = parent ? BPF_CORE_READ(parent, cgroup) : NULL;
	}
	return false;
}

/* The entry that on_asleep builds. on_asleep runs only once. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wait);
} seed SEC(".maps");

/*
 * on_asleep finds the threads that were blocked before the other programs were enabled. It runs once, after that. Only
 * the kernel stacks of these threads can be read.
 */
SEC("iter/task")
int on_asleep(struct bpf_iter__task *ctx)
{
	struct task_struct *found = ctx->task;
	struct task_struct___asleep *task = (void *)found;
	__u32 pid, zero = 0;
	__u64 left, since;
	struct wait *w;
	long n = 0;

	if (!found)
		return 0;
	left = asleep(task);
	if (!left || BPF_CORE_READ(task, flags) & (PF_KTHREAD | PF_EXITING) || !chosen_asleep(task))
		return 0;
	w = bpf_map_lookup_elem(&seed, &zero);
	if (!w)
		return 0;
	__builtin_memset(&w->key, 0, sizeof(w->key));
	w->key.subject.event = event;
	if (by_pid)
		w->key.subject.pid = process_id((void *)task);
	if (by_tid)
		w->key.subject.tid = thread_id((void *)task);
	if (by_comm)
		bpf_core_read(w->key.subject.comm, sizeof(w->key.subject.comm), &task->comm);
	if (by_cpu)
		w->key.subject.cpu = last_cpu(task);
	if (by_cgroup)
		w->key.subject.cgroup = BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, id);
	if (by_priority)
		w->key.subject.priority = BPF_CORE_READ(task, prio);
	if (by_state)
		w->key.subject.state = BPF_CORE_READ(task, __state);
	if (by_stack && kernel_stacks)
		n = bpf_get_task_stack(found, w->stack.kernel.ips, sizeof(w->stack.kernel.ips), 0);
	w->stack.kernel.n = n > 0 ? n / sizeof(__u64) : 0;
	w->end = UNWIND_OUTERMOST;
	since = w->since = enabled_at;
	pid = BPF_CORE_READ((struct task_struct___blocked *)task, pid);
	if (asleep(task) != left)
		return 0;
	n = bpf_map_update_elem(&waits, &pid, w, BPF_NOEXIST);
	if (n && n != -EEXIST) /* a thread that is there blocked later */
		add(&lost_waits, 1);
	if (n)
		return 0;
	w = bpf_map_lookup_elem(&waits, &pid);
	if (w && asleep(task) != left) /* it has run in between, perhaps unnoticed */
		__sync_val_compare_and_swap(&w->since, since, 0);
	return 0;
}

/* arrive counts how long a task that runs again was blocked. */
static __always_inline void arrive(struct task_struct___blocked *task)
{
	__u32 pid = task->pid, g = generation & 1;
	struct counts *c;
	struct wait *w;
	struct key key;
	__u64 time;

	w = bpf_map_lookup_elem(&waits, &pid);
	if (!w || !w->since || event >= MAX_EVENTS)
		return;
	c = &counted[event];
	time = bpf_ktime_get_ns() - w->since;
	w->since = 0;
	add(&c->samples, 1);
	add(&c->value, time);
	key = w->key;
	__builtin_memset(w->key.subject.waker_comm, 0, sizeof(w->key.subject.waker_comm));
	w->key.subject.waker = 0;
	if (by_cpu)
		key.subject.cpu = bpf_get_smp_processor_id();
	if (by_stack)
		keep_stack(&key, &w->stack, w->end, g, ON_SWITCH, c);
	add_to_sum(&key, time, g, c);
}

SEC("tp_btf/sched_switch")
int on_switch(__u64 *ctx)
{
	__u32 state = begins_to_wait(ctx);

	if (state)
		leave(ctx, (void *)ctx[1], state);
	arrive((void *)ctx[2]);
	return 0;
}

/*
 * on_waking runs where the waker is. sched_wakeup does not: it can run on the CPU where the thread is to run. In an
 * interrupt, the waker is the interrupted task.
 */
SEC("tp_btf/sched_waking")
int on_waking(__u64 *ctx)
{
	struct task_struct___blocked *task = (void *)ctx[0], *waker = (void *)bpf_get_current_task();
	__u32 pid = task->pid;
	struct wait *w;

	w = bpf_map_lookup_elem(&waits, &pid);
	if (!w)
		return 0;
	w->key.subject.waker = process_id((void *)waker);
	if (BPF_CORE_READ(waker, pid))
		bpf_get_current_comm(w->key.subject.waker_comm, sizeof(w->key.subject.waker_comm));
	else /* the idle tasks of all CPUs */
		__builtin_memcpy(w->key.subject.waker_comm, "swapper\0\0\0\0\0\0\0\0", 16);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int on_exit(__u64 *ctx)
{
	struct task_struct___blocked *task = (void *)ctx[0];
	__u32 pid = task->pid;

	forget_target(task);
	bpf_map_delete_elem(&waits, &pid);
	return 0;
}
