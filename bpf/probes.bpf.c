// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Counting inside a BPF program: one program at its entry and one at its exit, for all events of a session. Each program that is
 * counted has its own pair with its own maps. The user side is internal/count/program.
 *
 * A CPU has a perf event per event of the session, which runs all the time. The readings at entry belong to one run: they are
 * kept in a slot of the CPU with the address of the run's frame, which no other run that has not ended can have. BPF programs do
 * not migrate, so that the exit finds them on the same CPU, whatever ran in between. Runs that come while one of the two programs
 * is at work have only one of them run: what they leave behind is told from what belongs to another by the order in which runs begin.
 *
 * Nearly all runs come where no other has begun on the CPU, and no event shares its counter. They have a way of their own, which is as short
 * as can be: what is not in it is in enter and leave, in look and in file.
 */
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

enum {
	MAX_EVENTS = 64,
	SHORT_EVENTS = 16, /* with more of them all runs go the long way */
	SLOTS = 4, /* runs that a CPU can have begun at a time: in a task, in interrupts, in NMIs, in tasks that are preempted */
	BUCKETS = 252,
};

/* What is said of slots by struct cpu.live; the first SLOTS bits are one of each that is taken. */
enum {
	EXITING = SLOTS,      /* the first of as many bits: bperf_exit works on the slot */
	SHORT = 1 << 8,	      /* the first slot is of a run that began on the short way, and no other is taken */
	ONLY = SHORT | 1,     /* so it is all that there is */
	ENDING = ONLY | 1 << EXITING, /* and it ends on the short way, too */
};

/* reading is a struct bpf_perf_event_value, but with the time that the event was not on a counter. */
struct reading {
	__u64 value;
	__u64 enabled;
	__u64 stopped; /* enabled - running */
};

/* slot has the readings that a run began with. What SHORT tells is not in it. */
struct slot {
	__u64 frame; /* address of the run's arguments on the stack */
	__u64 task;
	__u64 switches; /* of the task until then */
	__u64 began;	/* ns, or 0 if its time is not taken */
	__u64 turn;	/* which of the runs that began on the CPU it is; with SHORT it is not known */
	__u64 read;	/* events that could be read, one bit each; with SHORT all */
	__u64 plain;	/* the readings have no times; with SHORT they have none */
	struct bpf_perf_event_value start[MAX_EVENTS];
};

/* sum is what an event counted in all runs. */
struct sum {
	struct reading reading; /* its times are those of runs that were not plain */
	/* A run that counts from low to low + width - 1 changes none of bucket, min and max. */
	__u64 low;
	__u64 width;
	/* These are of runs for the whole of which it was on a counter, and of plain ones. */
	__u64 above_min; /* ~min, so that nothing is 0 */
	__u64 max;
	__u64 sure; /* above_min, but without plain runs since it was looked whether the event shares its counter */
	/* The bucket of the last runs, which are not in the histogram yet: filed is how many of the runs that were counted are not of them. */
	__u64 bucket;
	__u64 filed;
	__u64 skipped; /* of the latter, those that will not be in the histogram */
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
	__u64 window; /* of what is here */
	__u64 live;
	__u64 brief;   /* the short way is open: runs are read plainly, and there are not too many events */
	__u64 plain;   /* no event shares its counter, as far as is known */
	__u64 counted; /* runs that are in the sums */
	__u64 next;    /* how many of them there are when the time of one is taken again */
	__u64 first;   /* of the CPU's events in the map */
	__u64 timed;   /* runs for which plain_time and full_time stand */
	__u64 plain_time; /* in those that were read plainly, in ns */
	__u64 plain_runs;
	__u64 full_time; /* in the others */
	__u64 last;	 /* when the time of a run was taken */
	__u64 quick;	 /* times that were taken since runs follow each other quickly */
	__u64 reading;	 /* ns that it takes to read all events plainly */
	__u64 due;	 /* when it is looked again whether events share counters, in ns */
	__u64 shared;	 /* until when at least it is taken that one does */
	__u64 looked;	 /* plain_time when it was looked last */
	__u64 turns;
	__u64 entering; /* frame for which enter is at work: what interrupts it has no beginning of its own */
	__u64 events;	/* address of the map */
	__u64 dropped[DROPPED_KINDS];
	__u64 memory[MAX_EVENTS]; /* addresses of the kernel's struct perf_event of events that it counts in memory, or 0 */
	__u64 now[MAX_EVENTS];
	struct slot slots[SLOTS];
	struct bpf_perf_event_value full[MAX_EVENTS];
	struct sum sums[MAX_EVENTS];
	struct sharing sharing[MAX_EVENTS];
};

