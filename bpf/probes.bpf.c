// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Counting inside a BPF program: one program at its entry and one at its exit, for all events of a session. Each program that is
 * counted has its own pair with its own maps. The user side is internal/count/program.
 *
 * A CPU has a perf event per event of the session, which runs all the time. The readings at entry belong to one run: they are
 * kept in a slot of the CPU with the address of the run's frame, which no other run that has not ended can have. BPF programs do
 * not migrate, so that the exit finds them on the same CPU, whatever ran in between. Runs that come while one of the two programs
 * is at work have only one of them run: what they leave behind is told from what belongs to another by the order in which runs begin.
 */
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

enum {
	MAX_EVENTS = 64,
	SLOTS = 4, /* runs that a CPU can have begun at a time: in a task, in interrupts, in NMIs, in tasks that are preempted */
	BUCKETS = 252,
};

/* reading is a struct bpf_perf_event_value, but with the time that the event was not on a counter. */
struct reading {
	__u64 value;
	__u64 enabled;
	__u64 stopped; /* enabled - running */
};

/* slot has the readings that a run began with. */
struct slot {
	__u64 frame; /* address of the run's arguments on the stack */
	__u64 turn;  /* which of the runs that began on the CPU it is */
	__u64 task;
	__u64 switches; /* of the task until then */
	__u64 read;	/* events that could be read, one bit each */
	__u64 window;
	__u64 plain; /* the readings have no times */
	__u64 began; /* ns */
	struct bpf_perf_event_value start[MAX_EVENTS];
};

/* sum is what an event counted in all runs. */
struct sum {
	struct reading reading; /* its times are those of runs that were not plain */
	__u64 runs;		/* of these, the ones for the whole of which it was on a counter */
	/* These are of such runs, and of plain ones. */
	__u64 above_min; /* ~min, so that nothing is 0 */
	__u64 max;
	__u64 sure; /* above_min, but without plain runs since it was looked whether the event shares its counter */
	/* The last bucket, and runs of it that are not yet in the histogram. */
	__u64 low;
	__u64 width;
	__u64 same;
};

/* sharing tells whether an event shares its counter. */
struct sharing {
	__u64 enabled; /* when it was looked last */
	__u64 stopped;
};

/* Why a run is not in the sums. */
enum dropped {
	DROPPED_BEGUN,	    /* its beginning was not seen */
	DROPPED_FULL,	    /* its slot was given to another run: those that end are in DROPPED_BEGUN, too */
	DROPPED_MIXED,	    /* its beginning may be that of another run */
	DROPPED_SWITCHED,   /* other tasks ran meanwhile */
	DROPPED_UNREADABLE, /* an event could not be read */
	DROPPED_KINDS,
};

struct cpu {
	__u64 runs; /* that ended */
	__u64 dropped[DROPPED_KINDS];
	__u64 live;	/* slots that are taken, one bit each */
	__u64 turns;	/* runs that began */
	__u64 exiting;	/* 1 + the slot that bperf_exit works on, or 0 */
	__u64 plain;	/* window in which no event shares its counter, as far as is known */
	__u64 looked;	/* window in which that was looked for */
	__u64 due;	/* when it is looked again, in ns */
	__u64 shared;	/* until when at least it is taken that one does */
	__u64 since;	/* ns in plain runs since it was looked */
	__u64 plain_runs;
	__u64 plain_time; /* in these, in ns */
	__u64 time;	  /* in runs that are counted */
	__u64 entering; /* frame for which bperf_entry is at work: what interrupts it has no beginning of its own */
	struct slot slots[SLOTS];
	struct bpf_perf_event_value now[MAX_EVENTS];
	struct sum sums[MAX_EVENTS];
	struct sharing sharing[MAX_EVENTS];
};

/* histogram has the runs of an event by what was counted in one: 4 buckets per power of 2. */
struct histogram {
	__u64 runs[BUCKETS];
};

