// A program without frame pointers that goes down a stack, has signal handlers and makes system calls, for ever. testdata/build.sh makes deep-amd64 and
// deep-arm64 of it.
typedef unsigned long u64;

#ifdef __x86_64__
enum { RT_SIGACTION = 13, SETITIMER = 38, GETPID = 39, KILL = 62, GETPPID = 110 };

static long sys(long n, long a, long b, long c, long d) {
	register long r10 __asm__("r10") = d;
	__asm__ volatile("syscall" : "+a"(n) : "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
	return n;
}

// What handlers return to, as musl has it: without call frame information.
void restorer(void);
__asm__(".text\n .p2align 5\n .skip 32\n .type restorer,@function\n .globl restorer\n restorer: mov $15,%rax\n syscall\n .size restorer,.-restorer\n"
	".skip 32\n");
#define SA_RESTORER 0x04000000
#else
enum { RT_SIGACTION = 134, SETITIMER = 103, GETPID = 172, KILL = 129, GETPPID = 173 };

static long sys(long n, long a, long b, long c, long d) {
	register long x8 __asm__("x8") = n, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c, x3 __asm__("x3") = d;
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
	return x0;
}

static void *const restorer;
#define SA_RESTORER 0
#endif

#define NOINLINE __attribute__((noinline))
#define DEPTH 40
#define SIGVTALRM 26

volatile u64 sink;

NOINLINE void spin(int n) {
	for (int i = 0; i < n; i++)
		sink += i;
}

NOINLINE void leaf(int n) {
	volatile char *p = __builtin_alloca(n + 16);

	p[n] = 1;
	spin(5000);
	for (int i = 0; i < 20; i++)
		sys(GETPPID, 0, 0, 0, 0);
	sys(KILL, sys(GETPID, 0, 0, 0, 0), SIGVTALRM, 0, 0);
	sink += p[n];
}

NOINLINE u64 descend(int n, u64 a, u64 b, u64 c, u64 d) {
	u64 r;

	if (n == 1) {
		leaf(100);
		return 1;
	}
	r = descend(n - 1, a * b, b ^ c, c + d, d * a);
	sink += r + a;
	return r + (a ^ b) + (c ^ d);
}

NOINLINE void handler(int signal) {
	spin(5000);
	sink += signal;
}

struct action {
	void (*handler)(int);
	u64 flags;
	void *restore;
	u64 mask;
};

NOINLINE int work(void) {
	struct action s = { handler, SA_RESTORER, restorer, 0 };
	long t[4] = { 0, 5000, 0, 5000 };

	sys(RT_SIGACTION, SIGVTALRM, (long)&s, 0, 8);
	sys(SETITIMER, 1, (long)t, 0, 0);
	for (u64 i = 0;; i++)
		sink += descend(DEPTH, i, 3, 5, 7);
}

// The frame pointer leads nowhere.
#ifdef __x86_64__
__attribute__((naked)) void _start(void) { __asm__(".cfi_undefined rip\n mov $0x12345678, %ebp\n call work\n hlt\n"); }
#else
__attribute__((naked)) void _start(void) { __asm__(".cfi_undefined x30\n mov x29, #0x1238\n bl work\n brk #0\n"); }
#endif
