// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Counters that all sessions of a machine share. docs/shared.md describes how the parts work together; the user side is
 * internal/count/shared.
 *
 * Each event has one perf event per CPU, which always counts. A node is a set of tasks, or a cgroup, that the same
 * sessions count. When a CPU switches from one node to another, what its events counted since the last switch is added
 * to the sums of the node that ends. If neither task of a context switch belongs to a node, nothing is read.
 */
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

enum {
	MAX_EVENTS = 64,
	BANK_EVENTS = 8, /* events per element of the map sums */
	MAX_NODES = 16384,
	MAX_SESSIONS = 1024,
	MAX_CGROUP_DEPTH = 128,
	EXITED = 1U << 31, /* flag in tasks: the task no longer counts */
	FILTER_BITS = 12,
};

/*
 * reading is struct bpf_perf_event_value with the time that the event was not on a counter in place of the running
 * time. While there are enough counters, that time is 0, even for a reader that reads during a write.
 */
struct reading {
	__u64 value;
	__u64 enabled;
	__u64 stopped; /* enabled - running */
};

struct node {
	__u64 events;	/* events to count, one bit each */
	__u32 heir;	/* node of its tasks' children; 0 for none */
	__u32 on_exec;	/* node of its tasks after an exec; 0 if they stay */
	__u32 forward;	/* node that counts in its place after its session has ended; 0 for none */
	/* Only the user side uses the fields below. */
	__u32 session;	/* slot of the session that it counts for, plus 1; 0 after that session has ended */
	__u32 unit;	/* index among the session's targets */
	__u32 parent;	/* node whose sessions count its tasks, too; 0 for none */
	__u64 cgroup;	/* ID of the cgroup; 0 for a node of tasks */
	__u64 retired;	/* ns of CLOCK_REALTIME when its session was found to have ended */
};

struct bank_key {
	__u32 node;
	__u32 bank;
};

struct bank {
	struct reading sums[BANK_EVENTS];
};

/* track is what a CPU counts for one node at a time. The readings that it began with are in the map starts. */
struct track {
	__u64 events; /* events that have begun, one bit each */
	__u32 node;
	__u32 unused;
};

enum {
	TASK, /* counts for a node of tasks */
	GROUP, /* counts for the node of a cgroup */
	TRACKS,
};

struct cpu {
	struct track tracks[TRACKS];
	__u64 task;	     /* address of the running task, as of the last switch; 0 before the first */
	__u64 cgroup;	     /* ID of the cgroup that was looked up last */
	__u32 cgroup_node;   /* node of that cgroup */
	__u32 cgroup_epoch;  /* state.cgroup_epoch at that time */
	__u32 busy;	     /* a program is changing the tracks where sync can interrupt it */
	__u32 unused;
};

struct system {
	struct reading sum;
	struct reading last;
};

struct shared_state {
	__u64 switch_events; /* events that count a context switch right after the tracepoint */
	__u64 cgroup_switch_events; /* events that do so only if the next task is in another cgroup */
	__u64 partial_events; /* events that not all CPUs have */
	__u64 events; /* all events in use */
	__u64 followed_events; /* events that upstream leaders count; on_leader adds them up */
	__u32 cgroup_epoch; /* changes with the map cgroups */
	__u32 cgroups;	/* number of elements in the map cgroups */
	__u32 nodes;	/* length of the part of the map nodes that may be in use */
	__u32 unused;
	__u64 hotplug;	/* number of the last CPU uevent that a session has handled */
};

struct cached {
	__u32 node;
	__u32 epoch;
};

enum lost {
	LOST_READINGS, /* events that could not be read */
	LOST_TASKS,    /* children that did not fit into tasks */
	LOST_SUMS,     /* differences without a sum to add them to */
	LOST_CGROUPS,  /* lookups of cgroups deeper than MAX_CGROUP_DEPTH */
	LOST_SWITCHES, /* switches to counted tasks that the kernel did not show */
	LOST_KINDS,
};

