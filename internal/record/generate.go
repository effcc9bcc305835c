package record

//go:generate go tool bpf2go -target bpfel -no-global-types modules ../../bpf/modules.bpf.c -- -mcpu=v3 -Wall -Werror
