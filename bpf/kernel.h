/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The fields of kernel structures that the programs read. When a program is loaded, their offsets come from the running
 * kernel's BTF. The names are those of Linux 5.15 to 7.2.
 */
#pragma once

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node {
	__u64 id;
};

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup_subsys_state *subsys[1];
	struct cgroup *dfl_cgrp;
};

struct upid {
	int nr;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct mm_struct;

struct task_struct {
	unsigned int flags;
	struct mm_struct *mm;
	struct pid *thread_pid;
	struct css_set *cgroups;
};

#define PF_EXITING 0x00000004
#define PF_KTHREAD 0x00200000

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop

enum cgroup_subsys_id {
	perf_event_cgrp_id,
};

extern void *bpf_rdonly_cast(const void *pointer, __u32 type) __ksym __weak; /* Linux 6.2 */

/*
 * kernel_read copies size bytes of the kernel's memory: 1, 2, 4, or a multiple of 8. With lockdown=confidentiality, the
 * kernel refuses bpf_probe_read_kernel, but not a load through a pointer to one of its types. Such a load returns 0
 * where nothing can be read. The first field of the type here is a number: to the verifier, a pointer that is read
 * stays a number, as with the helper.
 */
static __always_inline long kernel_read(void *to, __u32 size, const void *from)
{
	const __u32 type = bpf_core_type_id_kernel(struct bpf_perf_event_value);
	__u32 i;

	if (!bpf_rdonly_cast)
		return bpf_probe_read_kernel(to, size, from);
	if (size == 1)
		*(__u8 *)to = *(__u8 *)bpf_rdonly_cast(from, type);
	else if (size == 2)
		*(__u16 *)to = *(__u16 *)bpf_rdonly_cast(from, type);
	else if (size == 4)
		*(__u32 *)to = *(__u32 *)bpf_rdonly_cast(from, type);
	else
		for (i = 0; i < size / 8; i++)
			((__u64 *)to)[i] = *(__u64 *)bpf_rdonly_cast((__u64 *)from + i, type);
	return 0;
}

/* The macros of bpf_core_read.h use it, too. */
#define bpf_probe_read_kernel kernel_read
