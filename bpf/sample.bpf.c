// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Counts samples in the kernel. The program runs on the overflow of a perf event instead of a record in its ring, and
 * adds the sample to the sum of the samples with the same key. The user side (internal/sample) chooses the
 * fields of the key.
 *
 * There are two generations of maps. The program fills one, while the user side reads the other and resets it to 0.
 *
 * What leaves the kernel is encoded to be short (encode.h): the callers of a sample go through a ring buffer when they
 * are first met, in parts that other callers share, and on_drain (drain.h) writes sums when they are read.
 *
 * Needs Linux 5.15.
 */
#include "namespace.h"
#include "encode.h"

#define MAX_FRAMES 127 /* per part of a stack: kernel.perf_event_max_stack */

#define EEXIST 17

/* The fields of the key by which samples differ. A field that is off is 0. */
const volatile bool by_stack = false;
const volatile bool by_ip = false;
const volatile bool by_pid = false;
const volatile bool by_tid = false;
const volatile bool by_comm = false;
const volatile bool by_cpu = false;
const volatile bool by_cgroup = false;
const volatile bool by_priority = false;
const volatile bool by_state = false;
const volatile bool by_addr = false;
const volatile bool by_access = false; /* fields that read_access writes */

const volatile bool kernel_stacks = true;
const volatile bool user_stacks = true;
const volatile bool no_idle = false;
const volatile bool is_arm64 = false;
const volatile bool unwinds = false; /* unwind.h walks user stacks: Linux 5.17 */
const volatile __u32 event = 0; /* each event has a separate program */

#include "unwind.h"
#include "follow.h"

struct range {
	__u64 start, end;
};

#define MAX_RANGES 256 /* a power of two */

/* Sorted and disjoint: ranges for the instruction pointer, and ranges for the instruction pointer or a caller. */
const volatile struct range ips[MAX_RANGES] = {};
const volatile struct range programs[MAX_RANGES] = {};
const volatile __u32 nr_ips = 0;
const volatile __u32 nr_programs = 0;

/* The generation that the program fills: 0 or 1. */
__u32 generation = 0;

/* The number of entries in the maps of each generation. */
struct fill {
	__u64 sums;
	__u64 chains;
};

struct fill filled[2];

struct counts {
	__u64 samples; /* all for which the program ran */
	__u64 value; /* the sum of their periods */
	__u64 idle; /* samples that were dropped because the CPU was idle */
	__u64 filtered; /* samples that a filter or the ranges excluded */
	__u64 no_sum; /* samples without room for their sum */
	__u64 no_stack; /* samples that were counted without their stacks, for which there was no room */
	__u64 collisions; /* the same, because another stack has the same hash */
	__u64 truncated; /* samples whose stacks were cut */
	__u64 cut[UNWIND_ENDS]; /* samples by the end of their user stacks: enum unwind_end */
};

#define MAX_EVENTS 64

struct counts counted[MAX_EVENTS];

struct frames {
	__u32 n;
	__u32 unused;
	__u64 ips[MAX_FRAMES];
};

struct stack {
	struct frames kernel;
	struct frames user;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stack);
} scratch SEC(".maps");

/*
 * chain is the callers in one half of a stack, the kernel's or the user's, or a part of such a chain. It does not have
 * the innermost frame of the whole stack, so samples at different instructions of a function have the same chain.
 */
struct chain {
	__u64 check; /* another hash, to detect collisions */
	__u32 id;
	__u32 written; /* it is or was in the ring buffer */
};

/* Keyed by hash. */
struct chains_of_generation {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u64));
	__uint(value_size, sizeof(struct chain));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 2);
	__type(key, __u32);
	__array(values, struct chains_of_generation);
} chains SEC(".maps");

/* The last IDs that were given to chains and to parts. */
__u32 last_chain = 0;
__u32 last_part = 0;

/*
 * A chain is written as its parts, and each part only once: most new chains differ from known ones in some of their
 * parts. A part has PART_FRAMES frames, counted from the outermost one of the chain; the innermost part can have less.
 */
#define PART_FRAMES 8
#define MAX_PARTS ((MAX_FRAMES + PART_FRAMES - 1) / PART_FRAMES)

/* The first value of a hash, so that entries of different kinds with the same frames differ. */
enum seed {
	KERNEL_CHAIN,
	USER_CHAIN,
	PART,
};