/* histogram has the runs of an event by what was counted in one: 4 buckets per power of 2. */
struct histogram {
	__u64 runs[BUCKETS];
};

/* Events of a CPU begin at element cpu * nr_events. Made by the user side, for its size. */
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

/* Odd while the session counts, and otherwise even, but not 0: a run counts if all of it is in one window. */
volatile __u64 window SEC(".data.window") = 2;

const volatile __u32 nr_events;
const volatile __u64 partial_events; /* that not all CPUs have */
const volatile __u64 memory_events;  /* that the kernel counts in memory, one bit each */
/* The same for the short way, where each load is too many. */
const volatile __u64 session;
enum {
	EVENTS = 0xff,	    /* nr_events; 0 if they are more than SHORT_EVENTS */
	IN_MEMORY = 0x100,  /* there are memory_events */
	CALIBRATED = 0x200, /* overhead is not 0 */
};
const volatile __u64 overhead[MAX_EVENTS]; /* of each run: what it counts that is not its own */
const volatile __u64 overhead_with_times[MAX_EVENTS];
const volatile __u32 with_times; /* always */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct perf_event___run {
	struct {
		struct {
			struct {
				__u64 counter;
			} a;
		} a;
	} count; /* local64_t */
};

struct bpf_event_entry {
	struct perf_event___run *event;
};

struct bpf_array {
	void *ptrs[1];
};

struct task_struct___run {
	void *stack;
	unsigned long nvcsw;
	unsigned long nivcsw;
};

#pragma clang attribute pop

extern void *bpf_rdonly_cast(const void *pointer, __u32 type) __ksym __weak; /* Linux 6.2 */

static const volatile __u32 zero; /* not on the stack, which the short way does not use */

static __always_inline struct cpu *this_cpu(void)
{
	return bpf_map_lookup_elem(&cpus, (void *)&zero);
}

/* EACH does something for each event of the short way. As their number is constant, the verifier leaves nothing of it but what is done. */
#define EACH_4(DO, e)         \
	case e + 4: DO(e + 3) \
	case e + 3: DO(e + 2) \
	case e + 2: DO(e + 1) \
	case e + 1: DO(e)
#define EACH(DO)                                             \
	switch (session & EVENTS) {                          \
		EACH_4(DO, 12)                               \
		EACH_4(DO, 8)                                \
		EACH_4(DO, 4)                                \
		EACH_4(DO, 0)                                \
	}

/* in_memory is what an event has counted that the kernel counts in memory. */
static __always_inline __u64 in_memory(__u64 address)
{
	struct perf_event___run *event = bpf_rdonly_cast((void *)address, bpf_core_type_id_kernel(struct perf_event___run));

	return event->count.a.a.counter;
}

/* READ reads an event plainly. An error is a negative number, and no count is. */
#define READ(e)                                                   \
	value = bpf_perf_event_read(&events, first + e);          \
	READ_INTO(e) = value;                                     \
	any |= value;

#define READ_MEMORY(e)                                            \
	memory = cpu->memory[e];                                  \
	if (memory)                                               \
		value = in_memory(memory);                        \
	else                                                      \
		value = bpf_perf_event_read(&events, first + e);  \
	READ_INTO(e) = value;                                     \
	any |= value;

#define READ_EACH                                                 \
	if (session & IN_MEMORY && bpf_rdonly_cast)               \
		EACH(READ_MEMORY)                                 \
	else                                                      \
		EACH(READ)

