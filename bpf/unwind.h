/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Unwinds user stacks frame by frame, by rules from call frame information (.eh_frame), and by the frame pointer where
 * code has none. Package userstack fills the maps; package symbol/unwind builds the rows.
 *
 * The file that includes this defines a constant is_arm64. If it defines UNWIND_64BIT_ONLY, stacks of 32-bit processes
 * have their innermost frame alone, and the program does not use bpf_get_stack: events with precise_ip take a program
 * with that helper only if they record user callchains themselves.
 *
 * Needs Linux 5.17.
 */
#pragma once

#include "kernel.h"

#define UNWIND_FRAMES 127 /* kernel.perf_event_max_stack */

/* Why a stack ends. For all but the first, it is cut. */
enum unwind_end {
	UNWIND_OUTERMOST, /* there are no more callers */
	UNWIND_NO_TABLE, /* the code has neither a table nor frame pointers */
	UNWIND_NO_RULE, /* the table has no rule for it, and there is no frame pointer */
	UNWIND_UNREADABLE, /* the stack is not in memory, or not where the table says */
	UNWIND_BROKEN, /* the next frame is not further up the stack */
	UNWIND_TOO_DEEP,
	UNWIND_NO_ADDRESS, /* a return address is not an address, as in code without frame pointers */
	UNWIND_ENDS,
};

struct unwind_mapping {
	__u64 start, end;
	__u64 bias; /* an address minus this is an offset in the table */
	__u32 table;
	__u32 rows;
};

struct unwind_process {
	__u32 first; /* index of its first mapping; they are sorted */
	__u32 count; /* number of mappings; 0 if it is walked by frame pointers */
};

struct unwind_row {
	__u32 offset;
	__u32 rule;
};

/* unwind_base is the value that an offset of a rule is relative to: Base of package symbol/unwind, in rule.go. */
enum unwind_base {
	UNWIND_NONE,
	UNWIND_CFA,
	UNWIND_SP,
	UNWIND_FP,
	UNWIND_SAME,
	UNWIND_PLT,
	UNWIND_END,
	UNWIND_LOADED = 0x80,
};

/* unwind_rule describes how to find the caller's frame: Rule of package symbol/unwind. */
struct unwind_rule {
	__s32 cfa_offset, ra_offset, fp_offset;
	__u8 cfa, ra, fp; /* enum unwind_base */
	__u8 signal;
};

/* Keyed by process ID in the reader's PID namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct unwind_process);
} unwind_processes SEC(".maps");

/* Processes that were seen but are not in unwind_processes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u8);
} unwind_wanted SEC(".maps");

/* How often a process was added to unwind_wanted. While it stays the same, there is nothing new in the map. */
__u64 unwind_wants = 0;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct unwind_mapping);
} unwind_mappings SEC(".maps");

struct unwind_table {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_INNER_MAP);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct unwind_row));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct unwind_table);
} unwind_tables SEC(".maps");

/* The rules of all tables. Rule 0 means that there is none. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct unwind_rule);
} unwind_rules SEC(".maps");

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pt_regs___amd64 {
	unsigned long bp, ip, cs, sp;
};

struct pt_regs___arm64 {
	__u64 regs[31];
	__u64 sp, pc, pstate;
};

#pragma clang attribute pop

#define UNWIND_NO_MAPPING (~0U)

/* unwind_find_mapping returns the index of the mapping that contains an address, or UNWIND_NO_MAPPING. */
__noinline __u32 unwind_find_mapping(__u32 first, __u32 count, __u64 address)
{
	__u32 low = 0, high = count, i;

	for (i = 0; i < 17 && low < high; i++) { /* 65536 mappings */
		__u32 middle = low + (high - low) / 2, key = first + middle;
		struct unwind_mapping *m = bpf_map_lookup_elem(&unwind_mappings, &key);

		if (!m)
			break;
		if (address < m->start)
			high = middle;
		else if (address >= m->end)
			low = middle + 1;
		else
			return key;
	}
	return UNWIND_NO_MAPPING;
}

/* unwind_find_rule returns the rule of the last row at or before an offset; 0 if there is none. */
__noinline __u32 unwind_find_rule(__u32 table, __u32 rows, __u32 offset)
{
	void *map = bpf_map_lookup_elem(&unwind_tables, &table);
	__u32 low = 0, high = rows, rule = 0, i;

	if (!map)
		return 0;
	for (i = 0; i < 23 && low < high; i++) { /* MaxRows of package unwind */
		__u32 middle = low + (high - low) / 2;
		struct unwind_row *row = bpf_map_lookup_elem(map, &middle);

		if (!row)
			return 0;
		if (row->offset > offset) {
			high = middle;
		} else {
			rule = row->rule;
			low = middle + 1;
		}
	}
	return rule;
}