/* CPUs of event e begin at element e * nr_cpus. Made by the user side, for its size. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__type(key, __u32);
	__type(value, __u32);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

/* One per event: the user side sets how many. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct histogram);
} histograms SEC(".maps");

/* Odd while the session counts: a run counts if all of it is in one window. */
volatile __u64 window SEC(".data.window") = 0;

const volatile __u32 nr_cpus; /* that are possible */
const volatile __u32 nr_events;
const volatile __u64 partial_events; /* that not all CPUs have */
const volatile __u64 overhead[MAX_EVENTS]; /* of each run: what it counts that is not its own */
const volatile __u64 overhead_with_times[MAX_EVENTS];
const volatile __u32 with_times; /* always */

static __always_inline struct cpu *this_cpu(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&cpus, &zero);
}

/* read_all reads all events, plainly or with times, and returns which could be read. Without branches, as the verifier follows each. */
static __always_inline __u64 read_all(struct bpf_perf_event_value *to, bool plain)
{
	__u64 i, n = nr_events, step = nr_cpus, at = bpf_get_smp_processor_id(), read = 0;

	for (i = 0; i < MAX_EVENTS && i < n; i++, at += step) {
		__u64 err;

		if (plain)
			err = to[i].counter = bpf_perf_event_read(&events, at);
		else
			err = bpf_perf_event_read_value(&events, at, &to[i], sizeof(to[i]));
		read |= (~err >> 63) << i;
	}
	return read;
}

enum {
	LOOK_EVERY = 1000000, /* ns: less than events take turns */
	SHARED_FOR = 1000000000,
};

/*
 * look finds out whether an event of the session shares its counter with others: then runs are read with times. Reading them takes
 * a third longer. What was read plainly since the last look is taken to have been on a counter for the same share of the time as the
 * event was altogether. The first look of a window has nothing to compare with: what was before says nothing of it.
 */
__noinline int look(struct cpu *cpu, __u64 now)
{
	__u64 time = bpf_ktime_get_ns(), i, at = bpf_get_smp_processor_id();
	bool shared = false, plain, first;

	if (!cpu)
		return 0;
	plain = cpu->plain == now;
	first = cpu->looked != now;
	for (i = 0; i < MAX_EVENTS && i < nr_events; i++, at += nr_cpus) {
		struct sharing *sharing = &cpu->sharing[i];
		struct bpf_perf_event_value v = {};
		struct sum *s = &cpu->sums[i];
		__u64 enabled, stopped;

		if (bpf_perf_event_read_value(&events, at, &v, sizeof(v)))
			continue;
		enabled = v.enabled - sharing->enabled;
		stopped = v.enabled - v.running - sharing->stopped;
		if (stopped && !first) {
			shared = true;
			if (enabled)
				s->reading.stopped += cpu->since * stopped / enabled;
			if (plain)
				s->above_min = s->sure;
		}
		s->sure = s->above_min;
		sharing->enabled = v.enabled;
		sharing->stopped = v.enabled - v.running;
	}
	if (shared)
		cpu->shared = time + SHARED_FOR;
	cpu->since = 0;
	cpu->due = time + LOOK_EVERY;
	cpu->looked = now;
	cpu->plain = time < cpu->shared || with_times ? 0 : now;
	return 0;
}

struct task_struct___run {
	void *stack;
	unsigned long nvcsw;
	unsigned long nivcsw;
} __attribute__((preserve_access_index));

/* switches is how often a task was switched away from. */
static __always_inline __u64 switches(const struct task_struct___run *task)
{
	return task->nvcsw + task->nivcsw;
}

/* bucket is that of a value: one each for 0 to 3, then 4 for each power of 2. */
static __always_inline __u64 bucket(__u64 value)
{
	__u64 v = value, log = 0, shift;

	for (shift = 32; shift; shift >>= 1) {
		if (v >> shift) {
			v >>= shift;
			log += shift;
		}
	}
	if (log < 2)
		return value;
	return (log - 1) * 4 + (value >> (log - 2) & 3);
}

