package upstream

// Needs clang-14 and libbpf-dev. <asm/types.h> is where Debian has the headers of one architecture.

//go:generate go tool bpf2go -cc clang-14 -target bpfel -no-global-types leader ../../../../bpf/leader.bpf.c -- -Wall -Werror -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu
