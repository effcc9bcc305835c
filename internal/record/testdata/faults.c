// A program with page faults in many kinds of frames. It prints a line, waits for one, has the faults, and ends.
//
// The faults are in leaf functions, libc, callbacks from libc and signal handlers, where functions begin and continue (their code is dropped), in
// the instructions that save registers (their stack is dropped), and in the linker's stubs.
#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <search.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
#define APART __attribute__((noinline, aligned(65536))) // the kernel maps 64 KiB at a fault

static _Atomic uintptr_t next; // page that nobody has touched
static uintptr_t page;
static volatile long sink;

static NOINLINE char *fresh(int pages) { return (char *)atomic_fetch_add(&next, pages * page); }

static NOINLINE void touch(void) { *(volatile char *)fresh(1) = 1; }

static NOINLINE void touch_in_libc(void)
{
	char *p = fresh(2);

	memset(p, 1, 2 * page);
	sink += p[page];
}

static NOINLINE long recurse(int n, long a, long b, long c)
{
	long k = a * b + c;

	touch();
	if (n)
		k += recurse(n - 1, b, c, k);
	touch();
	return k + a;
}

static NOINLINE long even(int n);

static NOINLINE long odd(int n)
{
	volatile char large[300];

	large[n] = 1;
	touch_in_libc();
	return n ? even(n - 1) + large[n] : 0;
}

static NOINLINE long even(int n)
{
	volatile char *variable = alloca(16 + n * 24); // the stack pointer moves: the frame needs a frame pointer
	long r;

	variable[n] = n;
	touch();
	r = n ? odd(n - 1) : 1;
	return r + variable[n];
}

static NOINLINE void aligned(int n)
{
	__attribute__((aligned(64))) volatile char a[128];

	a[n] = 1;
	touch();
	if (n)
		aligned(n - 1);
	sink += a[n];
}

static NOINLINE long many(int a, int b, int c, int d, int e, int f, int g, int h, long (*step)(int))
{
	long r;

	touch();
	r = step(a & 3);
	touch();
	return r + a * b + c * d + e * f + g * h;
}

static int compare(const void *a, const void *b)
{
	touch();
	return *(const int *)a - *(const int *)b;
}

static int compare_deeply(const void *a, const void *b)
{
	recurse(2, 1, 2, 3);
	return compare(a, b);
}

static void visit(const void *node, VISIT v, int depth)
{
	sink += depth + v + (node != NULL);
	touch();
}

static NOINLINE void call_back(void)
{
	int v[40], key = 5;
	void *root = NULL;

	for (int i = 0; i < 40; i++)
		v[i] = i * 7919 % 41;
	qsort(v, 20, sizeof(*v), compare);
	qsort(v + 20, 20, sizeof(*v), compare_deeply);
	bsearch(&key, v, 20, sizeof(*v), compare);
	for (int i = 0; i < 8; i++)
		tsearch(&v[i], &root, compare);
	twalk(root, visit);
	for (int i = 0; i < 8; i++)
		tdelete(&v[i], &root, compare);
}

static void on_signal(int n)
{
	touch();
	recurse(3, n, 2, 1);
}

extern const char __executable_start[], etext[];

static NOINLINE void drop_code(void)
{
	uintptr_t start = (uintptr_t)&__executable_start & -page;

	madvise((void *)start, ((uintptr_t)etext & -page) + page - start, MADV_DONTNEED);
}

static APART long far_a(int n)
{
	drop_code();
	return n + sink;
}

static APART long far_b(int n)
{
	long r = far_a(n) * n;

	drop_code();
	return r + far_a(n + 1) + getppid();
}

static APART long far_c(int n, long (*f)(int))
{
	long r = 0;

	for (int i = 0; i < 3; i++) {
		r += f(i + n) + (n ? far_c(n - 1, f) : 0);
		drop_code();
	}
	return r;
}

// drop_stack drops the stack below the caller.
static NOINLINE void drop_stack(void)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0) & -page;

	madvise((void *)(here - 12 * page), 11 * page, MADV_DONTNEED);
}

static NOINLINE long descend(int n, long a, long b, long c, long d)
{
	long r = n ? descend(n - 1, a * b, b ^ c, c + d, d * a) : 0;

	return r + (a ^ b) + (c ^ d);
}

static NOINLINE long at_offset(int n)
{
	volatile char *p = alloca(n + 1);

	p[n] = 1;
	drop_stack();
	return descend(110, n, 3, 5, 7) + p[n]; // more than a page, less than 127 frames
}

static void *work(void *unused)
{
	for (int i = 0; i < 6; i++) {
		recurse(i * 5, i, 2, 3);
		even(i * 2);
		aligned(i);
		many(i, 1, 2, 3, 4, 5, 6, 7, i & 1 ? odd : even);
	}
	call_back();
	raise(SIGUSR1);
	far_c(3, far_b);
	for (int i = 0; i < 512; i += 16)
		sink += at_offset(i);
	return unused;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal };
	int rounds = argc > 1 ? atoi(argv[1]) : 1;
	size_t size;

	page = sysconf(_SC_PAGESIZE);
	size = rounds * 8192 * page;
	next = (uintptr_t)mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	madvise((void *)next, size, MADV_NOHUGEPAGE);
	sigaction(SIGUSR1, &action, NULL);
	puts("ready");
	fflush(stdout);
	getchar();
	for (int i = 0; i < rounds; i++) {
		pthread_t t;

		work(NULL);
		if (pthread_create(&t, NULL, work, NULL) || pthread_join(t, NULL))
			return 1;
	}
	return 0;
}
