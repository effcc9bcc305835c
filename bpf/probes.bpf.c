// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Counting inside a BPF program: one program at its entry and one at its exit, for all events of all sessions. Each program that is
 * counted has its own pair with its own maps, which its sessions share. The user side is internal/count/program.
 *
 * Sums only grow, as sessions come and go: each session subtracts what was there when it began. bperf_read copies the sums of a CPU
 * at a moment when none of its runs is being added.
 *
 * A CPU has a perf event per distinct event, which runs all the time. The readings at entry belong to one run: they are
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
	ANY_EXITING = ((1 << SLOTS) - 1) << EXITING,
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
	__u64 version;	/* of the set of events that it was read with */
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
	__u64 unread; /* runs in which the event could not be read: they are not in its sum */
	__u64 probes; /* what the probes themselves took of the runs that are charged */
	__u64 unmeasured; /* runs that are charged, but not in probes: what the probes take is not known */
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
	DROPPED_KINDS,
};

/* How runs are read. The last two are for measuring what that takes. */
enum {
	AS_NEEDED,
	PLAINLY,
	WITH_TIMES,
};

/* set is the events that are counted, at positions 0 to events - 1. All that sessions change is in it. */
struct set {
	__u64 on;	   /* at least one session counts */
	__u64 events;
	__u64 memory;	   /* positions of events that the kernel counts in memory, one bit each */
	__u64 calibrated;  /* positions that have their overhead subtracted from each run, one bit each */
	__u64 reads;	   /* AS_NEEDED and so on */
	__u64 measured;	   /* overhead was measured: some session needs it */
	__u64 unmeasured;  /* positions where that failed, one bit each */
	__u64 keys[MAX_EVENTS]; /* the row of the event in the map of events, times 2; plus 1 if calibrated */
	__u64 overhead[MAX_EVENTS]; /* what the probes themselves take of each run */
	__u64 overhead_with_times[MAX_EVENTS];
};

/*
 * Two sets: that in force is number version & 1. A session writes the other one, adds 1 to the version and waits until no run is under way
 * that began before. Adding 2 makes each CPU look anew where its events are.
 */
struct sets {
	__u64 version;
	__u64 latest; /* token of the session that began last: it gets the extremes of the runs since then */
	__u64 joined; /* how many sessions have begun */
	struct set sets[2];
};

struct cpu {
	__u64 version; /* of the set that it counts */
	__u64 live;
	__u64 brief;   /* how the short way goes, if it is open: runs are read plainly, and there are not too many events */
	__u64 plain;   /* no event shares its counter, as far as is known */
	__u64 counted; /* runs that are in the sums */
	__u64 next;    /* how many of them there are when the time of one is taken again */
	__u64 positions; /* in use, since the set was taken over */
	__u64 charged; /* runs for which what the probes took is in sums; all that were read with times are */
	__u64 timed;   /* runs for which plain_time and full_time stand */
	__u64 plain_time; /* in those that were read plainly, in ns */
	__u64 plain_runs;
	__u64 full_time; /* in the others */
	__u64 last;	 /* when the time of a run was taken */
	__u64 quick;	 /* times that were taken since runs follow each other quickly */
	__u64 reading;	 /* ns that it takes to read all events plainly */
	__u64 looking;	 /* look is at work */
	__u64 fresh;	 /* positions whose sharing is not known yet, one bit each */
	__u64 due;	 /* when it is looked again whether events share counters, in ns */
	__u64 shared;	 /* until when at least it is taken that one does */
	__u64 looked;	 /* plain_time when it was looked last */
	__u64 turns;
	__u64 entering; /* frame for which enter is at work: what interrupts it has no beginning of its own */
	__u64 events;	/* address of the map */
	__u64 dropped[DROPPED_KINDS];
	__u64 keys[MAX_EVENTS];
	__u64 index[MAX_EVENTS];  /* of the events in the map, on this CPU */
	__u64 memory[MAX_EVENTS]; /* addresses of the kernel's struct perf_event of events that it counts in memory, or 0 */
	__u64 now[MAX_EVENTS];
	struct slot slots[SLOTS + 1]; /* the last has what is read at the end of a run that goes the long way */
	struct sum sums[MAX_EVENTS];
	struct sharing sharing[MAX_EVENTS];
};

