// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Counting inside a BPF program: bperf_entry runs at its entry and bperf_exit at its exit, for all events of all
 * sessions. A run is one execution of the counted program. Each counted program has a separate pair with separate maps,
 * which its sessions share. The user side is internal/count/program.
 *
 * Sums only grow while sessions come and go: each session subtracts what was there when it began. bperf_read copies the
 * sums of a CPU at a moment when no run is being added.
 *
 * A CPU has one perf event per distinct event, which always counts. The readings at entry belong to one run. They are
 * kept in a slot of the CPU, together with the address of the run's frame, which no other unfinished run can have. BPF
 * programs do not migrate, so bperf_exit finds them on the same CPU, whatever ran in between. For a run that begins
 * while one of the two programs is running, the kernel runs only the other one. The order in which runs begin
 * distinguishes what such runs leave behind from what belongs to others.
 *
 * Nearly all runs begin while no other run is unfinished on the CPU and no event shares its counter. They take the
 * short way, which does as little as possible. Everything else is in enter and leave, in look and in file.
 */
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

enum {
	MAX_EVENTS = 64,
	SHORT_EVENTS = 16, /* with more events, all runs take the long way */
	SLOTS = 4, /* unfinished runs that a CPU can have: in a task, in interrupts, in NMIs, in preempted tasks */
	BUCKETS = 252,
};

/* Bits of struct cpu.live. The first SLOTS bits mark the slots that are taken. */
enum {
	EXITING = SLOTS,      /* the first of SLOTS bits: bperf_exit works on the slot */
	ANY_EXITING = ((1 << SLOTS) - 1) << EXITING,
	SHORT = 1 << 8,	      /* the first slot has a run that began on the short way, and no other is taken */
	ONLY = SHORT | 1,     /* that run, and nothing else */
	ENDING = ONLY | 1 << EXITING, /* that run, which also ends on the short way */
};

/*
 * reading is struct bpf_perf_event_value with the time that the event was not on a counter in place of the running
 * time.
 */
struct reading {
	__u64 value;
	__u64 enabled;
	__u64 stopped; /* enabled - running */
};

/* slot holds the readings at the entry of a run. Fields that SHORT implies are not set. */
struct slot {
	__u64 frame; /* address of the run's arguments on the stack */
	__u64 task;
	__u64 switches; /* context switches of the task until then */
	__u64 began;	/* ns, or 0 if the run is not timed */
	__u64 turn;	/* number of the run on this CPU, by beginning; not set with SHORT */
	__u64 version;	/* version of the set of events that was read */
	__u64 read;	/* events that could be read, one bit each; with SHORT, all */
	__u64 plain;	/* the readings have no times; with SHORT, they have none */
	struct bpf_perf_event_value start[MAX_EVENTS];
};

/* sum is what an event counted in all runs. */
struct sum {
	struct reading reading; /* its times are those of runs that were read with times */
	/* A run that counts from low to low + width - 1 changes neither bucket nor min and max. */
	__u64 low;
	__u64 width;
	/* The extremes of plain runs, and of runs during which the event was always on a counter. */
	__u64 above_min; /* ~min, so that 0 means no run */
	__u64 max;
	__u64 sure; /* above_min without the plain runs since look last checked whether the event shares its counter */
	/*
	 * The bucket of the last runs, which are not in the histogram yet. filed is the number of other runs that were
	 * counted.
	 */
	__u64 bucket;
	__u64 filed;
	__u64 unread; /* runs in which the event could not be read; the sum does not include them */
	__u64 probes; /* the probes' own part of the charged runs */
	__u64 unmeasured; /* charged runs that are not in probes, because the overhead is not known */
};

/* sharing is for detecting whether an event shares its counter. */
struct sharing {
	__u64 enabled; /* at the last look */
	__u64 stopped;
};

/* Why a run is not in the sums. */
enum dropped {
	DROPPED_BEGUN,	    /* bperf_entry did not see it begin */
	DROPPED_FULL,	    /* its slot was given to another run; if it ends, it is in DROPPED_BEGUN, too */
	DROPPED_MIXED,	    /* the readings at its entry may be those of another run */
	DROPPED_SWITCHED,   /* other tasks ran in between */
	DROPPED_KINDS,
};

/* How runs are read. The last two are for measuring the overhead. */
enum {
	AS_NEEDED,
	PLAINLY,
	WITH_TIMES,
};