/* read_start reads all events plainly into the first slot, read_now into now. What they return is negative if one could not be read. */
static __always_inline __s64 read_start(struct cpu *cpu, __u64 session)
{
	__u64 any = 0, value, memory, first = cpu->first;

#define READ_INTO(e) cpu->slots[0].start[e].counter
	READ_EACH
#undef READ_INTO
	return any;
}

static __always_inline __s64 read_now(struct cpu *cpu, __u64 session)
{
	__u64 any = 0, value, memory, first = cpu->first;

#define READ_INTO(e) cpu->now[e]
	READ_EACH
#undef READ_INTO
	return any;
}

/* read_all reads all events, plainly or with times, and returns which could be read. Without branches, as the verifier follows each. */
static __always_inline __u64 read_all(struct cpu *cpu, struct bpf_perf_event_value *to, bool plain)
{
	__u64 i, first = cpu->first, read = 0;

	for (i = nr_events - 1ULL; i < MAX_EVENTS; i--) {
		__u64 err;

		if (plain)
			err = to[i].counter = bpf_perf_event_read(&events, first + i);
		else
			err = bpf_perf_event_read_value(&events, first + i, &to[i], sizeof(to[i]));
		read |= (~err >> 63) << i;
	}
	return read;
}

/* readable is which events could be read into a slot plainly. */
static __noinline __u64 readable(struct slot *slot)
{
	__u64 i, read = 0;

	for (i = 0; i < MAX_EVENTS && i < nr_events; i++)
		read |= (~slot->start[i].counter >> 63) << i;
	return read;
}

/* find_memory finds the events of a CPU that the kernel counts in memory. */
static __always_inline void find_memory(struct cpu *cpu)
{
	__u64 i, entry;

	*(volatile __u64 *)&cpu->events = (__u64)&events; /* from there it is a number */
	for (i = 0; i < MAX_EVENTS && i < nr_events; i++) {
		cpu->memory[i] = 0;
		if (!(memory_events >> i & 1))
			continue;
		entry = *(volatile __u64 *)&cpu->events + bpf_core_field_offset(struct bpf_array, ptrs) + (cpu->first + i) * sizeof(entry);
		if (bpf_probe_read_kernel(&entry, sizeof(entry), (void *)entry) || !entry)
			continue; /* the CPU does not have it */
		entry += bpf_core_field_offset(struct bpf_event_entry, event);
		bpf_probe_read_kernel(&cpu->memory[i], sizeof(cpu->memory[i]), (void *)entry);
	}
}

enum {
	LOOK_EVERY = 1000000, /* ns: less than events take turns */
	SHARED_FOR = 1000000000,
	QUICK = 32000,	   /* ns from a run to the next */
	QUICK_TIMES = 64,
	TIMED_OF = 32,	   /* a power of 2 */
};

/* reading_time is how long it takes to read all events plainly: the time of runs is taken around their readings. Twice, for interrupts. */
static __always_inline __u64 reading_time(struct cpu *cpu)
{
	__u64 i, begin, end, least = ~0ULL, with = session;

	for (i = 0; i < 2; i++) {
		begin = bpf_ktime_get_ns();
		if (with & EVENTS)
			read_now(cpu, with);
		else
			read_all(cpu, cpu->full, true);
		end = bpf_ktime_get_ns();
		if (end - begin < least)
			least = end - begin;
	}
	return least;
}

/*
 * look finds out whether an event of the session shares its counter with others: then runs are read with times. Reading them takes
 * a third longer. What was read plainly since the last look is taken to have been on a counter for the same share of the time as the
 * event was altogether. The first look of a window has nothing to compare with: what was before says nothing of it.
 */