/* histogram has the runs of an event by what was counted in one: 4 buckets per power of 2. */
struct histogram {
	__u64 runs[BUCKETS];
};

/* copy is what bperf_read has copied of a CPU, but for its events. */
struct copy {
	__u64 counted;
	__u64 plain_time;
	__u64 full_time;
	__u64 dropped[DROPPED_KINDS];
};

/* position is what a position has on a CPU besides its sum, and what bperf_read has copied of it. */
struct position {
	struct histogram histogram;
	struct histogram copied;
	struct sum sum;
};

/* extremes are of the runs from the beginning of a session to the beginning of the next one. */
struct range {
	__u64 above_min; /* ~min, so that nothing is 0 */
	__u64 max;
};

/* member is a session that counts. */
struct member {
	__u64 order;	 /* by their beginnings */
	__u64 positions; /* one bit each */
	__u64 measures;	 /* it needs the overhead */
};

enum { MAX_MEMBERS = 1024 };

/* The event of row r on a CPU is element r * nr_cpus + cpu. All programs that are counted share it. Made by the user side, for its size. */
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

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct copy);
} copies SEC(".maps");

/* So that the compiler describes them: it does not for maps in maps. */
const struct position *described_position __attribute__((unused));
const struct range *described_range __attribute__((unused));

struct one_position {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct position);
};

/* The user side makes the maps of those that are in use. Elements of one large map would take their room, or have none where they are made as needed. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, MAX_EVENTS);
	__type(key, __u32);
	__array(values, struct one_position);
} positions SEC(".maps");

struct by_position {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_EVENTS);
	__type(key, __u32);
	__type(value, struct range);
};

/* By token. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH_OF_MAPS);
	__uint(max_entries, MAX_MEMBERS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__array(values, struct by_position);
} extremes SEC(".maps");

/* By token. Only the user side looks into it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_MEMBERS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct member);
} members SEC(".maps");

volatile struct sets state SEC(".data.state");

const volatile __u32 nr_cpus; /* possible ones */

/* What struct cpu.brief says of the short way. */
enum {
	EVENTS = 0xff,
	IN_MEMORY = 0x100,  /* some are counted in memory */
	CALIBRATED = 0x200, /* some are calibrated */
	OPEN = 0x400,
};

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

static const volatile __u32 zero; /* not on the stack, which the short way does not use */

static __always_inline struct cpu *this_cpu(void)
{
	return bpf_map_lookup_elem(&cpus, (void *)&zero);
}

/* set_of is the set of a version. */
static __always_inline volatile struct set *set_of(__u64 version)
{
	return &state.sets[version & 1];
}

/* EACH does something for each of n events of the short way, of which there is at least one. */
#define NEXT(DO, e)           \
	if (n <= e)           \
		break;        \
	DO(e)
#define EACH(DO)                                                                \
	do {                                                                    \
		DO(0)                                                           \
		NEXT(DO, 1) NEXT(DO, 2) NEXT(DO, 3) NEXT(DO, 4) NEXT(DO, 5)     \
		NEXT(DO, 6) NEXT(DO, 7) NEXT(DO, 8) NEXT(DO, 9) NEXT(DO, 10)    \
		NEXT(DO, 11) NEXT(DO, 12) NEXT(DO, 13) NEXT(DO, 14) NEXT(DO, 15) \
	} while (0)

/* in_memory is what an event has counted that the kernel counts in memory. */
static __always_inline __u64 in_memory(__u64 address)
{
	struct perf_event___run *event = bpf_rdonly_cast((void *)address, bpf_core_type_id_kernel(struct perf_event___run));

	return event->count.a.a.counter;
}

/* READ reads an event plainly. An error is a negative number, and no count is. */
#define READ(e)                                                   \
	value = bpf_perf_event_read(&events, cpu->index[e]);      \
	READ_INTO(e) = value;                                     \
	any |= value;

