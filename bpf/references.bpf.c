// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Lists each loaded BPF program with the number of references to it. The user side is internal/count/program. */
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

typedef struct {
	__s64 counter;
} atomic64_t;

struct bpf_prog_aux {
	__u32 id;
	atomic64_t refcnt;
} __attribute__((preserve_access_index));

struct bpf_prog {
	struct bpf_prog_aux *aux;
} __attribute__((preserve_access_index));

struct bpf_iter__bpf_prog {
	struct bpf_iter_meta *meta;
	struct bpf_prog *prog;
} __attribute__((preserve_access_index));

/* references_of is the record of a program. */
struct references_of {
	__u64 id;
	__s64 count; /* including the reference of the iterator */
};

const struct references_of *the_user_side_has_this __attribute__((unused));

SEC("iter/bpf_prog")
int bperf_refs(struct bpf_iter__bpf_prog *ctx)
{
	struct bpf_prog *prog = ctx->prog;
	struct references_of r = {};

	if (!prog)
		return 0;
	r.id = prog->aux->id;
	r.count = prog->aux->refcnt.counter;
	bpf_seq_write(ctx->meta->seq, &r, sizeof(r));
	return 0;
}
