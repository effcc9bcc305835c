// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// For tests of profiles: a program that runs one of two sub-programs, depending on the length of its packet.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char _license[] SEC("license") = "Dual BSD/GPL";

__attribute__((noinline)) int one_part(__u64 x)
{
	for (__u32 i = 0; i < 1000; i++)
		x = x * 6364136223846793005ull + 1442695040888963407ull;
	return x;
}

__attribute__((noinline)) int three_parts(__u64 x)
{
	__u64 y = x;

	for (__u32 i = 0; i < 1000; i++)
		y = y * 2862933555777941757ull + 3037000493ull;
	return y;
}

SEC("socket")
int split(struct __sk_buff *skb)
{
	__u64 x = skb->len;

	if (x & 1)
		return three_parts(x) & 1;
	return one_part(x) & 1;
}
