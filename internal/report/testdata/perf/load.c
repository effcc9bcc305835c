// A program without a libc, so that every stack of it can be unwound and every function has a name. It computes, calls the kernel and
// touches memory, alone and in two children, one of which runs "work", which is the same program under another name.

#define FUNCTION __attribute__((noinline)) static

volatile unsigned long result;

FUNCTION long call(long number, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

FUNCTION void leaf(int n)
{
	for (int i = 0; i < n; i++)
		result += i * 3;
}

FUNCTION void deep(int depth, int n)
{
	if (depth)
		deep(depth - 1, n);
	else
		leaf(n);
	result++;
}

FUNCTION void ask(int n)
{
	for (int i = 0; i < n; i++)
		call(110, 0, 0, 0, 0, 0, 0); // getppid
	result++;
}

FUNCTION void both(int n)
{
	leaf(n);
	ask(n / 40);
	result++;
}

FUNCTION void touch(int pages)
{
	char *area = (char *)call(9, 0, pages * 4096L, 3, 0x22, -1, 0); // mmap

	for (int i = 0; i < pages; i++)
		area[i * 4096L] = 1;
	call(11, (long)area, pages * 4096L, 0, 0, 0, 0); // munmap
	result++;
}

FUNCTION void work(int rounds)
{
	for (int i = 0; i < rounds; i++) {
		leaf(30000);
		deep(3, 15000);
		deep(6, 8000);
		both(15000);
		touch(60);
	}
	result++;
}

__attribute__((used)) static void start(long *stack)
{
	char **argv = (char **)(stack + 1);

	if (stack[0] > 1) {
		if (call(57, 0, 0, 0, 0, 0, 0) == 0) { // fork
			call(59, (long)argv[1], (long)(char *[]){argv[1], 0}, (long)(char *[]){0}, 0, 0, 0); // execve
			call(231, 1, 0, 0, 0, 0, 0);
		}
		if (call(57, 0, 0, 0, 0, 0, 0) == 0) {
			work(60);
			call(231, 0, 0, 0, 0, 0, 0); // exit_group
		}
	}
	work(90);
	call(61, -1, 0, 0, 0, 0, 0); // wait4
	call(61, -1, 0, 0, 0, 0, 0);
	call(231, 0, 0, 0, 0, 0, 0);
}

__asm__(".globl _start\n_start:\n\txor %ebp, %ebp\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall start\n");