/*
 * Chains and parts that are met for the first time. A record begins with the ID, shifted by RECORD_SHIFT, and the flags.
 * A chain has the IDs of its parts, the innermost first. A part has each frame as the difference to the one before. Some
 * frames are context marks. The parts of a chain are in the buffer before it.
 */
#define IN_GENERATION_1 1
#define IS_PART 2
#define RECORD_SHIFT 2

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} ring SEC(".maps");

/*
 * Programs that can interrupt each other. Each has an encoding for chains. The one for their parts, which it writes in
 * between, is at the index plus ENCODERS.
 */
enum encoder {
	ON_SAMPLE,
	ON_SWITCH,
	ENCODERS,
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2 * ENCODERS);
	__type(key, __u32);
	__type(value, struct encoding);
} encodings SEC(".maps");

/* In place of the ID of a chain without callers. */
#define NO_CHAIN 0

/* access has fields of the kernel's own sample about an access to memory. */
struct access {
	__u64 data_src; /* union perf_mem_data_src */
	__u64 phys_addr;
};

/* subject is the part of the key besides the stack. */
struct subject {
	__u64 cgroup;
	char comm[16];
	__u32 pid; /* in the reader's PID namespace */
	__u32 tid;
	__u32 cpu;
	__s32 priority;
	__u32 state;
	__u32 event;
	union {
		char waker_comm[16]; /* of blocked threads */
		struct access access; /* of samples */
	};
	__u32 waker; /* process ID */
	__u32 weight; /* cost of the access */
	__u64 addr; /* address of the accessed data */
};

struct key {
	__u64 ip; /* the innermost frame */
	__u32 kernel; /* ID of its callers in the kernel */
	__u32 user; /* ID of its callers in user space */
	struct subject subject;
};

struct sum {
	__u64 count;
	__u64 value;
	__u64 first; /* when the first sample since the last reading was taken: CLOCK_MONOTONIC, ns */
};

struct sums_of_generation {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(struct key));
	__uint(value_size, sizeof(struct sum));
};

/* Keeps the types in BTF. */
const struct key *_key __attribute__((unused));
const struct sum *_sum __attribute__((unused));

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 2);
	__type(key, __u32);
	__array(values, struct sums_of_generation);
} sums SEC(".maps");

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct task_struct___sampled {
	int pid;
	int prio;
	unsigned int __state;
};

#pragma clang attribute pop

/*
 * The context is struct bpf_perf_event_data, which begins with the registers: struct pt_regs, or struct user_pt_regs on
 * arm64. The verifier allows constant offsets only.
 */