/* unwind has the registers of a frame, and the state of the walk. */
struct unwind {
	__u64 pc, sp, fp, lr;
	struct unwind_process process;
	__u32 end;
	__u32 unused;
	__u64 mapping; /* of the frame before: callers are often in the same file */
	__u64 exact; /* the program counter is not a return address */
};

static __always_inline struct unwind_rule *unwind_rule_of(struct unwind *u)
{
	__u64 address = u->pc - !u->exact;
	struct unwind_mapping *m;
	__u32 key;

	if (!u->process.count)
		return NULL;
	key = u->mapping;
	m = bpf_map_lookup_elem(&unwind_mappings, &key);
	if (!m || address < m->start || address >= m->end) {
		key = unwind_find_mapping(u->process.first, u->process.count, address);
		m = bpf_map_lookup_elem(&unwind_mappings, &key);
		if (!m)
			return NULL;
		u->mapping = key;
	}
	key = unwind_find_rule(m->table, m->rows, address - m->bias);
	return bpf_map_lookup_elem(&unwind_rules, &key);
}

static __always_inline bool unwind_load(__u64 *v, __u64 address)
{
	return !bpf_probe_read_user(v, sizeof(*v), (void *)address);
}

static __always_inline __u64 unwind_base(struct unwind *u, __u8 base, __u64 cfa)
{
	if (base == UNWIND_SP)
		return u->sp;
	if (base == UNWIND_FP)
		return u->fp;
	return cfa;
}

/* unwind_no_address reports whether a return address is in the kernel's half of the addresses, for example -1. */
static __always_inline bool unwind_no_address(__u64 pc)
{
	return pc >> (is_arm64 ? 55 : 63) & 1;
}

/*
 * unwind_authenticated removes the signature (Armv8.3 pointer authentication) from a return address. The signature is
 * in the bits that user addresses do not have.
 */
static __always_inline __u64 unwind_authenticated(__u64 pc)
{
	return is_arm64 && !unwind_no_address(pc) ? pc & ((1ULL << 48) - 1) : pc;
}

/* In place of an unknown frame pointer: nothing can be read there. */
#define UNWIND_UNKNOWN (~0ULL)

/*
 * unwind_by_frame_pointer moves to the frame of the caller, and returns false if it cannot. The frame pointer points to
 * the caller's saved frame pointer; the return address follows that.
 */
static __always_inline bool unwind_by_frame_pointer(struct unwind *u)
{
	__u64 saved, ra;

	if (u->fp & 7 || !unwind_load(&saved, u->fp) || !unwind_load(&ra, u->fp + 8) || saved == u->fp)
		return false;
	u->sp = u->fp + 16;
	u->fp = saved;
	u->pc = u->lr = unwind_authenticated(ra);
	u->exact = 0;
	return true;
}

/* unwind_by_rule moves to the frame of the caller. It returns UNWIND_OUTERMOST, or why it cannot. */
static __always_inline __u32 unwind_by_rule(struct unwind *u, struct unwind_rule *r)
{
	__u64 cfa, pc, lr, fp = u->fp;

	if (r->cfa == UNWIND_PLT) {
		cfa = u->sp + 8;
		if ((u->pc - !u->exact & 15) >= r->cfa_offset)
			cfa += 8;
	} else {
		cfa = unwind_base(u, r->cfa & ~UNWIND_LOADED, 0) + r->cfa_offset;
		if (r->cfa & UNWIND_LOADED && !unwind_load(&cfa, cfa))
			return UNWIND_UNREADABLE;
	}
	if (r->ra == UNWIND_SAME) {
		pc = u->lr;
	} else {
		pc = unwind_base(u, r->ra, cfa) + r->ra_offset;
		lr = pc - 16;
		if (!unwind_load(&pc, pc))
			return UNWIND_UNREADABLE;
	}
	if (r->fp == UNWIND_NONE) {
		fp = UNWIND_UNKNOWN;
	} else if (r->fp != UNWIND_SAME) {
		fp = unwind_base(u, r->fp, cfa) + r->fp_offset;
		if (!unwind_load(&fp, fp))
			fp = UNWIND_UNKNOWN;
	}
	pc = unwind_authenticated(pc);
	/* Stacks grow down; a signal can have its own. */
	if (!r->signal && (cfa < u->sp || (cfa == u->sp && pc == u->pc)))
		return UNWIND_BROKEN;
	u->lr = pc;
	if (is_arm64 && r->signal && !unwind_load(&u->lr, lr))
		return UNWIND_UNREADABLE;
	u->pc = pc;
	u->sp = cfa;
	u->fp = fp;
	u->exact = r->signal;
	return UNWIND_OUTERMOST;
}

