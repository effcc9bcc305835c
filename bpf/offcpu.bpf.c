// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Measures how long threads are blocked, by the stack with which they leave the CPU. A time of at least the threshold
 * is written to a perf event when the thread runs again; shorter times are added up by thread and stack. The sums of a
 * thread are written when it exits; the user side (internal/offcpu) reads the others.
 *
 * Needs Linux 5.15.
 */
#include "blocked.h"

#define ENOSPC 28

#define MAX_KERNEL 64
#define MAX_USER 127
#define MAX_SUMS_AT_EXIT 128

const volatile __u64 threshold = 0; /* ns */
const volatile bool kernel_stacks = true;
const volatile bool user_stacks = true;

/* What did not fit. */
struct losses {
	__u64 threads; /* times that a thread blocked and did not fit into threads */
	__u64 stacks; /* times that its stack did not fit into stacks */
	__u64 outputs; /* records on CPUs without a ring */
};

struct losses lost;

struct stack {
	__u32 nr_kernel;
	__u32 nr_user;
	__u64 kernel[MAX_KERNEL];
	__u64 user[MAX_USER];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stack);
} scratch SEC(".maps");

/* Keyed by hash. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, struct stack);
} stacks SEC(".maps");

/* Values in place of the hash of a stack. */
#define NO_STACK 0
#define NONE (~0ULL)

struct thread {
	__u64 since; /* when it blocked, in ns; 0 if it is not blocked */
	__u64 stack;
	__u64 cgroup;
	__u64 newest; /* stack of its newest sum, or NONE */
	__u32 pid; /* in the reader's PID namespace */
	__u32 tid;
};

/* Keyed by thread ID in the first PID namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, __u32);
	__type(value, struct thread);
} threads SEC(".maps");

struct sum_key {
	__u32 thread;
	__u32 unused;
	__u64 stack;
};

struct sum {
	__u64 time; /* ns */
	__u64 older; /* stack of the thread's sum before this one, or NONE */
	__u64 cgroup;
	__u32 pid;
	__u32 tid;
	__u32 cpu; /* CPU on which it ran next, the last time */
	__u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct sum_key);
	__type(value, struct sum);
} sums SEC(".maps");

/* A record of the perf event. */
struct blocked {
	__u64 time; /* ns */
	__u64 stack;
	__u64 cgroup;
	__u32 pid;
	__u32 tid;
	__u32 cpu;
	__u32 mark; /* the record only has a time */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__type(key, __u32);
	__type(value, __u32);
} outputs SEC(".maps");

static __always_inline __u64 mix(__u64 hash, __u64 v)
{
	hash = (hash ^ v) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 32;
}

/* keep_stack stores the stack of the current task. It returns the stack's hash, or NO_STACK if there is no room. */
static __always_inline __u64 keep_stack(void *ctx)
{
	__u32 zero = 0, i;
	struct stack *s;
	__u64 hash = 1;
	long n;

	s = bpf_map_lookup_elem(&scratch, &zero);
	if (!s)
		return NO_STACK;
	n = kernel_stacks ? bpf_get_stack(ctx, s->kernel, sizeof(s->kernel), 0) : 0;
	s->nr_kernel = n > 0 ? n / sizeof(__u64) : 0;
	n = user_stacks ? bpf_get_stack(ctx, s->user, sizeof(s->user), BPF_F_USER_STACK) : 0;
	s->nr_user = n > 0 ? n / sizeof(__u64) : 0;
	for (i = 0; i < MAX_KERNEL && i < s->nr_kernel; i++)
		hash = mix(hash, s->kernel[i]);
	hash = mix(hash, 0);
	for (i = 0; i < MAX_USER && i < s->nr_user; i++)
		hash = mix(hash, s->user[i]);
	if (hash == NO_STACK || hash == NONE)
		hash = 1;
	if (bpf_map_lookup_elem(&stacks, &hash))
		return hash;
	if (bpf_map_update_elem(&stacks, &hash, s, BPF_ANY)) {
		__sync_fetch_and_add(&lost.stacks, 1);
		return NO_STACK;
	}
	return hash;
}

static const struct thread unknown = { .newest = NONE };

