// clang-14 -target aarch64-linux-gnu -O2 -fomit-frame-pointer -mbranch-protection=pac-ret+leaf -fasynchronous-unwind-tables
//	-ffreestanding -nostdlib -static -fuse-ld=lld, and llvm-strip -g
typedef unsigned long u64;
static long sys(long n, long a, long b, long c, long d) {
	register long x8 __asm__("x8") = n, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c, x3 __asm__("x3") = d;
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
	return x0;
}
volatile u64 sink;
#define NI __attribute__((noinline))
NI void spin(int n) { for (int i = 0; i < n; i++) sink += i; }
NI void with_alloca(int n) { volatile char *p = __builtin_alloca(n + 16); p[n] = 1; spin(3000); sink += p[n]; }
NI int rec(int n) { if (n == 0) { with_alloca(100); return 1; } int r = rec(n - 1); sink += r; return r + n; }
NI void handler(int s) { spin(20000); sink += s; }
NI void looped(void) { for (int i = 0; i < 2000; i++) { sink ^= i * sink; } }
struct sa { void (*h)(int); u64 flags; void *rest; u64 mask; };
NI int work(void) {
	struct sa s = { handler, 0, 0, 0 };
	sys(134, 14, (long)&s, 0, 8);
	long t[4] = { 0, 700, 0, 700 };
	sys(103, 0, (long)t, 0, 0);
	for (int i = 0; i < 2000; i++) { sink += rec(i % 7); looped(); }
	return 0;
}
__attribute__((naked)) void _start(void) { __asm__(".cfi_undefined x30\n bl work\n mov x8, #94\n mov x0, #0\n svc 0\n"); }
