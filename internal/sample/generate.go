package sample

//go:generate go tool bpf2go -target bpfel -no-global-types -type frames -type stack -type access -type subject -type key -type sum -type drain -type counts -type fill -type wait sample ../../bpf/sample.bpf.c -- -mcpu=v3 -Wall -Werror
