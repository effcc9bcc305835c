// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Keeps samples while a thread handles one type of request: see docs/prog-on-samples.md.
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

char _license[] SEC("license") = "Dual BSD/GPL";

/* The program, by its path or as found in $PATH, and the function that handles these requests: clang -DHANDLER='"nginx:ngx_http_handler"' … */
#ifndef HANDLER
#define HANDLER "server:handle_write"
#endif

/* The threads that are in the function. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, __u8);
} handling SEC(".maps");

SEC("uprobe/" HANDLER)
int begin(void *ctx)
{
	__u32 thread = bpf_get_current_pid_tgid();
	__u8 yes = 1;

	bpf_map_update_elem(&handling, &thread, &yes, BPF_ANY);
	return 0;
}

SEC("uretprobe/" HANDLER)
int end(void *ctx)
{
	__u32 thread = bpf_get_current_pid_tgid();

	bpf_map_delete_elem(&handling, &thread);
	return 0;
}

SEC("perf_event")
int while_handling(void *ctx)
{
	__u32 thread = bpf_get_current_pid_tgid();

	return bpf_map_lookup_elem(&handling, &thread) != 0;
}
