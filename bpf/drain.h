/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An iterator that reads the sums of a generation, and leaves them at 0: those that stay so are not told again. Part of
 * sample.bpf.c.
 *
 * For each: what follows, its subject if that is another one than before, the callers in the kernel and of the user, the
 * innermost frame, the number of samples, their value if each has not the one of before, and the time of the first one as the
 * difference to the one before.
 */
#pragma once

struct bpf_iter__bpf_map_elem {
	struct bpf_iter_meta *meta;
	void *map;
	void *key;
	void *value;
} __attribute__((preserve_access_index));

/* What follows. */
#define HAS_SUBJECT 1
#define HAS_VALUE 2

/* What was told last. */
struct drain {
	struct subject subject;
	__u64 period;
	__u64 first;
	struct encoding encoding;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct drain);
} drained SEC(".maps");

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

SEC("iter/bpf_map_elem")
int on_drain(struct bpf_iter__bpf_map_elem *ctx)
{
	struct key *at = ctx->key, key;
	__u32 zero = 0, what = 0, n;
	struct drain *d = bpf_map_lookup_elem(&drained, &zero);
	struct sum *value = ctx->value, sum;
	struct encoding *e;

	if (!at || !value || !d || !value->count)
		return 0;
	key = *at;
	sum = *value;
	e = &d->encoding;
	e->size = 0;
	if (!same(&key.subject, &d->subject))
		what |= HAS_SUBJECT;
	if (sum.value != sum.count * d->period)
		what |= HAS_VALUE;
	encode(e, what);
	if (what & HAS_SUBJECT) {
		__builtin_memcpy(e->bytes + 1, &key.subject, sizeof(key.subject));
		e->size = 1 + sizeof(key.subject);
	}
	encode(e, key.kernel);
	encode(e, key.user);
	encode_signed(e, key.ip);
	encode(e, sum.count);
	if (what & HAS_VALUE)
		encode(e, sum.value);
	encode_signed(e, sum.first - d->first);
	n = e->size;
	if (n > MAX_ENCODED || bpf_seq_write(ctx->meta->seq, e->bytes, n)) /* it is shown again when there is room */
		return 0;
	value->count = 0;
	value->value = 0;
	d->subject = key.subject;
	d->first = sum.first;
	if ((what & HAS_VALUE) && sum.count)
		d->period = sum.value / sum.count;
	return 0;
}
