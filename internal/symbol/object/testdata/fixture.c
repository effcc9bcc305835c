/* For the tests that need no more than this: a function, data, an inlined call and calls through the PLT. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int global_data = 42;

static inline int half(int n)
{
	return n / 2;
}

__attribute__((noinline)) int plain(int n)
{
	return half(n) * global_data;
}

int main(int argc, char **argv)
{
	char name[64];
	snprintf(name, sizeof(name), "%s %d", argv[0], plain(argc));
	write(1, name, strlen(name));
	if (getenv("NOTHING"))
		abort();
	return puts(strchr(name, ' '));
}
