package offcpu

//go:generate go tool bpf2go -target bpfel -no-global-types -type stack -type thread -type sum_key -type sum -type losses offcpu ../../bpf/offcpu.bpf.c -- -mcpu=v3 -Wall -Werror