/* set holds the events that are counted, at positions 0 to events - 1, and all else that sessions change. */
struct set {
	__u64 on;	   /* at least one session counts */
	__u64 events;
	__u64 memory;	   /* positions of events that the kernel counts in memory, one bit each */
	__u64 calibrated;  /* positions whose overhead is subtracted from each run, one bit each */
	__u64 reads;	   /* AS_NEEDED, PLAINLY or WITH_TIMES */
	__u64 measured;	   /* the overhead was measured, because a session needs it */
	__u64 unmeasured;  /* positions whose overhead could not be measured, one bit each */
	__u64 keys[MAX_EVENTS]; /* the event's row in the map events, times 2; plus 1 if calibrated */
	__u64 overhead[MAX_EVENTS]; /* the probes' own part of each run that is read plainly */
	__u64 overhead_with_times[MAX_EVENTS];
};

/*
 * There are two sets; number version & 1 is in force. A session writes the other one, adds 1 to the version, and waits
 * until no run is in progress that began before. Adding 2 makes each CPU look up again where its events are.
 */
struct sets {
	__u64 version;
	__u64 latest; /* token of the session that began last; it gets the extremes of the runs since then */
	__u64 joined; /* number of sessions that have begun */
	struct set sets[2];
};

struct cpu {
	__u64 version; /* version of the set that the CPU counts */
	__u64 live;
	__u64 brief;   /* number of events and flags of the short way; 0 unless runs are read plainly and events are few enough */
	__u64 plain;   /* no event shares its counter, as far as known */
	__u64 counted; /* runs in the sums */
	__u64 next;    /* value of counted at which a run is timed again */
	__u64 positions; /* in use by the set that was taken over */
	__u64 charged; /* runs whose overhead is in sums, among them all that were read with times */
	__u64 timed;   /* runs that plain_time and full_time cover */
	__u64 plain_time; /* of runs that were read plainly, in ns */
	__u64 plain_runs;
	__u64 full_time; /* of the other runs, in ns */
	__u64 last;	 /* when a run was last timed */
	__u64 quick;	 /* timed runs in a row that followed each other quickly */
	__u64 reading;	 /* ns that a plain reading of all events takes */
	__u64 looking;	 /* look is running */
	__u64 fresh;	 /* positions that look has not compared yet, one bit each */
	__u64 due;	 /* when to look again, in ns */
	__u64 shared;	 /* until when an event is assumed to share its counter, at least; in ns */
	__u64 looked;	 /* plain_time at the last look */
	__u64 turns;
	__u64 entering; /* frame for which enter is running; runs that interrupt it have no entry */
	__u64 events;	/* address of the map events */
	__u64 dropped[DROPPED_KINDS];
	__u64 keys[MAX_EVENTS];
	__u64 index[MAX_EVENTS];  /* of each event in the map events, on this CPU */
	__u64 memory[MAX_EVENTS]; /* addresses of the kernel's struct perf_event, for events that it counts in memory; otherwise 0 */
	__u64 now[MAX_EVENTS];
	struct slot slots[SLOTS + 1]; /* the last one has the readings at the end of a run on the long way */
	struct sum sums[MAX_EVENTS];
	struct sharing sharing[MAX_EVENTS];
};

/* histogram counts the runs of an event by what it counted in each: 4 buckets per power of 2. */
struct histogram {
	__u64 runs[BUCKETS];
};

/* copy is what bperf_read copied of a CPU, except for its events. */
struct copy {
	__u64 counted;
	__u64 plain_time;
	__u64 full_time;
	__u64 dropped[DROPPED_KINDS];
};

/* position is what a position has on a CPU besides its sum, and what bperf_read copied of it. */
struct position {
	struct histogram histogram;
	struct histogram copied;
	struct sum sum;
};

/* range has the extremes of the runs from the beginning of a session to the beginning of the next one. */
struct range {
	__u64 above_min; /* ~min, so that 0 means no run */
	__u64 max;
};

/* member is a session that counts. */
struct member {
	__u64 order;	 /* rank of the session by beginning */
	__u64 positions; /* one bit each */
	__u64 measures;	 /* it needs the overhead */
};

enum { MAX_MEMBERS = 1024 };

/*
 * The perf event of row r on a CPU is element r * nr_cpus + CPU. All counted programs share the map. The user side
 * creates it, because its size depends on the number of CPUs.
 */
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

/* For BTF: the compiler does not describe the types of maps in maps. */
const struct position *described_position __attribute__((unused));
const struct range *described_range __attribute__((unused));

struct one_position {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct position);
};

/*
 * The user side creates the maps of the positions in use. One large map would take memory for all positions; if it
 * allocated its elements on demand, that could fail.
 */
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

/* Keyed by token. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH_OF_MAPS);
	__uint(max_entries, MAX_MEMBERS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__array(values, struct by_position);
} extremes SEC(".maps");

/* Keyed by token. Only the user side reads it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_MEMBERS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct member);
} members SEC(".maps");

volatile struct sets state SEC(".data.state");

const volatile __u32 nr_cpus; /* number of possible CPUs */