#define CONTEXT(name, amd64, arm64)                                                                                   \
	static __always_inline __u64 name(void *ctx)                                                                  \
	{                                                                                                             \
		__u64 v;                                                                                              \
                                                                                                                      \
		if (is_arm64)                                                                                         \
			asm volatile("%0 = *(u64 *)(%1 + " #arm64 ")" : "=r"(v) : "r"(ctx));                          \
		else                                                                                                  \
			asm volatile("%0 = *(u64 *)(%1 + " #amd64 ")" : "=r"(v) : "r"(ctx));                          \
		return v;                                                                                             \
	}

CONTEXT(instruction_pointer, 128, 256)
CONTEXT(sample_period, 168, 272)
CONTEXT(sample_address, 176, 280)

static __always_inline void add(__u64 *counter, __u64 n)
{
	__sync_fetch_and_add(counter, n);
}

static __always_inline __u64 mix(__u64 hash, __u64 v)
{
	hash = (hash ^ v) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 32;
}

static __always_inline __u64 mix_check(__u64 hash, __u64 v)
{
	hash = (hash + v) * 0xbf58476d1ce4e5b9ULL;
	return hash ^ hash >> 29;
}

/* fill_of returns the fill of a generation. The mask is for the verifier, which forgets the bounds of a map's key. */
static __always_inline struct fill *fill_of(__u64 g)
{
	asm volatile("%0 &= 1" : "+r"(g));
	return &filled[g];
}

static __always_inline bool within(const volatile struct range *ranges, __u32 n, __u64 addr)
{
	__u32 low = 0, high = n, i;

	for (i = 0; i < 9 && low < high; i++) {
		__u32 middle = (low + high) / 2 & (MAX_RANGES - 1);

		if (ranges[middle].end <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low < n && ranges[low & (MAX_RANGES - 1)].start <= addr;
}

/*
 * in_programs reports whether an address is in the ranges of programs. It is a global function, so the verifier checks
 * it once and not for each frame.
 */
__noinline int in_programs(__u64 addr)
{
	return within(programs, nr_programs, addr);
}

/*
 * addresses returns the number of user frames before the first one that is no address. It skips the frame in front,
 * where the kernel puts a mark in the callchains of some events.
 */
__noinline int addresses(struct frames *f)
{
	__u32 n, i;

	if (!f)
		return 0;
	n = f->n;
	for (i = 1; i < MAX_FRAMES && i < n; i++)
		if (unwind_no_address(f->ips[i]))
			return i;
	return n;
}

/* take_stack reads the stack of the current task. *end gets the reason why the user stack ends: enum unwind_end. */
static __always_inline void take_stack(void *ctx, struct stack *s, __u32 *end)
{
	long n;

	*end = UNWIND_OUTERMOST;
	n = kernel_stacks ? bpf_get_stack(ctx, s->kernel.ips, sizeof(s->kernel.ips), 0) : 0;
	s->kernel.n = n > 0 ? n / sizeof(__u64) : 0;
	if (user_stacks && unwinds) {
		s->user.n = unwind_user(ctx, process_id((void *)bpf_get_current_task()), s->user.ips, end);
		return;
	}
	n = user_stacks ? bpf_get_stack(ctx, s->user.ips, sizeof(s->user.ips), BPF_F_USER_STACK) : 0;
	s->user.n = n > 0 ? n / sizeof(__u64) : 0;
	if (s->user.n == MAX_FRAMES)
		*end = UNWIND_TOO_DEEP;
	n = addresses(&s->user);
	if (n < s->user.n) {
		s->user.n = n;
		*end = UNWIND_NO_ADDRESS;
	}
}

/* calls_programs reports whether the sample is in one of the programs, or in code that they called. */
static __always_inline bool calls_programs(struct stack *s, __u64 ip)
{
	__u32 i;

	if (in_programs(ip))
		return true;
	for (i = 0; i < MAX_FRAMES && i < s->kernel.n; i++)
		if (in_programs(s->kernel.ips[i] - 1)) /* the frame of a caller is a return address */
			return true;
	return false;
}

enum {
	NO_ROOM = -1,
	COLLISION = -2,
};

/* put writes a record to the ring buffer. */
static __always_inline int put(struct encoding *e)
{
	__u32 n = e->size, i;

	if (n > MAX_ENCODED)
		return NO_ROOM;
	for (i = 0; i < 4; i++) /* in an NMI, it fails while another CPU writes */
		if (!bpf_ringbuf_output(&ring, e->bytes, n, BPF_RB_NO_WAKEUP))
			return 0;
	return NO_ROOM;
}

/*
 * enter looks up a chain or part. It returns its ID if it is written, NO_ROOM or COLLISION, or 0: then the caller is to
 * write *entry. A new one gets an ID.
 */
static __always_inline int enter(void *map, __u64 hash, __u64 check, __u32 *last, __u32 g, struct chain **entry)
{
	struct chain *known = bpf_map_lookup_elem(map, &hash), fresh = { .check = check };

	if (!known) {
		fresh.id = __sync_fetch_and_add(last, 1) + 1;
		if (!bpf_map_update_elem(map, &hash, &fresh, BPF_NOEXIST)) /* if it fails, another CPU may have been faster */
			add(&fill_of(g)->chains, 1);
		known = bpf_map_lookup_elem(map, &hash);
		if (!known)
			return NO_ROOM;
	}
	if (known->check != check)
		return COLLISION;
	*entry = known;
	return known->written ? known->id : 0;
}

/*
 * keep_part returns the ID of a part of a chain, NO_ROOM or COLLISION. It writes the part to the ring buffer unless that
 * was done. It is a global function, so the verifier checks it once. The loops of such a function must have no branch
 * except the one to their end.
 */
__noinline int keep_part(struct frames *f, __u64 first, __u32 size, __u32 g, __u32 encoder)
{
	struct encoding *e = bpf_map_lookup_elem(&encodings, &encoder);
	void *map = bpf_map_lookup_elem(&chains, &g);
	__u64 hash = PART, check = 1, before = 0;
	struct chain *known;
	__u64 *ips;
	__u32 i;
	int id;

	if (!f || !e || !map || first > MAX_FRAMES - PART_FRAMES) /* only the innermost part has less frames */
		return NO_ROOM;
	ips = f->ips + first;
	for (i = 0; i < PART_FRAMES && i < size; i++) {
		hash = mix(hash, ips[i]);
		check = mix_check(check, ips[i]);
	}
	id = enter(map, hash, check, &last_part, g, &known);
	if (id)
		return id;
	e->size = 0;
	encode(e, (__u64)known->id << RECORD_SHIFT | IS_PART | (g & IN_GENERATION_1));
	for (i = 0; i < PART_FRAMES && i < size; i++) {
		encode_signed(e, ips[i] - before);
		before = ips[i];
	}
	if (put(e))
		return NO_ROOM;
	known->written = 1;
	return known->id;
}

/* write_chain writes a chain to the ring buffer, after its parts. It returns 0, NO_ROOM or COLLISION. */
__noinline int write_chain(struct frames *f, __u32 id, __u32 g, __u32 encoder)
{
	struct encoding *e = bpf_map_lookup_elem(&encodings, &encoder);
	__u32 n, i, first, size;
	int part;

	if (!f || !e)
		return NO_ROOM;
	n = f->n;
	first = f->ips[0] ? 0 : f->ips[1] ? 1 : 2; /* by take_innermost */
	size = (n - first - 1) % PART_FRAMES + 1;
	e->size = 0;
	encode(e, (__u64)id << RECORD_SHIFT | (g & IN_GENERATION_1));
	for (i = 0; i < MAX_PARTS && first < n; i++) {
		part = keep_part(f, first, size, g, encoder + ENCODERS);
		if (part < 0)
			return part;
		encode(e, part);
		first += size;
		size = PART_FRAMES;
	}
	return put(e);
}

/*
 * keep_chain returns the ID of a chain of the kernel or the user, NO_CHAIN, NO_ROOM or COLLISION. If there is no room
 * to write the chain, it is written the next time.
 */
__noinline int keep_chain(struct frames *f, __u32 seed, __u32 g, __u32 encoder)
{
	__u64 hash = seed, check = 1;
	struct chain *known;
	__u32 n, i;
	void *map;
	int id, err;

	if (!f)
		return NO_CHAIN;
	n = f->n;
	if (!n || (n == 1 && !f->ips[0]))
		return NO_CHAIN;
	map = bpf_map_lookup_elem(&chains, &g);
	if (!map)
		return NO_ROOM;
	for (i = 0; i < MAX_FRAMES && i < n; i++) {
		hash = mix(hash, f->ips[i]);
		check = mix_check(check, f->ips[i]);
	}
	id = enter(map, hash, check, &last_chain, g, &known);
	if (id)
		return id;
	err = write_chain(f, known->id, g, encoder);
	if (err == COLLISION)
		return COLLISION;
	if (!err)
		known->written = 1;
	return known->id;
}

/*
 * take_innermost removes and returns the innermost frame. In some callchains, the kernel puts a mark in front of it
 * (PERF_CONTEXT_MAX or above).
 */
static __always_inline __u64 take_innermost(__u64 *frames)
{
	__u64 ip = frames[0];

	frames[0] = 0;
	if (ip >= (__u64)-4095) {
		ip = frames[1];
		frames[1] = 0;
	}
	return ip;
}

/* keep_stack puts a stack into the key. If there is no room, the key keeps only the instruction pointer. */
static __always_inline void keep_stack(struct key *key, struct stack *s, __u32 end, __u32 g, __u32 encoder, struct counts *c)
{
	int kernel, user;
	__u64 ip;

	if (!s->kernel.n && !s->user.n)
		return;
	if (end < UNWIND_ENDS)
		add(&c->cut[end], 1);
	if (s->kernel.n == MAX_FRAMES || end != UNWIND_OUTERMOST)
		add(&c->truncated, 1);
	ip = s->kernel.n ? take_innermost(s->kernel.ips) : take_innermost(s->user.ips);
	kernel = keep_chain(&s->kernel, KERNEL_CHAIN, g, encoder);
	user = keep_chain(&s->user, USER_CHAIN, g, encoder);
	if (kernel >= 0 && user >= 0) {
		key->ip = ip;
		key->kernel = kernel;
		key->user = user;
	} else if (kernel == COLLISION || user == COLLISION) {
		add(&c->collisions, 1);
	} else {
		add(&c->no_stack, 1);
	}
}

/* describe fills in the fields of the current task. */
static __always_inline void describe(struct subject *subject, struct task_struct___sampled *task)
{
	if (by_pid)
		subject->pid = process_id((void *)task);
	if (by_tid)
		subject->tid = thread_id((void *)task);
	if (by_comm)
		bpf_get_current_comm(subject->comm, sizeof(subject->comm));
	if (by_cpu)
		subject->cpu = bpf_get_smp_processor_id();
	if (by_cgroup)
		subject->cgroup = bpf_get_current_cgroup_id();
	if (by_priority)
		subject->priority = BPF_CORE_READ(task, prio);
}

static __always_inline void add_to_sum(struct key *key, __u64 value, __u32 g, struct counts *c)
{
	struct sum *sum, first = { .count = 1, .value = value };
	void *map;
	long err;

	map = bpf_map_lookup_elem(&sums, &g);
	if (!map)
		return;
	sum = bpf_map_lookup_elem(map, key);
	if (!sum) {
		first.first = bpf_ktime_get_ns();
		err = bpf_map_update_elem(map, key, &first, BPF_NOEXIST);
		if (!err) {
			add(&fill_of(g)->sums, 1);
			return;
		}
		if (err == -EEXIST) /* another CPU was faster */
			sum = bpf_map_lookup_elem(map, key);
		if (!sum) {
			add(&c->no_sum, 1);
			return;
		}
	}
	if (!__sync_fetch_and_add(&sum->count, 1)) /* it was read since then */
		sum->first = bpf_ktime_get_ns();
	add(&sum->value, value);
}

/*
 * filter reports whether the sample is wanted. The loader replaces these instructions with the code of a filter; the
 * asm hides their result from the compiler.
 */
static __noinline int filter(void *ctx)
{
	int yes = 1;

	asm volatile("" : "+r"(yes) : "r"(ctx));
	return yes;
}

/*
 * Writes fields of the kernel's own sample to the subject. The loader replaces these instructions with code that writes
 * the fields that were asked for: weight, access.data_src and access.phys_addr. Needs Linux 6.2.
 */
static __noinline void read_access(void *ctx, struct subject *subject)
{
	asm volatile("" : : "r"(ctx), "r"(subject) : "memory");
}

SEC("perf_event")
int on_sample(void *ctx)
{
	struct task_struct___sampled *task = (void *)bpf_get_current_task();
	struct key key = { .subject.event = event };
	__u32 g = generation & 1, zero = 0, end = UNWIND_OUTERMOST;
	__u64 value = sample_period(ctx), ip;
	struct stack *s = NULL;
	struct counts *c;

	if (event >= MAX_EVENTS || (follows && !is_followed((void *)task)))
		return 0;
	c = &counted[event];
	add(&c->samples, 1);
	add(&c->value, value);
	if (no_idle && !BPF_CORE_READ(task, pid)) {
		add(&c->idle, 1);
		return 0;
	}
	ip = instruction_pointer(ctx);
	if ((nr_ips && !within(ips, nr_ips, ip)) || !filter(ctx)) {
		add(&c->filtered, 1);
		return 0;
	}
	if (by_stack || nr_programs) {
		s = bpf_map_lookup_elem(&scratch, &zero);
		if (!s)
			return 0;
		take_stack(ctx, s, &end);
	}
	if (nr_programs && !calls_programs(s, ip)) {
		add(&c->filtered, 1);
		return 0;
	}
	if (by_ip || by_stack)
		key.ip = ip;
	if (by_stack)
		keep_stack(&key, s, end, g, ON_SAMPLE, c);
	if (by_state)
		key.subject.state = BPF_CORE_READ(task, __state);
	if (by_addr)
		key.subject.addr = sample_address(ctx);
	if (by_access)
		read_access(ctx, &key.subject);
	describe(&key.subject, task);
	add_to_sum(&key, value, g, c);
	return 0;
}

#include "waits.h"
#include "drain.h"
#include "symbol.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";
