package shared

//go:generate go tool bpf2go -target bpfel -no-global-types -type bank_key -type cpu -type found -type node -type reading -type session -type slot -type shared_state -type system counters ../../../bpf/counters.bpf.c -- -mcpu=v3 -Wall -Werror