__noinline int look(struct cpu *cpu, bool first)
{
	__u64 time = bpf_ktime_get_ns(), since, i;
	bool shared = false;

	if (!cpu)
		return 0;
	since = cpu->plain_time - cpu->looked;
	for (i = 0; i < MAX_EVENTS && i < nr_events; i++) {
		struct sharing *sharing = &cpu->sharing[i];
		struct bpf_perf_event_value v = {};
		struct sum *s = &cpu->sums[i];
		__u64 enabled, stopped;

		if (bpf_perf_event_read_value(&events, cpu->first + i, &v, sizeof(v)))
			continue;
		enabled = v.enabled - sharing->enabled;
		stopped = v.enabled - v.running - sharing->stopped;
		if (stopped && !first) {
			shared = true;
			if (enabled)
				s->reading.stopped += since * stopped / enabled;
			if (cpu->plain) {
				s->above_min = s->sure;
				s->width = 0;
			}
		}
		s->sure = s->above_min;
		sharing->enabled = v.enabled;
		sharing->stopped = v.enabled - v.running;
	}
	if (shared)
		cpu->shared = time + SHARED_FOR;
	cpu->reading = reading_time(cpu);
	cpu->looked = cpu->plain_time;
	cpu->due = time + LOOK_EVERY;
	cpu->plain = time >= cpu->shared && !with_times;
	cpu->brief = cpu->plain && nr_events <= SHORT_EVENTS;
	return 0;
}

/* begin begins a window on a CPU, or reports that there is none. Nothing of an earlier one is under way: the user side waits for that. */
static __noinline bool begin(struct cpu *cpu)
{
	__u64 now = window;

	if (!(now & 1))
		return false;
	cpu->live = 0;
	cpu->first = bpf_get_smp_processor_id() * nr_events;
	cpu->timed = cpu->next = cpu->counted;
	cpu->quick = 0;
	if (memory_events)
		find_memory(cpu);
	look(cpu, true);
	cpu->window = now;
	return true;
}

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

/*
 * file has a run that is counted next begin a new range of what changes nothing and, in another bucket than those before it, has these put
 * into the histogram. A function of its own for the verifier, which looks at it once and not for each event.
 */
__noinline int file(struct cpu *cpu, __u32 event, __u64 value)
{
	__u64 b = bucket(value), width = b < 8 ? 1 : 1ULL << (b / 4 - 1), low = value & ~(width - 1), high = low + width - 1;
	struct sum *s;

	if (!cpu || event >= MAX_EVENTS)
		return 0;
	s = &cpu->sums[event];
	if (b != s->bucket) {
		struct histogram *h = bpf_map_lookup_elem(&histograms, &event);

		if (h && s->bucket < BUCKETS)
			h->runs[s->bucket] += cpu->counted - s->filed;
		s->filed = cpu->counted;
		s->bucket = b;
	}
	if (~value > s->above_min)
		s->above_min = ~value;
	if (value > s->max)
		s->max = value;
	if (low < ~s->above_min)
		low = ~s->above_min;
	if (high > s->max)
		high = s->max;
	s->low = low;
	s->width = high - low + 1;
	return 0;
}

/* own is what a run counted without what the probes did. */
static __always_inline __u64 own(__u64 value, __u64 overhead)
{
	return value > overhead ? value - overhead : 0;
}

/* add adds a run that began in the first slot and was read plainly to the sums. */
static __always_inline void add(struct cpu *cpu, __u64 session)
{
	__u64 value;

#define ADD(e)                                                         \
	value = cpu->now[e] - cpu->slots[0].start[e].counter;         \
	if (session & CALIBRATED)                                      \
		value = own(value, overhead[e]);                      \
	cpu->sums[e].reading.value += value;                          \
	if (value - cpu->sums[e].low >= cpu->sums[e].width)           \
		file(cpu, e, value);
	EACH(ADD)
}