/* file puts what was counted in the same bucket into the histogram, and begins another. A function of its own for the verifier, which
 * looks at it once and not for each event. */
__noinline int file(struct cpu *cpu, __u32 event, __u64 value)
{
	struct histogram *h = bpf_map_lookup_elem(&histograms, &event);
	struct sum *s;
	__u64 b;

	if (!cpu || !h || event >= MAX_EVENTS)
		return 0;
	s = &cpu->sums[event];
	b = bucket(s->low);
	if (b < BUCKETS)
		h->runs[b] += s->same;
	b = bucket(value);
	s->width = b < 8 ? 1 : 1ULL << (b / 4 - 1);
	s->low = value & ~(s->width - 1);
	s->same = 0;
	return 0;
}

/* record adds what a run counted of an event. */
static __always_inline void record(struct cpu *cpu, struct sum *s, __u32 event, __u64 value)
{
	if (~value > s->above_min)
		s->above_min = ~value;
	if (value > s->max)
		s->max = value;
	if (value - s->low >= s->width)
		file(cpu, event, value);
	s->same++;
}

/* own is what a run counted without what the probes did. */
static __always_inline __u64 own(__u64 value, __u64 overhead)
{
	return value > overhead ? value - overhead : 0;
}

/* add adds a run to the sums. */
static __always_inline void add(struct cpu *cpu, struct slot *slot, __u64 read, bool plain)
{
	__u64 i, n = nr_events, partial = partial_events;

	for (i = 0; i < MAX_EVENTS && i < n; i++) {
		struct sum *s = &cpu->sums[i];
		__u64 v = own(cpu->now[i].counter - slot->start[i].counter, plain ? overhead[i] : overhead_with_times[i]);

		if (partial && !(read >> i & 1))
			continue;
		s->reading.value += v;
		if (!plain) {
			__u64 enabled = cpu->now[i].enabled - slot->start[i].enabled;
			__u64 running = cpu->now[i].running - slot->start[i].running;

			s->reading.enabled += enabled;
			s->reading.stopped += enabled - running;
			if (enabled != running)
				continue;
			s->runs++;
		}
		record(cpu, s, i, v);
	}
}

/* Kernel stacks are that large, and aligned to their size. */
#define STACK 0x4000
#define LARGEST_STACK 0x10000

/* ended tells of a slot of this task whether its run has ended although its slot is taken, seen from a run that begins at a frame. The
 * kernel runs no bperf_exit within an bperf_exit on the same CPU: such runs leave their slot behind. A run that has not ended is further up on the
 * same stack, or on the stack of the task, which what interrupts it leaves for another. */
static __always_inline bool ended(const struct slot *slot, __u64 frame, const struct task_struct___run *task)
{
	__u64 stack = (__u64)task->stack;

	if (slot->task != (__u64)task)
		return false;
	if ((slot->frame ^ frame) < STACK)
		return slot->frame <= frame;
	return frame - stack < LARGEST_STACK && slot->frame - stack >= LARGEST_STACK;
}

/* take finds a slot for the run that enters. If there is none it takes that of the oldest. */
static __noinline __u64 take(struct cpu *cpu, const struct task_struct___run *task)
{
	__u64 i, taken = 0, turn = ~0ULL, frame = cpu->entering; /* a number: the verifier does not let one compute with ctx */

	for (i = 0; i < SLOTS; i++) {
		struct slot *slot = &cpu->slots[i];

		if (!(cpu->live >> i & 1) || slot->frame == frame || slot->window != window || ended(slot, frame, task)) {
			cpu->live &= ~(1ULL << i);
			taken = i;
			turn = 0;
		} else if (slot->turn < turn && cpu->exiting != i + 1) {
			taken = i;
			turn = slot->turn;
		}
	}
	if (turn)
		cpu->dropped[DROPPED_FULL]++;
	return taken;
}

