/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads the sums of a generation, and leaves them at 0: those that stay so are not told again. Part of sample.bpf.c.
 *
 * For each: the number of samples and what follows, in one; its subject if that is another one than before; the callers in
 * the kernel and of the user; the innermost frame; their value if each has not the one of before; the time of the first one as
 * the difference to the one before, in 1024 ns: less than from the sample to where its time is taken.
 */
#pragma once

/* What follows. */
#define HAS_SUBJECT 1
#define HAS_VALUE 2
#define WHAT_BITS 2

#define TIME_SHIFT 10

/* How many bytes of sums are told at a time. */
#define DRAIN_ROOM (1 << 20)

/* The most that one takes, in words. */
#define SUM_WORDS ((6 * MAX_NUMBER + sizeof(struct subject) + 7) / 8)

/* What was told last. */
struct drain {
	struct subject subject;
	__u64 period;
	__u64 first; /* shifted */
	struct encoding encoding;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct drain);
} drained SEC(".maps");

/* What is told now. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, DRAIN_ROOM);
} told SEC(".maps");

__u32 drain_generation = 0;
__u32 drain_size = 0; /* of what is told */

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
	__u8 *to = bpf_map_lookup_elem(&told, &zero);
	__u64 size = drain_size, what, n, first, i;
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
	what = sum.count << WHAT_BITS;
	if (!same(&key.subject, &d->subject))
		what |= HAS_SUBJECT;
	if (sum.value != sum.count * d->period)
		what |= HAS_VALUE;
	encode(e, what);
	if (what & HAS_SUBJECT) {
		n = e->size;
		if (n > MAX_NUMBER)
			return 1;
		__builtin_memcpy(e->bytes + n, &key.subject, sizeof(key.subject));
		e->size = n + sizeof(key.subject);
	}
	encode(e, key.kernel);
	encode(e, key.user);
	encode_signed(e, key.ip);
	if (what & HAS_VALUE)
		encode(e, sum.value);
	encode_signed(e, first - d->first);
	n = e->size;
	asm volatile("" : "+r"(n), "+r"(size)); /* they are compared as they are used: with 64 bits */
	if (n > MAX_ENCODED || size > DRAIN_ROOM - MAX_ENCODED) /* it is told the next time */
		return 1;
#pragma unroll
	for (i = 0; i < SUM_WORDS; i++)
		((__u64 *)(to + size))[i] = ((__u64 *)e->bytes)[i];
	drain_size = size + n;
	value->count = 0;
	value->value = 0;
	d->subject = key.subject;
	d->first = first;
	if ((what & HAS_VALUE) && sum.count)
		d->period = sum.value / sum.count;
	return 0;
}

/* Run by the reader, until there is nothing to tell. */
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