struct session {
	__u32 token; /* ID of the map that its process holds; 0 for a free slot */
	__u32 unused;
	__u64 events;
	__u64 since; /* ns of CLOCK_REALTIME */
};

struct slot {
	__u8 attr[144];	 /* struct perf_event_attr; size 0 for a free slot */
	__u8 filter[128];
	__u8 name[80];
	__u64 since;	 /* ns of CLOCK_REALTIME */
	__u64 cpus[64];	 /* CPUs that have its perf event, one bit each */
	__u64 partial;	 /* nonzero if not all CPUs can have it */
	__u32 leader;	 /* ID of the link of the upstream leader that counts it; 0 if it has perf events of its own */
	__u32 diff;	 /* ID of the leader's map of differences */
	__u32 follower;	 /* ID of the link of on_leader */
	__u32 unused;
};

/*
 * The perf event of slot e on a CPU is element e * nr_cpus + CPU. The user side creates the map, because its size
 * depends on the number of CPUs.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(map_flags, BPF_F_PRESERVE_ELEMS);
	__type(key, __u32);
	__type(value, __u32);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TRACKS * MAX_EVENTS);
	__type(key, __u32);
	__type(value, struct reading);
} starts SEC(".maps");

/*
 * Maps the address of a task_struct to the task's node, until the task is freed. A task stops counting when it exits.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 20);
	__type(key, __u64);
	__type(value, __u32);
} tasks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_NODES);
	__type(key, __u64);
	__type(value, __u32);
} cgroups SEC(".maps");

/* Caches the nodes of cgroups that find_group_node has looked up in the map cgroups. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct cached);
} cgroup_cache SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_NODES);
	__type(key, __u32);
	__type(value, struct node);
} nodes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_NODES * 4);
	__type(key, struct bank_key);
	__type(value, struct bank);
} sums SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_EVENTS);
	__type(key, __u32);
	__type(value, struct system);
} systems SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LOST_KINDS);
	__type(key, __u32);
	__type(value, __u64);
} lost SEC(".maps");

/* The programs do not use the maps sessions and slots; the user side does. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_SESSIONS);
	__type(key, __u32);
	__type(value, struct session);
} sessions SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_EVENTS);
	__type(key, __u32);
	__type(value, struct slot);
} slots SEC(".maps");

struct shared_state state SEC(".data.state") = {};

/* The number of elements of tasks with each hash. Most switches need nothing else. */
__u32 filter[1 << FILTER_BITS];

const volatile __u32 nr_cpus;	   /* number of possible CPUs */
const volatile bool cgroup_v1;	   /* the perf_event controller has a separate hierarchy */
const volatile bool preemptible;   /* tracepoints can be preempted (Linux 6.19) */

static __always_inline void lose(__u32 kind)
{
	__u64 *n = bpf_map_lookup_elem(&lost, &kind);

	if (n)
		__sync_fetch_and_add(n, 1);
}

/* Linux 6.10 to 6.14 refuse calls of a program's own functions while preemption is disabled. */
extern void bpf_preempt_disable(void) __ksym __weak;
extern void bpf_preempt_enable(void) __ksym __weak;

/*
 * enter begins a section that changes what a CPU counts. Neither a context switch nor sync may interrupt it. leave ends
 * it.
 */
static __always_inline void enter(struct cpu *cpu)
{
	if (preemptible && bpf_preempt_disable)
		bpf_preempt_disable();
	cpu->busy = 1;
	barrier();
}

static __always_inline void leave(struct cpu *cpu)
{
	barrier();
	cpu->busy = 0;
	if (preemptible && bpf_preempt_enable)
		bpf_preempt_enable();
}

