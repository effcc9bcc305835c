package chains

//go:generate go tool bpf2go -target bpfel -no-global-types chains ../../../bpf/chains.bpf.c -- -mcpu=v3 -Wall -Werror
