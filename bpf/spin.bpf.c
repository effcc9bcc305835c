// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// For tests of profiles: a program that spends its time in two sub-programs, three times as long in one as in the other.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char _license[] SEC("license") = "Dual BSD/GPL";

static __attribute__((noinline)) __u64 turn(__u64 x, __u32 rounds)
{
	for (__u32 i = 0; i < 1000 && i < rounds; i++)
		x = x * 6364136223846793005ull + 1442695040888963407ull;
	return x;
}

__attribute__((noinline)) int spin_short(__u64 x)
{
	return turn(x, 200);
}

__attribute__((noinline)) int spin_long(__u64 x)
{
	__u64 y = x;

	for (__u32 i = 0; i < 600; i++)
		y = y * 2862933555777941757ull + 3037000493ull;
	return y;
}

SEC("socket")
int spin(struct __sk_buff *skb)
{
	__u64 x = skb->len;

	x += spin_short(x);
	x += spin_long(x);
	return x & 1;
}