SEC("fentry/target")
int bperf_entry(void *ctx)
{
	struct cpu *cpu = this_cpu();
	struct task_struct___run *task;
	struct slot *slot;
	__u64 now = window, i = 0;

	if (!cpu || !(now & 1))
		return 0;
	cpu->entering = (__u64)ctx;
	barrier();
	task = (void *)bpf_get_current_task_btf();
	if (cpu->live)
		i = take(cpu, task);
	slot = &cpu->slots[i % SLOTS];
	slot->turn = ++cpu->turns;
	slot->frame = (__u64)ctx;
	cpu->live |= 1ULL << i;
	slot->window = now;
	slot->task = (__u64)task;
	slot->switches = switches(task);
	if (cpu->looked != now && !cpu->exiting)
		look(cpu, now);
	slot->plain = cpu->plain == now;
	slot->read = slot->plain ? read_all(slot->start, true) : read_all(slot->start, false);
	slot->began = bpf_ktime_get_ns();
	barrier();
	cpu->entering = 0;
	return 0;
}

/* find is the slot of a run, or SLOTS. */
static __always_inline __u64 find(struct cpu *cpu, __u64 frame)
{
	__u64 i;

	for (i = 0; i < SLOTS; i++) {
		if ((cpu->live >> i & 1) && cpu->slots[i].frame == frame)
			break;
	}
	return i;
}

/* later frees the slots of runs that began after one that ends, and returns whether there are any. */
static __noinline bool later(struct cpu *cpu, __u64 turn)
{
	bool any = false;
	__u64 i;

	for (i = 0; i < SLOTS; i++) {
		if ((cpu->live >> i & 1) && cpu->slots[i].window == window && cpu->slots[i].turn > turn) {
			cpu->live &= ~(1ULL << i);
			any = true;
		}
	}
	return any;
}

SEC("fexit/target")
int bperf_exit(void *ctx)
{
	__u64 now = window, read, n, time, took, all = nr_events == MAX_EVENTS ? ~0ULL : (1ULL << nr_events) - 1;
	enum dropped why = DROPPED_BEGUN;
	struct cpu *cpu = this_cpu();
	struct task_struct___run *task;
	struct slot *slot;
	bool plain;

	if (!cpu || !(now & 1))
		return 0;
	time = bpf_ktime_get_ns();
	cpu->runs++;
	n = find(cpu, (__u64)ctx);
	if (n >= SLOTS) {
		cpu->dropped[DROPPED_BEGUN]++;
		return 0;
	}
	slot = &cpu->slots[n];
	cpu->exiting = n + 1; /* it is not taken from here on */
	barrier();
	if (slot->frame != (__u64)ctx || slot->window != now)
		goto drop;
	plain = slot->plain;
	read = slot->read & (plain ? read_all(cpu->now, true) : read_all(cpu->now, false));
	task = (void *)bpf_get_current_task_btf();
	why = DROPPED_SWITCHED;
	if (slot->task != (__u64)task || slot->switches != switches(task))
		goto drop;
	/*
	 * The kernel runs no bperf_entry within a bperf_entry on the same CPU. The slot of a run that began so is none, or one that a
	 * run at the same place left behind. Runs that interrupt each other end before those that they interrupt.
	 */
	why = DROPPED_MIXED;
	if (cpu->entering || (cpu->live & ~(1ULL << n) && later(cpu, slot->turn)))
		goto drop;
	why = DROPPED_UNREADABLE;
	if ((read | partial_events) != all)
		goto drop;
	took = time - slot->began;
	cpu->time += took;
	if (plain) {
		cpu->plain_runs++;
		cpu->plain_time += took;
		cpu->since += took;
		add(cpu, slot, read, true);
	} else {
		add(cpu, slot, read, false);
	}
	cpu->live &= ~(1ULL << n);
	if (time >= cpu->due)
		look(cpu, now);
	cpu->exiting = 0;
	return 0;
drop:
	cpu->live &= ~(1ULL << n);
	cpu->dropped[why]++;
	cpu->exiting = 0;
	return 0;
}