static __always_inline bool read_event(__u32 event, struct reading *now)
{
	__u64 index = event * nr_cpus + bpf_get_smp_processor_id();
	struct bpf_perf_event_value v = {};

	if (!bpf_perf_event_read_value(&events, index, &v, sizeof(v))) {
		now->value = v.counter;
		now->enabled = v.enabled;
		now->stopped = v.enabled - v.running;
		return true;
	}
	if (!(state.partial_events >> event & 1))
		lose(LOST_READINGS);
	return false;
}

static __always_inline void add_since(struct reading *sum, const struct reading *now, const struct reading *start)
{
	sum->value += now->value - start->value;
	sum->enabled += now->enabled - start->enabled;
	sum->stopped += now->stopped - start->stopped;
}

static __always_inline void add_to_node(__u32 node, __u32 event, const struct reading *now, const struct reading *start)
{
	struct bank_key key = {.node = node, .bank = event / BANK_EVENTS};
	struct bank *b = bpf_map_lookup_elem(&sums, &key);

	if (b)
		add_since(&b->sums[event % BANK_EVENTS], now, start);
	else
		lose(LOST_SUMS);
}

enum {
	END = 1 << 0,
	BEGIN = 1 << 1,
	SWITCHES = 1 << 2, /* the event is about to count the switch, which belongs to the ending node */
	NOBODYS = 1 << 3,  /* the same, but the switch belongs to no node */
};

/*
 * turn_event reads an event, adds its growth to the ending node's sums, and begins to count for the next node. It
 * returns whether the event has begun. It is a global function, so the verifier checks it once and not for each event.
 */
__noinline int turn_event(__u32 event, __u32 what, __u32 track, __u32 ending)
{
	__u32 at = track * MAX_EVENTS + event;
	struct reading *start = bpf_map_lookup_elem(&starts, &at), now;

	if (!start || !read_event(event, &now))
		return 0;
	if (what & SWITCHES)
		now.value += 1;
	if (what & END)
		add_to_node(ending, event, &now, start);
	if (!(what & BEGIN))
		return 0;
	if (what & NOBODYS)
		now.value += 1;
	*start = now;
	return 1;
}

/* who is a node and the events that it counts. */
struct who {
	__u32 node;
	__u64 events;
};

static __always_inline struct who who_is(__u32 node)
{
	struct who who = {};
	struct node *n;

	n = bpf_map_lookup_elem(&nodes, &node);
	if (n && n->forward) {
		node = n->forward;
		n = bpf_map_lookup_elem(&nodes, &node);
	}
	if (n) {
		who.node = node;
		who.events = n->events;
	}
	return who;
}

/* The argument how of turn: the number of a track, and a flag. */
enum {
	TRACK = 1 << 0,
	SYNC = 1 << 1, /* turn even if the node stays the same */
};

/*
 * turn_track ends what a CPU counts in a track and begins to count for another node. The events in switches are about
 * to count the context switch for the ending node, those in nobodys for no node.
 */
static __always_inline void turn_track(struct cpu *cpu, __u32 which, struct who who, bool sync, __u64 switches, __u64 nobodys)
{
	struct track *track = &cpu->tracks[which];
	__u64 end = track->events, begin = who.events & ~state.followed_events;
	__u64 rest = end | begin, began = 0;
	__u32 i, ending = track->node;

	if (!sync && who.node == ending)
		return;
	for (i = 0; i < MAX_EVENTS && rest; i++, rest >>= 1) {
		__u32 what;

		if (!(rest & 1))
			continue;
		/* No branches: the verifier would follow each of them. */
		what = (end >> i & 1) * END | (begin >> i & 1) * BEGIN | (switches >> i & 1) * SWITCHES |
		       (nobodys >> i & 1) * NOBODYS;
		began |= (__u64)(__u32)turn_event(i, what, which, ending) << i;
	}
	track->node = who.node;
	track->events = began;
}

/*
 * turn is turn_track as a global function, so the verifier checks its loop once. turn_to inlines turn_track for tasks
 * instead, because the call would cost too much at each switch.
 */
