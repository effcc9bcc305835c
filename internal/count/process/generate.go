package process

//go:generate go tool bpf2go -target bpfel -no-global-types -type sum -type cpu tasks ../../../bpf/tasks.bpf.c -- -mcpu=v3 -Wall -Werror
