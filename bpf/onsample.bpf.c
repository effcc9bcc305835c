// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// For tests of user programs that run on samples: bperf record --prog.
#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

char _license[] SEC("license") = "Dual BSD/GPL";

enum parity {
	EVEN,
	ODD,
};

const volatile __u32 modulus = 3;
const volatile enum parity parity = EVEN;
const volatile bool drop_all = false;
const volatile __s16 least = 1;
char label[8] = "none";
__u64 seen = 0;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, __u32);
} execs SEC(".maps");

struct decision {
	bool kept;
	char why[8];
};

struct count {
	__u64 samples;
	__s32 minus;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 16);
	__type(key, struct decision);
	__type(value, struct count);
} decisions SEC(".maps");

static __attribute__((noinline)) void count(bool kept)
{
	struct decision decision = { .kept = kept, .why = "modulus" };
	struct count first = { 1, -1 };
	struct count *c = bpf_map_lookup_elem(&decisions, &decision);

	if (c) {
		c->samples++;
		c->minus--;
	} else {
		bpf_map_update_elem(&decisions, &decision, &first, BPF_ANY);
	}
}

enum {
	SLOTS = 32,
};

/* The number of samples by power of 2 of their number; parities has the same for even and for odd numbers. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SLOTS);
	__type(key, __u32);
	__type(value, __u64);
} numbers_log2 SEC(".maps");

struct distribution {
	__u64 total;
	__u32 slots[SLOTS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct distribution);
} parities SEC(".maps");

static __attribute__((noinline)) int note(__u32 n)
{
	__u32 slot = 0, odd = n & 1;
	struct distribution *d;
	__u64 *runs;

	while (n >> slot > 1 && slot < SLOTS - 1)
		slot++;
	runs = bpf_map_lookup_elem(&numbers_log2, &slot);
	d = bpf_map_lookup_elem(&parities, &odd);
	if (!runs || !d || slot >= SLOTS)
		return 0;
	*runs += 1;
	d->total++;
	d->slots[slot]++;
	return 0;
}

/* filter has the name of one of bperf's own functions. */
static __attribute__((noinline)) int filter(__u64 n)
{
	return modulus && n % modulus == 0;
}

/* every_nth keeps the first sample, and later each sample whose number is a multiple of modulus. */
SEC("perf_event")
int every_nth(void *ctx)
{
	__u64 n = __sync_fetch_and_add(&seen, 1);
	bool keep = !drop_all && filter(n);

	note(n);
	count(keep);
	return keep;
}

/* after_exec keeps the samples of processes that have executed a program with the name `label`. */
SEC("perf_event")
int after_exec(void *ctx)
{
	__u32 pid = bpf_get_current_pid_tgid() >> 32;
	__u32 *n = bpf_map_lookup_elem(&execs, &pid);

	return n && (__s32)*n >= least;
}

struct event {
	__u64 number;
	char name[8];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__type(key, __u32);
	__type(value, __u32);
} events SEC(".maps");

__u64 unsent = 0; /* events that found no room */

/* output keeps no sample, and writes an event for each. */
SEC("perf_event")
int output(void *ctx)
{
	struct event event = { .number = __sync_fetch_and_add(&seen, 1), .name = "sample" };

	if (bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, &event, sizeof(event)))
		__sync_fetch_and_add(&unsent, 1);
	return 0;
}

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 16);
	__type(value, struct event);
} submitted SEC(".maps");

/* submit does the same through a ring buffer. */
SEC("perf_event")
int submit(void *ctx)
{
	struct event event = { .number = __sync_fetch_and_add(&seen, 1), .name = "sample" };

	if (bpf_ringbuf_output(&submitted, &event, sizeof(event), 0))
		__sync_fetch_and_add(&unsent, 1);
	return 0;
}

/* The verifier refuses this program, because the map may not have the key. */
SEC("perf_event")
int refused(void *ctx)
{
	__u32 pid = bpf_get_current_pid_tgid() >> 32;
	__u32 *n = bpf_map_lookup_elem(&execs, &pid);

	return *n;
}

SEC("raw_tp/sched_process_exec")
int count_execs(void *ctx)
{
	__u32 pid = bpf_get_current_pid_tgid() >> 32, first = 1, i, *n;
	char comm[16];

	bpf_get_current_comm(comm, sizeof(comm));
	for (i = 0; i < sizeof(label); i++)
		if (comm[i] != label[i])
			return 0;
	n = bpf_map_lookup_elem(&execs, &pid);
	if (n)
		*n += 1;
	else
		bpf_map_update_elem(&execs, &pid, &first, BPF_ANY);
	return 0;
}