/*
 * unwind_caller moves to the frame of the caller, or returns 1. It is a global function, so the verifier checks it once
 * and not on each path to the first frame.
 */
__noinline int unwind_caller(struct unwind *u)
{
	struct unwind_rule *r;

	if (!u)
		return 1;
	r = unwind_rule_of(u);
	if (r && r->ra == UNWIND_END)
		return 1;
	if (r && r->cfa != UNWIND_NONE) {
		u->end = unwind_by_rule(u, r);
		return u->end != UNWIND_OUTERMOST;
	}
	if (!u->fp)
		return 1;
	if (unwind_by_frame_pointer(u))
		return 0;
	u->end = r ? UNWIND_NO_RULE : UNWIND_NO_TABLE;
	return 1;
}

struct unwind_walk {
	struct unwind frame;
	__u64 *addresses;
	__u32 frames;
};

static long unwind_frame(__u32 i, struct unwind_walk *w)
{
	struct unwind *u = &w->frame;

	if (!u->pc)
		return 1;
	if (unwind_no_address(u->pc)) {
		u->end = UNWIND_NO_ADDRESS;
		return 1;
	}
	if (i >= UNWIND_FRAMES) {
		u->end = UNWIND_TOO_DEEP;
		return 1;
	}
	w->addresses[i] = i ? u->pc + u->exact : u->pc;
	w->frames = i + 1;
	return unwind_caller(u) != 0;
}

/*
 * unwind_user reads the user stack of the current task, from the innermost frame on. It returns the number of frames,
 * and in *end why there are no more. All addresses but the first are return addresses, or one more than the address
 * that a signal interrupted: for each of them, the address minus 1 is in the call. addresses must have room for
 * UNWIND_FRAMES, in the value of a map.
 */
static __always_inline __u32 unwind_user(void *ctx, __u32 pid, __u64 *addresses, __u32 *end)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct unwind_walk w = { .frame = { .mapping = UNWIND_NO_MAPPING, .exact = 1 }, .addresses = addresses };
	struct unwind *u = &w.frame;
	struct unwind_process *process;
	__u8 yes = 1;
	bool compat;
	long n;

	*end = UNWIND_OUTERMOST;
	/*
	 * With the helper: for a load through the pointer, the verifier of Linux 6.18 searches the names of all types.
	 */
	if (BPF_CORE_READ(task, flags) & PF_KTHREAD || !BPF_CORE_READ(task, mm))
		return 0;
	if (is_arm64) {
		struct pt_regs___arm64 *regs = (void *)bpf_task_pt_regs(task);

		compat = BPF_CORE_READ(regs, pstate) & 0x10; /* PSR_MODE32_BIT */
		u->pc = BPF_CORE_READ(regs, pc);
		u->sp = BPF_CORE_READ(regs, sp);
		u->fp = BPF_CORE_READ(regs, regs[29]);
		u->lr = BPF_CORE_READ(regs, regs[30]);
	} else {
		struct pt_regs___amd64 *regs = (void *)bpf_task_pt_regs(task);

		compat = BPF_CORE_READ(regs, cs) == 0x23; /* __USER32_CS */
		u->pc = BPF_CORE_READ(regs, ip);
		u->sp = BPF_CORE_READ(regs, sp);
		u->fp = BPF_CORE_READ(regs, bp);
	}
	if (compat) {
#ifdef UNWIND_64BIT_ONLY
		addresses[0] = u->pc;
		*end = UNWIND_NO_TABLE;
		return 1;
#endif
		n = bpf_get_stack(ctx, addresses, UNWIND_FRAMES * sizeof(*addresses), BPF_F_USER_STACK);
		return n > 0 ? n / sizeof(*addresses) : 0;
	}
	process = bpf_map_lookup_elem(&unwind_processes, &pid);
	if (process)
		u->process = *process;
	else if (!bpf_map_lookup_elem(&unwind_wanted, &pid)) {
		bpf_map_update_elem(&unwind_wanted, &pid, &yes, BPF_ANY); /* if there is no room, it is added the next time */
		__sync_fetch_and_add(&unwind_wants, 1);
	}
	bpf_loop(UNWIND_FRAMES + 1, unwind_frame, &w, 0);
	/* Whether its files need tables is not known: a walk by frame pointers alone may have skipped callers. */
	*end = !process && u->end == UNWIND_OUTERMOST ? UNWIND_NO_TABLE : u->end;
	return w.frames;
}