__noinline int turn(struct cpu *cpu, __u32 how, __u32 node, __u64 events, __u64 switches)
{
	struct who who = {.node = node, .events = events};

	if (cpu)
		turn_track(cpu, how & TRACK, who, how & SYNC, switches, 0);
	return 0;
}

static __always_inline __u32 *filter_of(__u64 task)
{
	return &filter[task * 0x9e3779b97f4a7c15 >> (64 - FILTER_BITS)];
}

static __always_inline struct who who_task(struct task_struct *task)
{
	__u64 key = (__u64)task;
	struct who nobody = {};
	__u32 *node;

	if (!*filter_of(key))
		return nobody;
	node = bpf_map_lookup_elem(&tasks, &key);
	return node && !(*node & EXITED) ? who_is(*node) : nobody;
}

/* add_task adds a task to the filter first, then to tasks: the filter always covers all of tasks. */
static __always_inline long add_task(__u64 task, __u32 node)
{
	long err;

	__sync_fetch_and_add(filter_of(task), 1);
	err = bpf_map_update_elem(&tasks, &task, &node, BPF_NOEXIST);
	if (err)
		__sync_fetch_and_add(filter_of(task), -1);
	return err;
}

static __always_inline void remove_task(__u64 task)
{
	if (!bpf_map_delete_elem(&tasks, &task))
		__sync_fetch_and_add(filter_of(task), -1);
}

/* perf_cgroup returns the cgroup for which perf events count a task. */
static __always_inline struct cgroup *perf_cgroup(struct task_struct *task)
{
	struct css_set *set = BPF_CORE_READ(task, cgroups);
	struct cgroup_subsys_state **subsys, *css = NULL;

	if (!cgroup_v1)
		return BPF_CORE_READ(set, dfl_cgrp);
	subsys = (void *)set + bpf_core_field_offset(struct css_set, subsys);
	subsys += bpf_core_enum_value(enum cgroup_subsys_id, perf_event_cgrp_id);
	bpf_probe_read_kernel(&css, sizeof(css), subsys);
	return BPF_CORE_READ(css, cgroup);
}

/* find_group_node returns the node of a cgroup or of its nearest ancestor that has one; 0 if none has. */
__noinline __u32 find_group_node(__u64 address, __u64 id, __u32 epoch)
{
	struct cached *known = bpf_map_lookup_elem(&cgroup_cache, &id), found = {.epoch = epoch};
	struct cgroup *cgroup = (struct cgroup *)address;
	__u64 above = id;
	__u32 i, *node;

	if (known && known->epoch == epoch)
		return known->node;
	for (i = 0; i < MAX_CGROUP_DEPTH; i++) {
		struct cgroup_subsys_state *css;

		node = bpf_map_lookup_elem(&cgroups, &above);
		if (node) {
			found.node = *node;
			break;
		}
		css = BPF_CORE_READ(cgroup, self.parent);
		if (!css)
			break;
		cgroup = BPF_CORE_READ(css, cgroup);
		above = BPF_CORE_READ(cgroup, kn, id);
	}
	if (i == MAX_CGROUP_DEPTH)
		lose(LOST_CGROUPS);
	bpf_map_update_elem(&cgroup_cache, &id, &found, BPF_ANY);
	return found.node;
}

static __always_inline struct who who_group(struct cpu *cpu, struct task_struct *task)
{
	struct who nobody = {};
	__u32 epoch = state.cgroup_epoch;
	struct cgroup *cgroup;
	__u64 id;

	barrier(); /* the epoch is read before the map */
	if (!state.cgroups)
		return nobody;
	cgroup = perf_cgroup(task);
	id = BPF_CORE_READ(cgroup, kn, id);
	if (id != cpu->cgroup || epoch != cpu->cgroup_epoch) {
		cpu->cgroup_node = find_group_node((__u64)cgroup, id, epoch);
		cpu->cgroup = id;
		cpu->cgroup_epoch = epoch;
	}
	return cpu->cgroup_node ? who_is(cpu->cgroup_node) : nobody;
}