#define READ_MEMORY(e)                                            \
	memory = cpu->memory[e];                                  \
	if (memory)                                               \
		value = in_memory(memory);                        \
	else                                                      \
		value = bpf_perf_event_read(&events, cpu->index[e]); \
	READ_INTO(e) = value;                                     \
	any |= value;

#define READ_EACH                                                 \
	if (n) {                                                  \
		if (brief & IN_MEMORY && bpf_rdonly_cast)         \
			EACH(READ_MEMORY);                        \
		else                                              \
			EACH(READ);                               \
	}

/* read_start reads all events plainly into the first slot, read_now into now. What they return is negative if one could not be read. */
static __always_inline __s64 read_start(struct cpu *cpu, __u64 brief)
{
	__u64 any = 0, value, memory, n = brief & EVENTS;

#define READ_INTO(e) cpu->slots[0].start[e].counter
	READ_EACH
#undef READ_INTO
	return any;
}

static __always_inline __s64 read_now(struct cpu *cpu, __u64 brief)
{
	__u64 any = 0, value, memory, n = brief & EVENTS;

#define READ_INTO(e) cpu->now[e]
	READ_EACH
#undef READ_INTO
	return any;
}

enum { AT_END = SLOTS }; /* the last of the slots */

/*
 * read_all reads n events into a slot, plainly or with times, and returns which could be read. The verifier checks a function that is
 * not static once, and not for each state that leads to it: the number of events is unknown to it.
 */
__noinline __u64 read_all(struct cpu *cpu, __u32 to, __u64 n, bool plain)
{
	struct bpf_perf_event_value *values;
	__u64 i, err, read = 0;

	if (!cpu || to > AT_END)
		return 0;
	values = cpu->slots[to].start;
	if (plain) {
		for (i = 0; i < MAX_EVENTS && i < n; i++) {
			err = values[i].counter = bpf_perf_event_read(&events, cpu->index[i]);
			read |= (~err >> 63) << i;
		}
	} else {
		for (i = 0; i < MAX_EVENTS && i < n; i++) {
			err = bpf_perf_event_read_value(&events, cpu->index[i], &values[i], sizeof(values[i]));
			read |= (~err >> 63) << i;
		}
	}
	return read;
}

/* readable is which events could be read into the first slot plainly. */
__noinline __u64 readable(struct cpu *cpu)
{
	__u64 i, read = 0;

	if (!cpu)
		return 0;
	for (i = 0; i < SHORT_EVENTS; i++)
		read |= (~cpu->slots[0].start[i].counter >> 63) << i;
	return read;
}

/* find_memory finds an event of a CPU that the kernel counts in memory; it is 0 if the CPU does not have it. */
static __always_inline __u64 find_memory(struct cpu *cpu, __u64 index)
{
	__u64 entry, event = 0;

	*(volatile __u64 *)&cpu->events = (__u64)&events; /* from there it is a number */
	entry = *(volatile __u64 *)&cpu->events + bpf_core_field_offset(struct bpf_array, ptrs) + index * sizeof(entry);
	if (bpf_probe_read_kernel(&entry, sizeof(entry), (void *)entry) || !entry)
		return 0;
	entry += bpf_core_field_offset(struct bpf_event_entry, event);
	bpf_probe_read_kernel(&event, sizeof(event), (void *)entry);
	return event;
}

enum {
	LOOK_EVERY = 1000000, /* ns: less than events take turns */
	SHARED_FOR = 1000000000,
	QUICK = 32000,	   /* ns from a run to the next */
	QUICK_TIMES = 64,
	TIMED_OF = 32,	   /* a power of 2 */
};

/* reading_time is how long it takes to read all events plainly: the time of runs is taken around their readings. Twice, for interrupts. */
static __always_inline __u64 reading_time(struct cpu *cpu, __u64 n)
{
	__u64 i, begin, end, least = ~0ULL;

	for (i = 0; i < 2; i++) {
		begin = bpf_ktime_get_ns();
		barrier(); /* brief is loaded again: the verifier does not know it in the second round */
		if (cpu->brief)
			read_now(cpu, cpu->brief);
		else
			read_all(cpu, AT_END, n, true);
		end = bpf_ktime_get_ns();
		if (end - begin < least)
			least = end - begin;
	}
	return least;
}

