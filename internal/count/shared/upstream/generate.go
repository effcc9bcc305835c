package upstream

// The command needs clang-14 and libbpf-dev. It searches the directories where Debian has <asm/types.h> of an architecture.

//go:generate go tool bpf2go -cc clang-14 -target bpfel -no-global-types leader ../../../../bpf/leader.bpf.c -- -Wall -Werror -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu
