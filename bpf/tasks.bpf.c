// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Counts what each process, each thread or each cgroup uses of the CPUs. At each context switch, the growth of the CPU's perf
 * events and of the clock since the last switch is added to the sums of the outgoing task.
 *
 * Needs Linux 5.10: BPF_PROG_TEST_RUN of raw tracepoints on a given CPU, BPF_F_PRESERVE_ELEMS.
 */
#include "namespace.h"

#define MAX_EVENTS 16
#define MAX_ABOVE 6

const volatile __u32 nr_cpus = 1;
const volatile __u32 nr_events = 0;
/*
 * Events that the kernel counts after the tracepoint, one bit each: the switch itself still belongs to the outgoing
 * task.
 */
const volatile __u64 switch_events = 0;
const volatile bool by_cgroup = false;
const volatile bool by_thread = false;

/* Whether to measure how long threads are off the CPUs, and whether the tracepoint has the state of the task (5.18). */
const volatile bool off_cpu = false;
const volatile bool has_prev_state = false;

/* The row of each event in the map of events. */
const volatile __u32 rows[MAX_EVENTS] = {};

/* The event on a CPU is element row * nr_cpus + CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__type(key, __u32);
	__type(value, __u32);
} events SEC(".maps");

/* Why a thread is not on a CPU. */
#define RUNNABLE 0 /* it waits for a CPU */
#define SLEEPING 1 /* a signal can end the wait; or it is stopped */
#define BLOCKED 2 /* uninterruptible: most waits for disks and for locks in the kernel */
#define REASONS 3

struct sum {
	__u64 time; /* ns */
	__u64 off[REASONS]; /* ns */
	__u64 switches;
	__u8 comm[16];
	__u64 above[MAX_ABOVE]; /* the cgroups above a cgroup, or itself, from the level below the root */
	struct bpf_perf_event_value events[MAX_EVENTS];
};

/* Keyed by process ID, thread ID or cgroup ID. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct sum);
} sums SEC(".maps");

struct cpu {
	__u64 time; /* of the last readings; 0 before the first */
	__u64 arrived; /* when its task came; 0 before the first switch */
	__u64 seen; /* events that were read then, one bit each */
	struct bpf_perf_event_value events[MAX_EVENTS];
	__u64 lost_time; /* time of tasks that did not fit into sums */
	__u64 lost_switches;
	__u64 lost_off; /* times that a thread left the CPU and did not fit into threads */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

/* thread is a thread that left a CPU. */
struct thread {
	__u64 left; /* when, in ns */
	__u64 run_delay; /* its time in queues of CPUs until then, in ns */
	__u64 reason;
};

/* Keyed by thread ID in the first PID namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct thread);
} threads SEC(".maps");

/* The key of processes and threads that have no ID in the reader's PID namespace. */
#define ELSEWHERE (1ULL << 32)

static __always_inline __u64 task_key(void)
{
	struct task_struct___leader *task = (void *)bpf_get_current_task();
	__u32 nr = by_thread ? thread_id(task) : process_id(task);

	return nr ? nr : ELSEWHERE;
}

static const struct sum none;

static __always_inline void set_above(struct sum *sum)
{
	int i;

#pragma unroll
	for (i = 0; i < MAX_ABOVE; i++)
		sum->above[i] = bpf_get_current_ancestor_cgroup_id(i + 1);
}

static __always_inline struct sum *sum_of(__u64 key)
{
	struct sum *sum = bpf_map_lookup_elem(&sums, &key);

	if (sum)
		return sum;
	bpf_map_update_elem(&sums, &key, &none, BPF_NOEXIST);
	sum = bpf_map_lookup_elem(&sums, &key);
	if (sum && by_cgroup)
		set_above(sum);
	else if (sum)
		bpf_get_current_comm(sum->comm, sizeof(sum->comm));
	return sum;
}

static __always_inline void add(struct bpf_perf_event_value *sum, struct bpf_perf_event_value *now, struct bpf_perf_event_value *before)
{
	__sync_fetch_and_add(&sum->counter, now->counter - before->counter);
	__sync_fetch_and_add(&sum->enabled, now->enabled - before->enabled);
	__sync_fetch_and_add(&sum->running, now->running - before->running);
}

#define TASK_UNINTERRUPTIBLE 0x0002
#define TASK_DEAD 0x0080

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sched_info___delay {
	unsigned long long run_delay; /* with CONFIG_SCHED_INFO */
};

struct task_struct___off {
	unsigned int __state; /* since Linux 5.14 */
	long state;
	struct sched_info___delay sched_info;
};

#pragma clang attribute pop

/* state_of returns the state with which a task leaves its CPU. */
static __always_inline __u64 state_of(__u64 *ctx, struct task_struct___off *task)
{
	if (ctx[0]) /* preempted */
		return 0;
	if (has_prev_state)
		return (__u32)ctx[3];
	if (bpf_core_field_exists(task->__state))
		return BPF_CORE_READ(task, __state);
	return BPF_CORE_READ(task, state);
}

/* No container is in the root cgroup. Threads of the kernel are. */
#define ROOT_CGROUP 1

/*
 * account_off adds the time that the current thread was off the CPUs before it came to this one, and notes that it leaves.
 * So there is one look-up for each switch, and the thread is where its sum is already known. The scheduler's own count of
 * the time in queues separates the wait for a CPU from what the thread waited for before that.
 */
static __always_inline void account_off(__u64 *ctx, struct cpu *cpu, struct sum *sum, __u32 tid, __u64 now)
{
	struct task_struct___off *task = (void *)bpf_get_current_task();
	struct thread next = {}, *last = bpf_map_lookup_elem(&threads, &tid);
	__u64 state = state_of(ctx, task);

	if (bpf_core_field_exists(task->sched_info.run_delay))
		next.run_delay = BPF_CORE_READ(task, sched_info.run_delay);
	if (last && sum && cpu->arrived > last->left) {
		__u64 off = cpu->arrived - last->left, queued = next.run_delay - last->run_delay;

		if (last->reason == RUNNABLE || queued > off)
			queued = off;
		__sync_fetch_and_add(&sum->off[RUNNABLE], queued);
		__sync_fetch_and_add(&sum->off[last->reason == BLOCKED ? BLOCKED : SLEEPING], off - queued);
	}
	if (state & TASK_DEAD) {
		bpf_map_delete_elem(&threads, &tid);
		return;
	}
	next.left = now;
	if (state)
		next.reason = state & TASK_UNINTERRUPTIBLE ? BLOCKED : SLEEPING;
	if (last)
		*last = next;
	else if (bpf_map_update_elem(&threads, &tid, &next, BPF_ANY))
		cpu->lost_off++;
}

/*
 * account runs with interrupts disabled, or where no switch can come: bring runs from an interrupt or, on the caller's
 * CPU, with preemption disabled.
 */
static __always_inline int account(void *ctx, bool switches)
{
	__u64 id = bpf_get_current_pid_tgid(), now = bpf_ktime_get_ns(), key, passed, seen = 0;
	struct bpf_perf_event_value v;
	struct sum *sum = NULL;
	struct cpu *cpu;
	__u32 zero = 0, i;

	cpu = bpf_map_lookup_elem(&cpus, &zero);
	if (!cpu)
		return 0;
	passed = now - cpu->time;
	if (cpu->time && id) { /* not the idle task */
		key = by_cgroup ? bpf_get_current_cgroup_id() : task_key();
		sum = sum_of(key);
		if (off_cpu && switches && !(by_cgroup && key == ROOT_CGROUP))
			account_off(ctx, cpu, sum, id, now);
		if (sum) {
			__sync_fetch_and_add(&sum->time, passed);
			__sync_fetch_and_add(&sum->switches, switches);
			if (!by_cgroup && (by_thread || (__u32)id == id >> 32)) /* an exec may have changed the name */
				bpf_get_current_comm(sum->comm, sizeof(sum->comm));
		} else {
			cpu->lost_time += passed;
			cpu->lost_switches += switches;
		}
	}
	cpu->time = now;
	if (switches)
		cpu->arrived = now;
	for (i = 0; i < MAX_EVENTS && i < nr_events; i++) {
		__u64 bit = 1ULL << i;

		if (bpf_perf_event_read_value(&events, (__u64)rows[i] * nr_cpus + bpf_get_smp_processor_id(), &v, sizeof(v)))
			continue;
		if (switches && switch_events & bit)
			v.counter++;
		/* An event that was enabled for less time than at the last reading is another one: the CPU came online. */
		if (sum && cpu->seen & bit && v.enabled >= cpu->events[i].enabled)
			add(&sum->events[i], &v, &cpu->events[i]);
		cpu->events[i] = v;
		seen |= bit;
	}
	cpu->seen = seen;
	return 0;
}

SEC("raw_tp/sched_switch")
int on_switch(void *ctx)
{
	return account(ctx, true);
}

/* bring updates the sums. The task on the CPU goes on. */
SEC("raw_tp")
int bring(void *ctx)
{
	return account(ctx, false);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