/* look_at is look for an event, and reports whether it shares its counter. */
__noinline int look_at(struct cpu *cpu, __u32 event)
{
	struct bpf_perf_event_value v = {};
	struct sharing *sharing;
	__u64 enabled, stopped;
	bool shared = false;
	struct sum *s;

	if (!cpu || event >= MAX_EVENTS)
		return 0;
	s = &cpu->sums[event];
	sharing = &cpu->sharing[event];
	if (bpf_perf_event_read_value(&events, cpu->index[event], &v, sizeof(v)))
		return 0;
	enabled = v.enabled - sharing->enabled;
	stopped = v.enabled - v.running - sharing->stopped;
	if (stopped && !(cpu->fresh >> event & 1)) {
		shared = true;
		if (enabled)
			s->reading.stopped += (cpu->plain_time - cpu->looked) * stopped / enabled;
		if (cpu->plain) {
			s->above_min = s->sure;
			s->width = 0;
		}
	}
	s->sure = s->above_min;
	sharing->enabled = v.enabled;
	sharing->stopped = v.enabled - v.running;
	return shared;
}

/*
 * look finds out whether an event shares its counter with others: then runs are read with times. Reading them takes
 * a third longer. What was read plainly since the last look is taken to have been on a counter for the same share of the time as the
 * event was altogether. The first look at an event has nothing to compare with: what was before says nothing of it.
 */
__noinline int look(struct cpu *cpu)
{
	__u64 time = bpf_ktime_get_ns(), n, i;
	volatile struct set *set;
	__u32 shared = 0;

	if (!cpu)
		return 0;
	cpu->looking = true;
	barrier();
	set = set_of(cpu->version);
	for (i = 0; i < MAX_EVENTS && i < set->events; i++)
		shared |= look_at(cpu, i);
	cpu->fresh = 0;
	if (shared)
		cpu->shared = time + SHARED_FOR;
	cpu->plain = set->reads == PLAINLY || (time >= cpu->shared && set->reads != WITH_TIMES);
	cpu->brief = 0;
	n = set->events;
	if (cpu->plain && n <= SHORT_EVENTS)
		cpu->brief = OPEN | n | (set->memory ? IN_MEMORY : 0) | (set->calibrated ? CALIBRATED : 0);
	cpu->reading = reading_time(cpu, n);
	cpu->looked = cpu->plain_time;
	cpu->due = time + LOOK_EVERY;
	barrier();
	cpu->looking = false;
	return 0;
}

/* charge adds what the probes took of the runs that were read plainly since the last time to the sums. */
__noinline int charge(struct cpu *cpu)
{
	volatile struct set *set;
	__u64 i, runs;

	if (!cpu)
		return 0;
	set = set_of(cpu->version);
	runs = cpu->counted - cpu->charged;
	for (i = 0; i < MAX_EVENTS && i < cpu->positions; i++) {
		cpu->sums[i].probes += runs * set->overhead[i];
		cpu->sums[i].unmeasured += runs * (set->unmeasured >> i & 1);
	}
	cpu->charged = cpu->counted;
	return 0;
}

/* lengthen says in the first slot what SHORT says of it. */
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

/* take_over has a CPU count an event at a position. */
__noinline int take_over(struct cpu *cpu, __u32 position, __u64 key, bool memory)
{
	if (!cpu || position >= MAX_EVENTS)
		return 0;
	if (position >= cpu->positions || cpu->keys[position] != key) {
		cpu->keys[position] = key;
		cpu->index[position] = (key >> 1) * nr_cpus + bpf_get_smp_processor_id();
		cpu->fresh |= 1ULL << position;
		cpu->sums[position].filed = cpu->counted;
		cpu->sums[position].width = 0;
	}
	cpu->memory[position] = memory && bpf_rdonly_cast ? find_memory(cpu, cpu->index[position]) : 0;
	return 0;
}

