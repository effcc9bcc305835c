package program

//go:generate go tool bpf2go -target bpfel -no-global-types -type sets -type set -type position -type copy -type range -type member probes ../../../bpf/probes.bpf.c -- -mcpu=v3 -Wall -Werror
//go:generate go tool bpf2go -target bpfel -no-global-types -type references_of references ../../../bpf/references.bpf.c -- -mcpu=v3 -Wall -Werror