/*
 * see notes which task runs on a CPU. If the task that ran until now is not the one that the last switch led to, the
 * kernel has not shown a switch. see reports that switch as lost if the task is counted and what it did is in no sum.
 */
static __always_inline void see(struct cpu *cpu, struct task_struct *until, struct task_struct *from)
{
	bool missed = cpu->task && cpu->task != (__u64)until;
	struct who task, group;

	cpu->task = (__u64)from;
	if (!missed)
		return;
	task = who_task(until);
	group = who_group(cpu, until);
	if ((task.events && task.node != cpu->tracks[TASK].node) || (group.events && group.node != cpu->tracks[GROUP].node))
		lose(LOST_SWITCHES);
}

/*
 * turn_to makes a CPU count for the next task. The kernel counts the switch itself (context-switches, cgroup-switches)
 * only after this tracepoint, still for the outgoing task.
 */
static __noinline int turn_to(struct cpu *cpu, struct task_struct *prev, struct task_struct *next)
{
	__u64 switches = state.switch_events, nobodys = 0;
	struct who who;

	if (state.cgroup_switch_events && perf_cgroup(prev) != perf_cgroup(next))
		switches |= state.cgroup_switch_events;
	if (state.cgroups || cpu->tracks[GROUP].node) {
		who = who_group(cpu, next);
		turn(cpu, GROUP, who.node, who.events, switches);
	}
	/*
	 * On some kernels, on_exit comes after exit_mm, and the task's perf events are removed before on_exit. A switch
	 * in between belongs to nobody; the next task still begins after it.
	 */
	if (switches && BPF_CORE_READ(prev, flags) & PF_EXITING && !BPF_CORE_READ(prev, mm)) {
		nobodys = switches;
		switches = 0;
	}
	turn_track(cpu, TASK, who_task(next), false, switches, nobodys);
	return 0;
}

SEC("raw_tp/sched_switch")
int on_switch(__u64 *args)
{
	__u64 prev = args[1], next = args[2];
	__u32 zero = 0;
	struct cpu *cpu = bpf_map_lookup_elem(&cpus, &zero);

	if (!cpu)
		return 0;
	see(cpu, (struct task_struct *)prev, (struct task_struct *)next);
	if (!state.cgroups && !*filter_of(prev) && !*filter_of(next))
		return 0;
	return turn_to(cpu, (struct task_struct *)prev, (struct task_struct *)next);
}

/* diff_readings of an upstream leader (leader.bpf.c): how much its counter has grown on this CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct bpf_perf_event_value);
} leader_diff SEC(".maps");

const volatile __u32 followed_event;

static __always_inline void add_growth(struct who who, const struct reading *growth)
{
	const struct reading zero = {};

	if (who.events >> followed_event & 1)
		add_to_node(who.node, followed_event, growth, &zero);
}

/*
 * on_leader runs after each run of an upstream leader: at a switch, for the outgoing task, and when a session enables or
 * reads.
 */
SEC("fexit/on_switch")
int on_leader(void *ctx)
{
	__u64 task = bpf_get_current_task();
	__u32 zero = 0;
	struct bpf_perf_event_value *v;
	struct reading growth;
	struct cpu *cpu;
	__u32 *node;

	if (!state.cgroups && !*filter_of(task))
		return 0;
	cpu = bpf_map_lookup_elem(&cpus, &zero);
	v = bpf_map_lookup_elem(&leader_diff, &zero);
	node = bpf_map_lookup_elem(&tasks, &task);
	if (!cpu || !v)
		return 0;
	growth.value = v->counter;
	growth.enabled = v->enabled;
	growth.stopped = v->enabled - v->running;
	if (node) /* even if it has exited: the leader did not run at that point */
		add_growth(who_is(*node & ~EXITED), &growth);
	add_growth(who_group(cpu, (struct task_struct *)task), &growth);
	return 0;
}