/* refresh has a CPU count the set that is in force, or reports that there is none. */
__noinline int refresh(struct cpu *cpu)
{
	__u64 i, version;
	volatile struct set *set;

	if (!cpu)
		return 0;
	version = state.version;
	set = set_of(version);
	if (!set->on)
		return 0;
	lengthen(cpu);
	charge(cpu);
	for (i = 0; i < MAX_EVENTS && i < set->events; i++)
		take_over(cpu, i, set->keys[i], set->memory >> i & 1);
	cpu->positions = set->events;
	cpu->version = version;
	cpu->next = cpu->counted;
	cpu->quick = 0;
	look(cpu);
	return 1;
}

/* switches is how often a task was switched away from. */
static __always_inline __u64 switches(const struct task_struct___run *task)
{
	return task->nvcsw + task->nivcsw;
}

/* bucket is that of a value: one each for 0 to 3, then 4 for each power of 2. */
__noinline __u64 bucket(__u64 value)
{
	__u64 v = value, log = 0, half, above;

#pragma unroll
	for (half = 32; half; half >>= 1) {
		above = -(v >> half);
		asm volatile("" : "+r"(above)); /* no branches, of which the verifier would check each combination */
		above = above >> 63 ? half : 0;
		v >>= above;
		log += above;
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
		void *map = bpf_map_lookup_elem(&positions, &event);
		struct position *p = map ? bpf_map_lookup_elem(map, (void *)&zero) : NULL;

		if (p && s->bucket < BUCKETS)
			p->histogram.runs[s->bucket] += cpu->counted - s->filed;
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
static __always_inline void add(struct cpu *cpu, __u64 brief)
{
	__u64 value, n = brief & EVENTS;

#define ADD(e)                                                         \
	value = cpu->now[e] - cpu->slots[0].start[e].counter;         \
	cpu->sums[e].reading.value += value;                          \
	if (value - cpu->sums[e].low >= cpu->sums[e].width)           \
		file(cpu, e, value);
#define ADD_CALIBRATED(e)                                              \
	value = cpu->now[e] - cpu->slots[0].start[e].counter;         \
	if (calibrated >> e & 1)                                       \
		value = own(value, set->overhead[e]);                 \
	cpu->sums[e].reading.value += value;                          \
	if (value - cpu->sums[e].low >= cpu->sums[e].width)           \
		file(cpu, e, value);
	if (!n)
		return;
	if (brief & CALIBRATED) {
		volatile struct set *set = set_of(cpu->slots[0].version);
		__u64 calibrated = set->calibrated;

		EACH(ADD_CALIBRATED);
	} else {
		EACH(ADD);
	}
}

/* add_full adds what an event counted in a run of any slot, with what was read at its end. */
__noinline int add_full(struct cpu *cpu, __u32 number, __u32 event, bool plain)
{
	volatile struct set *set;
	struct bpf_perf_event_value *end;
	struct slot *slot;
	struct sum *s;
	__u64 v, overhead, enabled = 0, running = 0;

	if (!cpu || number >= SLOTS || event >= MAX_EVENTS)
		return 0;
	slot = &cpu->slots[number];
	set = set_of(slot->version);
	s = &cpu->sums[event];
	end = &cpu->slots[AT_END].start[event];
	v = end->counter - slot->start[event].counter;
	if (!(slot->read >> event & 1)) {
		s->filed++;
		s->unread++;
		return 0;
	}
	overhead = set->overhead[event];
	if (!plain) {
		enabled = end->enabled - slot->start[event].enabled;
		running = end->running - slot->start[event].running;
		overhead = set->overhead_with_times[event];
		s->reading.enabled += enabled;
		s->reading.stopped += enabled - running;
		s->probes += overhead;
		s->unmeasured += set->unmeasured >> event & 1;
	}
	if (enabled != running) /* it counted the probes for the same share of the time as the program */
		overhead = overhead * running / enabled;
	if (set->calibrated >> event & 1)
		v = own(v, overhead);
	s->reading.value += v;
	if (enabled != running) {
		s->filed++;
		return 0;
	}
	if (v - s->low >= s->width)
		file(cpu, event, v);
	return 0;
}

/* add_all is add_full for each of n events. */
__noinline int add_all(struct cpu *cpu, __u32 number, __u64 n, bool plain)
{
	__u64 i;

	if (!cpu)
		return 0;
	for (i = 0; i < MAX_EVENTS && i < n; i++)
		add_full(cpu, number, i, plain);
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
	__u64 i = 0, n, version;

	cpu->entering = (__u64)ctx;
	barrier();
	lengthen(cpu);
	version = cpu->version;
	n = set_of(version)->events;
	task = (void *)bpf_get_current_task_btf();
	if (cpu->live)
		i = take(cpu, task);
	slot = &cpu->slots[i % SLOTS];
	slot->turn = ++cpu->turns;
	slot->version = version;
	slot->frame = (__u64)ctx;
	slot->task = (__u64)task;
	slot->switches = switches(task);
	slot->plain = cpu->plain;
	slot->began = bpf_ktime_get_ns();
	if (slot->plain) {
		slot->read = read_all(cpu, i % SLOTS, n, true);
	} else {
		slot->read = read_all(cpu, i % SLOTS, n, false);
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
	__u64 live = ONLY, version, brief;

	if (!cpu)
		return 0;
	version = state.version;
	if (cpu->version != version) {
		if (!refresh(cpu))
			return 0;
		version = cpu->version;
	}
	barrier(); /* if another set comes in between, the run has the version before, and not what belongs to it */
	brief = cpu->brief;
	if (cpu->live || !brief)
		return enter(cpu, ctx);
	slot = &cpu->slots[0];
	slot->version = version;
	task = (void *)bpf_get_current_task_btf();
	slot->frame = (__u64)ctx;
	slot->task = (__u64)task;
	slot->switches = switches(task);
	slot->began = cpu->counted < cpu->next ? 0 : bpf_ktime_get_ns();
	if (read_start(cpu, brief) < 0) {
		slot->turn = ++cpu->turns;
		slot->read = readable(cpu);
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
	__u64 time, n, bits, events_read;
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
	events_read = set_of(slot->version)->events;
	plain = slot->plain;
	if (plain) {
		slot->read &= read_all(cpu, AT_END, events_read, true);
		time = bpf_ktime_get_ns();
	} else {
		time = bpf_ktime_get_ns();
		slot->read &= read_all(cpu, AT_END, events_read, false);
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
	if (state.version - slot->version > 2) /* its set may have been written over: sessions do not wait for programs that can sleep */
		goto drop;
	if (plain) {
		if (slot->began) {
			cpu->plain_time += between(cpu, slot->began, time);
			cpu->plain_runs++;
			cpu->timed++;
		}
	} else {
		cpu->full_time += time - slot->began;
		cpu->timed++;
		cpu->charged++;
	}
	add_all(cpu, n, events_read, plain);
	cpu->counted++;
	cpu->live &= ~bits;
	if (time >= cpu->due)
		look(cpu);
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
static __noinline int finish(struct cpu *cpu, __u64 brief)
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
	add(cpu, brief);
	cpu->counted++;
	barrier();
	cpu->live &= ~(__u64)ENDING;
	if (time >= cpu->due)
		look(cpu);
	return 0;
}

SEC("fexit/target")
int bperf_exit(void *ctx)
{
	struct cpu *cpu = this_cpu();
	struct task_struct___run *task;
	struct slot *slot;
	__u64 brief;

	if (!cpu)
		return 0;
	slot = &cpu->slots[0];
	if (cpu->live != ONLY || slot->frame != (__u64)ctx || slot->version != state.version)
		return leave(cpu, ctx);
	cpu->live = ENDING;
	barrier();
	brief = cpu->brief;
	if (read_now(cpu, brief) < 0) {
		cpu->live &= ~(__u64)(1 << EXITING);
		return leave(cpu, ctx);
	}
	task = (void *)bpf_get_current_task_btf();
	if (slot->task != (__u64)task || slot->switches != switches(task))
		return drop(cpu, DROPPED_SWITCHED);
	if (cpu->live != ENDING)
		return drop(cpu, DROPPED_MIXED);
	asm volatile("" : "+r"(brief)); /* so that the verifier checks what follows once, and not for each number of events */
	if (slot->began)
		return finish(cpu, brief);
	add(cpu, brief);
	cpu->counted++;
	barrier();
	cpu->live &= ~(__u64)ENDING; /* what began meanwhile is not in it */
	return 0;
}

/* of_cpu is an element of a map, of some CPU, which is this one where the kernel cannot look elsewhere (before Linux 5.19). */
static __always_inline void *of_cpu(void *map, void *key, __u32 number)
{
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_map_lookup_percpu_elem))
		return bpf_map_lookup_percpu_elem(map, key, number);
	return bpf_map_lookup_elem(map, key);
}

/* copy_event copies what a position has counted on a CPU; with close its extremes begin anew. */
__noinline int copy_event(struct cpu *cpu, __u32 number, __u32 event, bool close)
{
	__u32 latest = state.latest;
	struct range *x = NULL;
	struct position *p;
	struct sum *s;
	void *map;
	__u32 i;

	if (!cpu || event >= MAX_EVENTS)
		return 0;
	s = &cpu->sums[event];
	map = bpf_map_lookup_elem(&positions, &event);
	if (!map)
		return 0;
	p = of_cpu(map, (void *)&zero, number);
	if (!p)
		return 0;
	if (s->bucket < BUCKETS)
		p->histogram.runs[s->bucket] += cpu->counted - s->filed;
	s->filed = cpu->counted;
	p->sum = *s;
	for (i = 0; i < BUCKETS; i++)
		*(volatile __u64 *)&p->copied.runs[i] = p->histogram.runs[i]; /* volatile: there is no memcpy to call */
	if (!close)
		return 0;
	map = bpf_map_lookup_elem(&extremes, &latest);
	if (map)
		x = of_cpu(map, &event, number);
	if (x) {
		if (s->above_min > x->above_min)
			x->above_min = s->above_min;
		if (s->max > x->max)
			x->max = s->max;
	}
	s->above_min = s->max = s->sure = s->width = 0;
	return 0;
}

/* copy_all is copy_event for each position. */
__noinline int copy_all(struct cpu *cpu, __u32 number, bool close)
{
	__u32 i;

	if (!cpu)
		return 0;
	for (i = 0; i < MAX_EVENTS && i < cpu->positions; i++)
		copy_event(cpu, number, i, close);
	return 0;
}

/*
 * bperf_read copies the sums of a CPU, on which it is run with interrupts off, or elsewhere if that CPU is offline. It returns 1 if they
 * were being changed. args: the CPU; whether it is online; whether the extremes begin anew.
 */
SEC("raw_tp/sched_switch")
int bperf_read(__u64 *args)
{
	__u32 number = args[0], kind;
	bool online = args[1], close = args[2];
	__u64 pending, counted;
	struct copy *copy;
	struct cpu *cpu;

	cpu = of_cpu(&cpus, (void *)&zero, number);
	copy = of_cpu(&copies, (void *)&zero, number);
	if (!cpu || !copy)
		return 0;
	if (online && (cpu->live & ANY_EXITING || cpu->looking || cpu->entering))
		return 1;
	counted = cpu->counted;
	pending = counted - cpu->timed;
	if (pending && cpu->plain_runs) { /* they had the time of the others */
		cpu->plain_time += cpu->plain_time * pending / cpu->plain_runs;
		cpu->plain_runs += pending;
		cpu->timed = counted;
	}
	if (online && cpu->version != state.version) {
		refresh(cpu);
	} else if (online) { /* so that no minimum is that of a run in which the event had no counter */
		lengthen(cpu);
		look(cpu);
	}
	charge(cpu);
	copy->counted = counted;
	copy->plain_time = cpu->plain_time;
	copy->full_time = cpu->full_time;
	for (kind = 0; kind < DROPPED_KINDS; kind++)
		copy->dropped[kind] = cpu->dropped[kind];
	copy_all(cpu, number, close);
	return cpu->counted != counted;
}
