typedef unsigned int u32; typedef unsigned long long u64;
#define SEC(n) __attribute__((section(n), used))
static __attribute__((noinline)) int sum_up(u32 n)
{
	int s = 0;
	for (u32 i = 0; i < (n & 15); i++)
		s += i * n;
	return s;
}
SEC("raw_tp/sched_switch")
int a_name_longer_than_15_bytes(u64 *ctx)
{
	u32 n = (u32)ctx[0];
	int a = sum_up(n);

	if (a > 100)
		return 2;
	return 1;
}
char _license[] SEC("license") = "GPL";