/* on_exit ends what is counted for a task. The kernel removes its perf events right after this (Linux 6.16). */
SEC("raw_tp/sched_process_exit")
int on_exit(void *ctx)
{
	__u64 task = bpf_get_current_task();
	__u32 zero = 0, *node;
	struct cpu *cpu;

	if (!*filter_of(task))
		return 0;
	node = bpf_map_lookup_elem(&tasks, &task);
	cpu = bpf_map_lookup_elem(&cpus, &zero);
	if (!node || !cpu)
		return 0;
	enter(cpu);
	see(cpu, (struct task_struct *)task, (struct task_struct *)task);
	*node |= EXITED;
	turn(cpu, TASK | SYNC, 0, 0, 0);
	leave(cpu);
	return 0;
}

/* The current task has moved itself or another task. on_switch finds the other task in its new cgroup later. */
SEC("raw_tp/cgroup_attach_task")
int on_attach(void *ctx)
{
	__u32 zero = 0;
	struct cpu *cpu = bpf_map_lookup_elem(&cpus, &zero);
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct who who;

	if (!cpu || !(state.cgroups || cpu->tracks[GROUP].node)) /* no enter: interrupts are off */
		return 0;
	see(cpu, task, task);
	who = who_group(cpu, task);
	return turn(cpu, GROUP, who.node, who.events, 0);
}

SEC("raw_tp/task_newtask")
int BPF_PROG(on_newtask, struct task_struct *child)
{
	__u64 parent = bpf_get_current_task(), key = (__u64)child;
	__u32 *node;
	struct node *n;
	struct who who;

	if (*filter_of(key)) /* left over from a task at the same address */
		remove_task(key);
	if (!*filter_of(parent))
		return 0;
	node = bpf_map_lookup_elem(&tasks, &parent);
	if (!node)
		return 0;
	who = who_is(*node);
	n = bpf_map_lookup_elem(&nodes, &who.node);
	if (!n || !n->heir)
		return 0;
	if (add_task(key, n->heir))
		lose(LOST_TASKS);
	return 0;
}

SEC("raw_tp/sched_process_free")
int BPF_PROG(on_free, struct task_struct *task)
{
	__u64 key = (__u64)task;

	if (*filter_of(key))
		remove_task(key);
	return 0;
}

/* The kernel renames a task that calls exec, right after it has enabled the perf events with enable_on_exec. */
SEC("raw_tp/task_rename")
int BPF_PROG(on_rename, struct task_struct *task)
{
	__u64 key = (__u64)task;
	__u32 zero = 0, *node;
	struct cpu *cpu = bpf_map_lookup_elem(&cpus, &zero);
	struct node *n;
	struct who to;

	if (!*filter_of(key) || !cpu || key != bpf_get_current_task())
		return 0;
	node = bpf_map_lookup_elem(&tasks, &key);
	if (!node)
		return 0;
	n = bpf_map_lookup_elem(&nodes, node);
	if (!n || !n->on_exec)
		return 0;
	to = who_is(n->on_exec);
	enter(cpu);
	see(cpu, task, task);
	*node = to.node;
	turn(cpu, TASK | SYNC, to.node, to.events, 0); /* other sessions may count the task already */
	leave(cpu);
	return 0;
}

/*
 * sync brings what the user side wants to read up to date. args[0] selects what, args[1] has the events of the whole
 * CPU. With SYNC_FORGET it forgets where these began to count, because other perf events will replace them.
 *
 * BPF_PROG_TEST_RUN runs sync on a CPU from an interrupt or, on the caller's CPU, with preemption disabled. If the
 * interrupt of another session comes while sync runs, that session gets AGAIN.
 */
enum {
	SYNC_TRACKS = 1,
	SYNC_SYSTEM = 2,
	SYNC_FORGET = 4,
	AGAIN = 1,
};

