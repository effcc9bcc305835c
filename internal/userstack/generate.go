package userstack

//go:generate go tool bpf2go -target bpfel -no-global-types -output-suffix _test -type sample userstack ../../bpf/userstack.bpf.c -- -mcpu=v3 -Wall -Werror
