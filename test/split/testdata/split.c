// A load whose time is spent in two functions: "split-ARCH FILE MS" runs for so much CPU time, and writes to the file how much of it, in ns, went to
// one_part, and how much to three_parts. testdata/build.sh makes split-amd64 and split-arm64 of it.
typedef unsigned long u64;

#ifdef __x86_64__
enum { WRITE = 1, CLOCK_GETTIME = 228, EXIT = 60, OPENAT = 257 };

static long sys(long n, long a, long b, long c, long d) {
	register long r10 __asm__("r10") = d;
	__asm__ volatile("syscall" : "+a"(n) : "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
	return n;
}
#else
enum { WRITE = 64, CLOCK_GETTIME = 113, EXIT = 93, OPENAT = 56 };

static long sys(long n, long a, long b, long c, long d) {
	register long x8 __asm__("x8") = n, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c, x3 __asm__("x3") = d;
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
	return x0;
}
#endif

#define NOINLINE __attribute__((noinline))

volatile u64 sink;

NOINLINE void one_part(u64 n) {
	for (u64 i = 0; i < n; i++)
		sink += i;
}

NOINLINE void three_parts(u64 n) {
	for (u64 i = 0; i < n; i++)
		sink += i;
}

// CPU time of this thread, in ns.
static u64 used(void) {
	enum { CLOCK_THREAD_CPUTIME_ID = 3 };
	long t[2];

	sys(CLOCK_GETTIME, CLOCK_THREAD_CPUTIME_ID, (long)t, 0, 0);
	return t[0] * 1000000000ul + t[1];
}

static char *decimal(char *end, u64 v) {
	do
		*--end = '0' + v % 10;
	while (v /= 10);
	return end;
}

__attribute__((used)) int work(char **args) {
	enum { AT_FDCWD = -100, O_WRONLY = 1, O_CREAT = 0100 };
	u64 ms = 0, one = 0, three = 0, random = 1;
	char text[64], *end = text + sizeof(text), *at = end;
	long fd;

	for (char *c = args[2]; *c; c++)
		ms = 10 * ms + *c - '0';
	while (one + three < ms * 1000000) {
		u64 a, b, c, n;

		random = random * 6364136223846793005ul + 1442695040888963407ul;
		n = 100000 + (random >> 33) % 200000; // so that turns are of no length that fits to a timer
		a = used();
		one_part(n);
		b = used();
		three_parts(3 * n);
		c = used();
		one += b - a;
		three += c - b;
	}
	*--at = '\n';
	at = decimal(at, three);
	*--at = ' ';
	at = decimal(at, one);
	fd = sys(OPENAT, AT_FDCWD, (long)args[1], O_WRONLY | O_CREAT, 0600);
	sys(EXIT, sys(WRITE, fd, (long)at, end - at, 0) != end - at, 0, 0, 0);
	return 0;
}

#ifdef __x86_64__
__attribute__((naked)) void _start(void) { __asm__(".cfi_undefined rip\n xor %ebp, %ebp\n lea 8(%rsp), %rdi\n call work\n hlt\n"); }
#else
__attribute__((naked)) void _start(void) { __asm__(".cfi_undefined x30\n mov x29, #0\n add x0, sp, #8\n bl work\n brk #0\n"); }
#endif