/* leave notes that the current task blocks. */
static __always_inline void leave(void *ctx, struct task_struct___blocked *task)
{
	struct thread *t;
	__u32 key;

	key = task->pid;
	t = bpf_map_lookup_elem(&threads, &key);
	if (!t) {
		bpf_map_update_elem(&threads, &key, &unknown, BPF_NOEXIST);
		t = bpf_map_lookup_elem(&threads, &key);
		if (!t) {
			__sync_fetch_and_add(&lost.threads, 1);
			return;
		}
	}
	t->pid = process_id((void *)task);
	t->tid = thread_id((void *)task);
	t->stack = keep_stack(ctx);
	t->cgroup = bpf_get_current_cgroup_id();
	t->since = bpf_ktime_get_ns();
}

static __always_inline void output(void *ctx, struct blocked *b)
{
	long err = bpf_perf_event_output(ctx, &outputs, BPF_F_CURRENT_CPU, b, sizeof(*b));

	if (err && err != -ENOSPC) /* the event counts these */
		__sync_fetch_and_add(&lost.outputs, 1);
}

/* arrive adds up or writes how long a task that runs again was blocked. */
static __always_inline void arrive(void *ctx, struct task_struct___blocked *task)
{
	struct sum_key key = { .thread = task->pid };
	struct blocked b = {};
	struct sum *sum;
	struct thread *t;

	t = bpf_map_lookup_elem(&threads, &key.thread);
	if (!t || !t->since)
		return;
	b.time = bpf_ktime_get_ns() - t->since;
	t->since = 0;
	b.stack = key.stack = t->stack;
	b.cgroup = t->cgroup;
	b.pid = t->pid;
	b.tid = t->tid;
	b.cpu = bpf_get_smp_processor_id();
	if (b.time >= threshold) {
		output(ctx, &b);
		return;
	}
	sum = bpf_map_lookup_elem(&sums, &key);
	if (sum) {
		sum->time += b.time;
		sum->cgroup = b.cgroup;
		sum->cpu = b.cpu;
		return;
	}
	struct sum first = { .time = b.time, .older = t->newest, .cgroup = b.cgroup, .pid = b.pid, .tid = b.tid, .cpu = b.cpu };

	if (bpf_map_update_elem(&sums, &key, &first, BPF_NOEXIST))
		output(ctx, &b); /* no room for a sum */
	else
		t->newest = key.stack;
}

SEC("tp_btf/sched_switch")
int on_switch(__u64 *ctx)
{
	struct task_struct___blocked *prev = (void *)ctx[1], *next = (void *)ctx[2];

	if (begins_to_wait(ctx))
		leave(ctx, prev);
	arrive(ctx, next);
	return 0;
}

/*
 * on_exit writes the sums of a thread while the thread has its ID. A reader of the recording knows the thread's name
 * until another thread gets the ID. Up to Linux 6.1 at least, PERF_RECORD_EXIT comes before this tracepoint.
 */
SEC("tp_btf/sched_process_exit")
int on_exit(__u64 *ctx)
{
	struct task_struct___blocked *task = (void *)ctx[0];
	struct sum_key key = { .thread = task->pid };
	struct thread *t;
	__u32 i;

	forget_target(task);
	t = bpf_map_lookup_elem(&threads, &key.thread);
	if (!t)
		return 0;
	key.stack = t->newest;
	for (i = 0; i < MAX_SUMS_AT_EXIT && key.stack != NONE; i++) {
		struct sum *sum = bpf_map_lookup_elem(&sums, &key);
		struct blocked b = { .stack = key.stack };
		__u64 older;

		if (!sum)
			break; /* the user side has read them */
		b.time = sum->time;
		b.cgroup = sum->cgroup;
		b.pid = sum->pid;
		b.tid = sum->tid;
		b.cpu = sum->cpu;
		older = sum->older;
		output(ctx, &b);
		bpf_map_delete_elem(&sums, &key);
		key.stack = older;
	}
	bpf_map_delete_elem(&threads, &key.thread);
	return 0;
}

/* mark writes a record that only has the time by the clock of the perf event. */
SEC("raw_tp")
int mark(void *ctx)
{
	struct blocked b = { .mark = 1 };

	output(ctx, &b);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