__noinline int sync_event(__u32 event, bool forget)
{
	struct system *s = bpf_map_lookup_elem(&systems, &event);
	struct reading now;

	if (s && forget)
		__builtin_memset(&s->last, 0, sizeof(s->last));
	if (!s || forget || !read_event(event, &now))
		return 0;
	add_since(&s->sum, &now, &s->last);
	s->last = now;
	return 0;
}

__noinline int sync_system(__u64 events, bool forget)
{
	__u32 i;

	for (i = 0; i < MAX_EVENTS && events; i++, events >>= 1) {
		if (events & 1)
			sync_event(i, forget);
	}
	return 0;
}

/*
 * on_hotplug reads the events of its CPU before each step that takes the CPU down, because one of the steps removes the
 * perf events.
 */
SEC("raw_tp/cpuhp_enter")
int on_hotplug(__u64 *args)
{
	__u32 zero = 0;
	struct cpu *cpu = bpf_map_lookup_elem(&cpus, &zero);

	if (!cpu || (__u32)args[0] != bpf_get_smp_processor_id())
		return 0;
	cpu->busy = 1;
	barrier();
	sync_system(state.events & ~state.followed_events, false);
	barrier();
	cpu->busy = 0;
	return 0;
}

SEC("raw_tp")
int sync(__u64 *args)
{
	__u32 zero = 0;
	struct cpu *cpu = bpf_map_lookup_elem(&cpus, &zero);
	__u64 what = args[0];
	struct task_struct *task;
	struct who who;

	if (!cpu)
		return 0;
	if (cpu->busy)
		return AGAIN;
	cpu->busy = 1;
	barrier();
	if (what & SYNC_TRACKS) {
		task = (struct task_struct *)bpf_get_current_task();
		see(cpu, task, task);
		who = who_task(task);
		turn(cpu, TASK | SYNC, who.node, who.events, 0);
		who = who_group(cpu, task);
		turn(cpu, GROUP | SYNC, who.node, who.events, 0);
	}
	if (what & (SYNC_SYSTEM | SYNC_FORGET))
		sync_system(args[1], what & SYNC_FORGET);
	barrier();
	cpu->busy = 0;
	return 0;
}

/*
 * move_task puts a task (args[0], its address) into a node (args[1]; 0 for none). If args[2] is set, it does so only if
 * tasks still has the task in node args[3]: others have called exec or ended since. It returns 1 if there was no room.
 */
SEC("raw_tp")
int move_task(__u64 *args)
{
	__u64 task = args[0];
	__u32 to = args[1], from = args[3], *node;

	if (args[2]) {
		node = bpf_map_lookup_elem(&tasks, &task);
		if (node && !to && *node == from)
			remove_task(task);
		else if (node && to)
			__sync_val_compare_and_swap(node, from, to);
		return 0;
	}
	if (!to) {
		remove_task(task);
		return 0;
	}
	return add_task(task, to) && bpf_map_update_elem(&tasks, &task, &to, BPF_EXIST);
}

struct found {
	__u64 task;
	__u32 tid; /* thread ID in the reader's PID namespace */
	__u32 exits;
};

const struct found *unused __attribute__((unused)); /* keeps the type in BTF, for the user side */

SEC("iter/task")
int find(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct found found = {};
	__u64 pid = 0, number;
	__u32 level;

	if (!task)
		return 0;
	level = BPF_CORE_READ((struct task_struct *)bpf_get_current_task(), thread_pid, level);
	bpf_probe_read_kernel(&pid, sizeof(pid), &task->thread_pid);
	if (!pid) /* the task is being released */
		return 0;
	number = pid + bpf_core_field_offset(struct pid, numbers) + level * bpf_core_type_size(struct upid) +
		 bpf_core_field_offset(struct upid, nr);
	bpf_probe_read_kernel(&found.tid, sizeof(found.tid), (void *)number);
	found.task = (__u64)task;
	found.exits = !!(task->flags & PF_EXITING);
	bpf_seq_write(ctx->meta->seq, &found, sizeof(found));
	return 0;
}