/* Bits of struct cpu.brief; EVENTS masks the number of events. */
enum {
	EVENTS = 0xff,
	IN_MEMORY = 0x100,  /* some events are counted in memory */
	CALIBRATED = 0x200, /* some positions are calibrated */
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

static const volatile __u32 zero; /* not on the stack: the short way uses none */

static __always_inline struct cpu *this_cpu(void)
{
	return bpf_map_lookup_elem(&cpus, (void *)&zero);
}

/* set_of returns the set of a version. */
static __always_inline volatile struct set *set_of(__u64 version)
{
	return &state.sets[version & 1];
}

/* EACH does DO(e) for each of the n events of the short way. n must be at least 1. */
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

/* in_memory returns the count of an event that the kernel counts in memory. */
static __always_inline __u64 in_memory(__u64 address)
{
	struct perf_event___run *event = bpf_rdonly_cast((void *)address, bpf_core_type_id_kernel(struct perf_event___run));

	return event->count.a.a.counter;
}

/* READ reads an event plainly. Errors are negative numbers; counts are not. */
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

/*
 * read_start reads all events plainly into the first slot, read_now into cpu->now. Both return a negative number if an
 * event could not be read.
 */
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
 * read_all reads n events into a slot, plainly or with times, and returns which could be read, one bit each. It is a
 * global function, so the verifier checks it once, with an unknown number of events, and not for each state that leads
 * to it.
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

/* readable returns which events could be read plainly into the first slot, one bit each. */
__noinline __u64 readable(struct cpu *cpu)
{
	__u64 i, read = 0;

	if (!cpu)
		return 0;
	for (i = 0; i < SHORT_EVENTS; i++)
		read |= (~cpu->slots[0].start[i].counter >> 63) << i;
	return read;
}

/* find_memory returns the address of a CPU's struct perf_event; 0 if the CPU does not have the event. */
static __always_inline __u64 find_memory(struct cpu *cpu, __u64 index)
{
	__u64 entry, event = 0;

	*(volatile __u64 *)&cpu->events = (__u64)&events; /* read back, it is a number to the verifier */
	entry = *(volatile __u64 *)&cpu->events + bpf_core_field_offset(struct bpf_array, ptrs) + index * sizeof(entry);
	if (bpf_probe_read_kernel(&entry, sizeof(entry), (void *)entry) || !entry)
		return 0;
	entry += bpf_core_field_offset(struct bpf_event_entry, event);
	bpf_probe_read_kernel(&event, sizeof(event), (void *)entry);
	return event;
}

enum {
	LOOK_EVERY = 1000000, /* ns: shorter than the time between two rotations of multiplexed events */
	SHARED_FOR = 1000000000,
	QUICK = 32000,	   /* ns from a run to the next */
	QUICK_TIMES = 64,
	TIMED_OF = 32,	   /* a power of 2 */
};

/*
 * reading_time returns how long a plain reading of all events takes, in ns. The time of a run includes its readings. It
 * returns the shorter of two attempts, because an interrupt can prolong one.
 */
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

/* look_at does the work of look for one event, and reports whether the event shares its counter. */
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
 * look detects whether an event shares its counter with others. If so, runs are read with times, which takes a third
 * longer. look assumes that, in the plain runs since the last look, an event was on a counter for the same share of the
 * time as in all the time since then. The first look at an event has nothing to compare with.
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

/* charge adds the overhead of the runs that were read plainly since the last time to the sums. */
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

/* lengthen writes what SHORT implies to the first slot, and clears SHORT. */
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

/* take_over makes a CPU count an event at a position. */
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

/* refresh makes a CPU count the set that is in force. It returns 0 if no session counts. */
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

/* switches returns how often a task was switched away from. */
static __always_inline __u64 switches(const struct task_struct___run *task)
{
	return task->nvcsw + task->nivcsw;
}

/* bucket returns the bucket of a value: one each for 0 to 3, then 4 per power of 2. */
__noinline __u64 bucket(__u64 value)
{
	__u64 v = value, log = 0, half, above;

#pragma unroll
	for (half = 32; half; half >>= 1) {
		above = -(v >> half);
		asm volatile("" : "+r"(above)); /* no branches: the verifier would check each combination */
		above = above >> 63 ? half : 0;
		v >>= above;
		log += above;
	}
	if (log < 2)
		return value;
	return (log - 1) * 4 + (value >> (log - 2) & 3);
}

/*
 * file begins a new range of counts that change nothing, for a run whose count is outside of the last one; the run is
 * counted afterwards. If the bucket changes, the runs of the last bucket go to the histogram. It is a global function,
 * so the verifier checks it once and not for each event.
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

/* own returns what a run counted without the overhead of the probes. */
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

/* add_full adds what an event counted in a run of any slot. The readings at its end are in slot AT_END. */
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

/* add_all calls add_full for each of n events. */
__noinline int add_all(struct cpu *cpu, __u32 number, __u64 n, bool plain)
{
	__u64 i;

	if (!cpu)
		return 0;
	for (i = 0; i < MAX_EVENTS && i < n; i++)
		add_full(cpu, number, i, plain);
	return 0;
}

/* Sizes of kernel stacks, which are aligned to their size. */
#define STACK 0x4000
#define LARGEST_STACK 0x10000

/*
 * ended reports whether the run of a taken slot of this task has ended, seen from a run that begins at a frame. The
 * kernel does not run bperf_exit within bperf_exit on the same CPU, so such runs leave their slots taken. A run that
 * has not ended is further up on the same stack, or on the stack of the task, from which an interrupt switches to
 * another stack.
 */
static __always_inline bool ended(const struct slot *slot, __u64 frame, const struct task_struct___run *task)
{
	__u64 stack = (__u64)task->stack;

	if (slot->task != (__u64)task)
		return false;
	if ((slot->frame ^ frame) < STACK)
		return slot->frame <= frame;
	return frame - stack < LARGEST_STACK && slot->frame - stack >= LARGEST_STACK;
}

/* take returns a slot for the run that enters. If none is free, it takes the slot of the oldest run. */
static __noinline __u64 take(struct cpu *cpu, const struct task_struct___run *task)
{
	__u64 i, taken = 0, turn = ~0ULL, frame = cpu->entering; /* as a number: the verifier does not allow arithmetic on ctx */

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

/* between returns the time of a run without its readings, in ns. */
static __always_inline __u64 between(struct cpu *cpu, __u64 began, __u64 ended)
{
	__u64 time = ended - began, readings = 2 * cpu->reading;

	return time > readings ? time - readings : 0;
}

/*
 * enter is the long way of bperf_entry: other runs are unfinished, an event shares its counter, or there are many
 * events.
 */
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
	barrier(); /* if another set is taken over in between, the run has the old version without its data */
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
	cpu->live = live; /* last: runs that end before have no entry */
	return 0;
}

/* find returns the slot of a run, or SLOTS. */
static __always_inline __u64 find(struct cpu *cpu, __u64 frame)
{
	__u64 i;

	for (i = 0; i < SLOTS; i++) {
		if ((cpu->live >> i & 1) && cpu->slots[i].frame == frame)
			break;
	}
	return i;
}

/* later frees the slots of runs that began after a run that ends, and returns whether there were any. */
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
	cpu->live |= bits; /* from here on, take skips the slot */
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
	 * The kernel does not run bperf_entry within bperf_entry on the same CPU. A run that began that way has no
	 * slot, or one that a run at the same frame left behind. Runs that interrupt others end before these.
	 */
	why = DROPPED_MIXED;
	if (cpu->entering || (cpu->live & ~bits && later(cpu, slot->turn)))
		goto drop;
	if (state.version - slot->version > 2) /* its set may have been overwritten: sessions do not wait for programs that can sleep */
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

/* drop drops a run that ends on the short way. With DROPPED_MIXED it also drops the runs that began while it ended. */
static __noinline int drop(struct cpu *cpu, enum dropped why)
{
	cpu->live &= why == DROPPED_MIXED ? 0 : ~(__u64)ENDING;
	cpu->dropped[why]++;
	return 0;
}

/*
 * finish ends a timed run on the short way. Its time also stands for the runs before it that were not timed. If runs
 * follow each other quickly, some of the next runs are not timed. Their number is random, so that it does not correlate
 * with what the program does periodically.
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
	cpu->live &= ~(__u64)ENDING; /* slots that were taken in between stay taken */
	return 0;
}

/*
 * of_cpu returns the element of a per-CPU map for a CPU. Before Linux 5.19, the kernel can return only that of this
 * CPU.
 */
static __always_inline void *of_cpu(void *map, void *key, __u32 number)
{
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_map_lookup_percpu_elem))
		return bpf_map_lookup_percpu_elem(map, key, number);
	return bpf_map_lookup_elem(map, key);
}

/*
 * copy_event copies what a position has counted on a CPU. With close, its extremes go to the session that began last,
 * and start over.
 */
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

/* copy_all calls copy_event for each position. */
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
 * bperf_read copies the sums of a CPU. It runs on that CPU with interrupts off, or on any CPU if that CPU is offline.
 * args: the CPU; whether it is online; whether the extremes start over. It returns 1 if the sums were being changed;
 * the caller tries again.
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
	if (pending && cpu->plain_runs) { /* they get the average time of the others */
		cpu->plain_time += cpu->plain_time * pending / cpu->plain_runs;
		cpu->plain_runs += pending;
		cpu->timed = counted;
	}
	if (online && cpu->version != state.version) {
		refresh(cpu);
	} else if (online) { /* so that no minimum comes from a run in which the event was not on a counter */
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
