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
	struct bpf_perf_event_value start[MAX_EVENTS];
};

/* sum is what an event counted in all runs. */
struct sum {
	struct reading reading;
	__u64 runs; /* for the whole of which it was on a counter: min, max and the histogram are of these */
	__u64 min;
	__u64 max;
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
	__u64 entering; /* frame for which bperf_entry is at work: what interrupts it has no beginning of its own */
	struct slot slots[SLOTS];
	struct bpf_perf_event_value now[MAX_EVENTS];
	struct sum sums[MAX_EVENTS];
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

static __always_inline struct cpu *this_cpu(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&cpus, &zero);
}

/* read_all reads all events, and returns which could be read. Without branches, as the verifier follows each of them. */
static __always_inline __u64 read_all(struct bpf_perf_event_value *to)
{
	__u32 i, cpu = bpf_get_smp_processor_id();
	__u64 read = 0;

	for (i = 0; i < MAX_EVENTS && i < nr_events; i++) {
		long err = bpf_perf_event_read_value(&events, (__u64)i * nr_cpus + cpu, &to[i], sizeof(to[i]));

		read |= (~(__u64)err >> 63) << i;
	}
	return read;
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

/* record adds what a run counted of an event. A function of its own for the verifier, which looks at it once and not for each
 * event. */
__noinline int record(struct cpu *cpu, __u32 event)
{
	struct histogram *h = bpf_map_lookup_elem(&histograms, &event);
	struct bpf_perf_event_value *d;
	struct sum *s;
	__u64 b, v;

	if (!cpu || !h || event >= MAX_EVENTS)
		return 0;
	d = &cpu->now[event];
	s = &cpu->sums[event];
	v = d->counter > overhead[event] ? d->counter - overhead[event] : 0;
	s->reading.value += v;
	s->reading.enabled += d->enabled;
	s->reading.stopped += d->enabled - d->running;
	if (d->enabled != d->running)
		return 0;
	if (!s->runs || v < s->min)
		s->min = v;
	if (v > s->max)
		s->max = v;
	s->runs++;
	b = bucket(v);
	if (b < BUCKETS)
		h->runs[b]++;
	return 0;
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
		} else if (slot->turn < turn) {
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
	/* First, so that an bperf_exit which this interrupts sees that its slot is another's. */
	slot->turn = ++cpu->turns;
	slot->frame = (__u64)ctx;
	barrier();
	cpu->live |= 1ULL << i;
	slot->window = now;
	slot->task = (__u64)task;
	slot->switches = switches(task);
	slot->read = read_all(slot->start);
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
	__u64 now = window, read, began, turn, n, all = nr_events == MAX_EVENTS ? ~0ULL : (1ULL << nr_events) - 1;
	struct cpu *cpu = this_cpu();
	struct task_struct___run *task;
	struct slot *slot;
	__u32 i;

	if (!cpu || !(now & 1))
		return 0;
	read = read_all(cpu->now);
	cpu->runs++;
	n = find(cpu, (__u64)ctx);
	if (n >= SLOTS) {
		cpu->dropped[DROPPED_BEGUN]++;
		return 0;
	}
	slot = &cpu->slots[n];
	turn = slot->turn;
	began = slot->read;
	task = (void *)bpf_get_current_task_btf();
	if (slot->window != now) {
		cpu->live &= ~(1ULL << n);
		cpu->dropped[DROPPED_BEGUN]++;
		return 0;
	}
	if (slot->task != (__u64)task || slot->switches != switches(task)) {
		cpu->live &= ~(1ULL << n);
		cpu->dropped[DROPPED_SWITCHED]++;
		return 0;
	}
	for (i = 0; i < MAX_EVENTS && i < nr_events; i++) {
		cpu->now[i].counter -= slot->start[i].counter;
		cpu->now[i].enabled -= slot->start[i].enabled;
		cpu->now[i].running -= slot->start[i].running;
	}
	barrier();
	/*
	 * The kernel runs no bperf_entry within an bperf_entry on the same CPU. The slot of a run that began so is none, or one that a run
	 * at the same place left behind. Runs that interrupt each other end before those that they interrupt.
	 */
	if (cpu->entering || slot->turn != turn || (cpu->live & ~(1ULL << n) && later(cpu, turn))) {
		cpu->live &= ~(1ULL << n);
		cpu->dropped[DROPPED_MIXED]++;
		return 0;
	}
	cpu->live &= ~(1ULL << n);
	if (((read & began) | partial_events) != all) {
		cpu->dropped[DROPPED_UNREADABLE]++;
		return 0;
	}
	for (i = 0; i < MAX_EVENTS && i < nr_events; i++) {
		if (read & began & 1ULL << i)
			record(cpu, i);
	}
	return 0;
}