/* add_full adds a run of any slot, that was read into full. */
static __always_inline void add_full(struct cpu *cpu, struct slot *slot, bool plain)
{
	__u64 i;

	for (i = 0; i < MAX_EVENTS && i < nr_events; i++) {
		struct sum *s = &cpu->sums[i];
		__u64 v = own(cpu->full[i].counter - slot->start[i].counter, plain ? overhead[i] : overhead_with_times[i]);

		s->reading.value += v;
		if (!plain) {
			__u64 enabled = cpu->full[i].enabled - slot->start[i].enabled;
			__u64 running = cpu->full[i].running - slot->start[i].running;

			s->reading.enabled += enabled;
			s->reading.stopped += enabled - running;
			if (enabled != running) {
				s->filed++;
				s->skipped++;
				continue;
			}
		}
		if (v - s->low >= s->width)
			file(cpu, i, v);
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

/* lengthen says in the first slot what SHORT tells of it. */
static __always_inline void lengthen(struct cpu *cpu)
{
	struct slot *slot = &cpu->slots[0];

	if (!(cpu->live & SHORT))
		return;
	slot->turn = ++cpu->turns;
	slot->read = ~0ULL;
	slot->plain = true;
	cpu->live &= ~(__u64)SHORT;
}

/* take finds a slot for the run that enters. If there is none it takes that of the oldest. */
static __noinline __u64 take(struct cpu *cpu, const struct task_struct___run *task)
{
	__u64 i, taken = 0, turn = ~0ULL, frame = cpu->entering; /* a number: the verifier does not let one compute with ctx */

	for (i = 0; i < SLOTS; i++) {
		struct slot *slot = &cpu->slots[i];

		if (cpu->live >> i & 1 << EXITING)
			continue;
		if (!(cpu->live >> i & 1) || slot->frame == frame || ended(slot, frame, task)) {
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

/* between is the time of a run without that for the readings. */
static __always_inline __u64 between(struct cpu *cpu, __u64 began, __u64 ended)
{
	__u64 time = ended - began, readings = 2 * cpu->reading;

	return time > readings ? time - readings : 0;
}

/* enter is the long way of bperf_entry: others have begun, or events share counters. */
static __noinline int enter(struct cpu *cpu, void *ctx)
{
	struct task_struct___run *task;
	struct slot *slot;
	__u64 i = 0;

	cpu->entering = (__u64)ctx;
	barrier();
	lengthen(cpu);
	task = (void *)bpf_get_current_task_btf();
	if (cpu->live)
		i = take(cpu, task);
	slot = &cpu->slots[i % SLOTS];
	slot->turn = ++cpu->turns;
	slot->frame = (__u64)ctx;
	slot->task = (__u64)task;
	slot->switches = switches(task);
	slot->plain = cpu->plain;
	slot->began = bpf_ktime_get_ns();
	if (slot->plain) {
		slot->read = read_all(cpu, slot->start, true);
	} else {
		slot->read = read_all(cpu, slot->start, false);
		slot->began = bpf_ktime_get_ns();
	}
	cpu->live |= 1ULL << i;
	barrier();
	cpu->entering = 0;
	return 0;
}

SEC("fentry/target")
int bperf_entry(void *ctx)
{
	struct cpu *cpu = this_cpu();
	struct task_struct___run *task;
	struct slot *slot;
	__u64 live = ONLY;

	if (!cpu)
		return 0;
	if (cpu->window != window && !begin(cpu))
		return 0;
	if (cpu->live || !cpu->brief)
		return enter(cpu, ctx);
	slot = &cpu->slots[0];
	task = (void *)bpf_get_current_task_btf();
	slot->frame = (__u64)ctx;
	slot->task = (__u64)task;
	slot->switches = switches(task);
	slot->began = cpu->counted < cpu->next ? 0 : bpf_ktime_get_ns();
	if (read_start(cpu, session) < 0) {
		slot->turn = ++cpu->turns;
		slot->read = readable(slot);
		slot->plain = true;
		live = 1;
	}
	barrier();
	cpu->live = live; /* last: runs that end meanwhile have not begun */
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
		if ((cpu->live >> i & 1) && cpu->slots[i].turn > turn) {
			cpu->live &= ~(1ULL << i);
			any = true;
		}
	}
	return any;
}

/* leave is the long way of bperf_exit. */
static __noinline int leave(struct cpu *cpu, void *ctx)
{
	__u64 read, time, n, bits, all = nr_events == MAX_EVENTS ? ~0ULL : (1ULL << nr_events) - 1;
	enum dropped why = DROPPED_BEGUN;
	struct task_struct___run *task;
	struct slot *slot;
	bool plain;

	lengthen(cpu);
	n = find(cpu, (__u64)ctx);
	if (n >= SLOTS) {
		cpu->dropped[DROPPED_BEGUN]++;
		return 0;
	}
	slot = &cpu->slots[n];
	bits = (1ULL | 1ULL << EXITING) << n;
	cpu->live |= bits; /* it is not taken from here on */
	barrier();
	if (slot->frame != (__u64)ctx)
		goto drop;
	plain = slot->plain;
	if (plain) {
		read = slot->read & read_all(cpu, cpu->full, true);
		time = bpf_ktime_get_ns();
	} else {
		time = bpf_ktime_get_ns();
		read = slot->read & read_all(cpu, cpu->full, false);
	}
	task = (void *)bpf_get_current_task_btf();
	why = DROPPED_SWITCHED;
	if (slot->task != (__u64)task || slot->switches != switches(task))
		goto drop;
	/*
	 * The kernel runs no bperf_entry within a bperf_entry on the same CPU. The slot of a run that began so is none, or one that a
	 * run at the same place left behind. Runs that interrupt each other end before those that they interrupt.
	 */
	why = DROPPED_MIXED;
	if (cpu->entering || (cpu->live & ~bits && later(cpu, slot->turn)))
		goto drop;
	why = DROPPED_UNREADABLE;
	if (((read | partial_events) & all) != all)
		goto drop;
	if (plain) {
		if (slot->began) {
			cpu->plain_time += between(cpu, slot->began, time);
			cpu->plain_runs++;
			cpu->timed++;
		}
		add_full(cpu, slot, true);
	} else {
		cpu->full_time += time - slot->began;
		cpu->timed++;
		add_full(cpu, slot, false);
	}
	cpu->counted++;
	cpu->live &= ~bits;
	if (time >= cpu->due)
		look(cpu, false);
	return 0;
drop:
	cpu->live &= ~bits;
	cpu->dropped[why]++;
	return 0;
}

/* drop drops a run that ends on the short way; where that is due to what began while it ended, this with it. */
static __noinline int drop(struct cpu *cpu, enum dropped why)
{
	cpu->live &= why == DROPPED_MIXED ? 0 : ~(__u64)ENDING;
	cpu->dropped[why]++;
	return 0;
}

/*
 * finish ends a run on the short way whose time is taken. Where runs follow each other quickly it stands for those before it, too, and
 * some of the next ones go without: how many is left to chance, so that it does not go with what the program does in turns.
 */
static __noinline int finish(struct cpu *cpu)
{
	__u64 time = bpf_ktime_get_ns(), runs = cpu->counted + 1 - cpu->timed;

	cpu->plain_time += between(cpu, cpu->slots[0].began, time) * runs;
	cpu->plain_runs += runs;
	cpu->timed += runs;
	cpu->quick = time - cpu->last < runs * QUICK ? cpu->quick + 1 : 0;
	cpu->last = time;
	cpu->next = cpu->counted + 1;
	if (cpu->quick > QUICK_TIMES)
		cpu->next += bpf_get_prandom_u32() & (TIMED_OF - 1);
	add(cpu, session);
	cpu->counted++;
	barrier();
	cpu->live &= ~(__u64)ENDING;
	if (time >= cpu->due)
		look(cpu, false);
	return 0;
}

SEC("fexit/target")
int bperf_exit(void *ctx)
{
	struct cpu *cpu = this_cpu();
	struct task_struct___run *task;
	struct slot *slot;
	__u64 with;

	if (!cpu)
		return 0;
	if (cpu->window != window) {
		if (window & 1)
			cpu->dropped[DROPPED_BEGUN]++;
		return 0;
	}
	slot = &cpu->slots[0];
	if (cpu->live != ONLY || slot->frame != (__u64)ctx)
		return leave(cpu, ctx);
	cpu->live = ENDING;
	barrier();
	with = session;
	if (read_now(cpu, with) < 0)
		return drop(cpu, DROPPED_UNREADABLE);
	task = (void *)bpf_get_current_task_btf();
	if (slot->task != (__u64)task || slot->switches != switches(task))
		return drop(cpu, DROPPED_SWITCHED);
	if (cpu->live != ENDING)
		return drop(cpu, DROPPED_MIXED);
	if (slot->began)
		return finish(cpu);
	add(cpu, with);
	cpu->counted++;
	barrier();
	cpu->live &= ~(__u64)ENDING; /* what began meanwhile is not in it */
	return 0;
}
