/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads the sums of a generation and resets them to 0. Sums that stay 0 are not written again. Part of sample.bpf.c.
 *
 * The encoding of a sum:
 * - a number with the ID of the user's callers, the number of samples if it is below 4, and flags for what follows. So
 *   one sample of a user's function takes three bytes for all of it, as long as there are less than 65,536 chains
 * - the number of samples, if it is 4 or more
 * - the subject, if it differs from the one before
 * - the callers in the kernel, if there are any
 * - the innermost frame, as the difference to that of the last sum with callers in the kernel if this one has some, and
 *   otherwise to that of the last sum without
 * - the value, unless it is the number of samples times the period of the last sum that was written with a value
 * - the time of the first sample as the difference to the one before, in units of 1024 ns; a unit is less than the time
 *   from the sample to where its time is taken
 */
#pragma once

/* Flags for what follows, in the lowest bits of the first number. */
#define HAS_SUBJECT 1
#define HAS_VALUE 2
#define HAS_KERNEL 4
/* Above the flags: the number of samples, or 0 if it follows. */
#define COUNT_SHIFT 3
#define MAX_COUNT 3
/* Above that: the ID of the user's callers. */
#define USER_SHIFT 5

#define TIME_SHIFT 10

/* The number of bytes that on_drain can write in one run. */
#define DRAIN_ROOM (1 << 20)

/* The maximum size of an encoded sum, in 8-byte words. */
#define SUM_WORDS ((6 * MAX_NUMBER + sizeof(struct subject) + 7) / 8)

/* The sum that was written last. */
struct drain {
	struct subject subject;
	__u64 period;
	__u64 first; /* shifted by TIME_SHIFT */
	__u64 user_ip; /* of the last sum without callers in the kernel */
	__u64 kernel_ip;
	struct encoding encoding;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct drain);
} drained SEC(".maps");

/* The sums that on_drain writes. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, DRAIN_ROOM);
} encoded SEC(".maps");

__u32 drain_generation = 0;
__u32 drain_size = 0; /* bytes used in encoded */

static __always_inline bool same(const struct subject *a, const struct subject *b)
{
	const __u64 *x = (void *)a, *y = (void *)b;
	__u32 i;

#pragma unroll
	for (i = 0; i < sizeof(*a) / sizeof(*x); i++)
		if (x[i] != y[i])
			return false;
	return true;
}

static long drain_sum(void *map, struct key *at, struct sum *value, void *unused)
{
	__u32 zero = 0;
	struct drain *d = bpf_map_lookup_elem(&drained, &zero);
	__u8 *to = bpf_map_lookup_elem(&encoded, &zero);
	__u64 size = drain_size, head, what = 0, n, first, i, *ip;
	struct encoding *e;
	struct key key;
	struct sum sum;

	if (!d || !to)
		return 1;
	if (!value->count)
		return 0;
	key = *at;
	sum = *value;
	first = sum.first >> TIME_SHIFT;
	e = &d->encoding;
	e->size = 0;
	head = (__u64)key.user << USER_SHIFT;
	if (sum.count <= MAX_COUNT)
		head |= sum.count << COUNT_SHIFT;
	if (key.kernel)
		head |= HAS_KERNEL;
	if (!same(&key.subject, &d->subject))
		what |= HAS_SUBJECT;
	if (sum.value != sum.count * d->period)
		what |= HAS_VALUE;
	encode(e, head | what);
	if (sum.count > MAX_COUNT)
		encode(e, sum.count);
	if (what & HAS_SUBJECT) {
		n = e->size;
		if (n > MAX_NUMBER)
			return 1;
		__builtin_memcpy(e->bytes + n, &key.subject, sizeof(key.subject));
		e->size = n + sizeof(key.subject);
	}
	if (key.kernel)
		encode(e, key.kernel);
	ip = key.kernel ? &d->kernel_ip : &d->user_ip;
	encode_signed(e, key.ip - *ip);
	if (what & HAS_VALUE)
		encode(e, sum.value);
	encode_signed(e, first - d->first);
	n = e->size;
	asm volatile("" : "+r"(n), "+r"(size)); /* so that they are compared as they are used: with 64 bits */
	if (n > MAX_ENCODED || size > DRAIN_ROOM - MAX_ENCODED) /* the next run writes it */
		return 1;
#pragma unroll
	for (i = 0; i < SUM_WORDS; i++)
		((__u64 *)(to + size))[i] = ((__u64 *)e->bytes)[i];
	drain_size = size + n;
	value->count = 0;
	value->value = 0;
	*ip = key.ip;
	d->subject = key.subject;
	d->first = first;
	if ((what & HAS_VALUE) && sum.count)
		d->period = sum.value / sum.count;
	return 0;
}

/* The reader runs on_drain until it writes nothing. */
SEC("raw_tp")
int on_drain(void *ctx)
{
	__u32 g = drain_generation & 1;
	void *map = bpf_map_lookup_elem(&sums, &g);

	drain_size = 0;
	if (map)
		bpf_for_each_map_elem(map, drain_sum, NULL, 0);
	return 0;
}
