/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The time for which threads are blocked, added up like samples: each time is one, and its value is in ns. It is counted
 * when the thread runs again; up to then its stack stays with it. Part of sample.bpf.c.
 */
#pragma once

#include "blocked.h"

/* A thread that was blocked at least once. */
struct wait {
	__u64 since; /* 0 if it is not blocked */
	struct key key;
	__u32 end; /* why the user's stack ends */
	__u32 unused;
	struct stack stack;
};

/* By thread ID in the first PID namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wait);
} waits SEC(".maps");

__u64 lost_waits = 0; /* times that a thread was blocked, and there was no room for it */

static const struct wait no_wait = {};

/* It leaves the CPU and waits for something. Who wakes it up may be at it already. */
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

/* It runs again. */
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
 * Runs where the waker is, other than sched_wakeup, which can be on the CPU where the thread is to run. In an interrupt
 * the waker is whom that has interrupted.
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
	else /* of all CPUs */
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
