/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Batch work below another scheduler of sched_ext (Linux 7.3 and later). That one, the root, decides when a CPU may
 * ask here for a task: scx_bpf_sub_dispatch. What is decided here is whether batch work may have it, within its
 * budget and not beside online-strict work. One such sub-scheduler is attached to each cgroup of batch work; the maps
 * are common to all of them, but for sub_cpus, the arena and the pulse.
 *
 * Everything goes through dispatch, as with share.bpf.c. The root may give the right to use some CPUs only
 * (sub_ecaps_updated), and take it back.
 */
#include "kernel.h"
#include "share.h"
#include "tiers.h"

char LICENSE[] SEC("license") = "GPL";

/* The kernel takes this form of scheduler with one arena only, in which it keeps what it shows to the programs. */
struct { UINT(type, BPF_MAP_TYPE_ARENA); UINT(map_flags, 1 << 10 /* BPF_F_MMAPABLE */); UINT(max_entries, 1024); } arena SEC(".maps");

struct pulse { struct bpf_timer timer; u64 begun; };
ARRAY(pulses, struct pulse, 1);
struct sub_cpu {
	u64 since;    /* ns: when the task of this sub-scheduler that runs there began; 0: none runs */
	u64 roused;   /* ns: when it was last woken to look for work since it became idle; 0: not at all */
	u32 node;     /* index + 1 of the node that counts it */
	u32 idle;     /* as the kernel told last; it says nothing where an idle CPU looked and stays idle */
	u32 usable;   /* the root lets tasks of this cgroup run there */
	u32 guard;    /* what runs, or is next, runs because it had waited too long */
};
ARRAY(sub_cpus, struct sub_cpu, MAX_CPUS);

/* How the sub-schedulers of cgroups ended for reasons of their own, by the cgroup's ID; the others go on. */
struct { UINT(type, BPF_MAP_TYPE_HASH); UINT(max_entries, 128); TYPE(key, u64); TYPE(value, struct ending); } ended SEC(".maps");

const volatile u64 own_cgroup; /* its ID */

#define MS 1000000ULL
#define ALLOWED NR_COUNTS /* no reason to refuse */
#define MAY_RUN 7 /* any of SCX_CAP_ENQ_IMMED, SCX_CAP_ENQ and SCX_CAP_PREEMPT (kernel/sched/ext/internal.h) */
#define CGROUP_GONE (2ULL << 32) /* SCX_ECODE_RSN_CGROUP_OFFLINE */
#define UNLOADED 64 /* SCX_EXIT_UNREG */
#define KILLED 69 /* SCX_EXIT_SUB_KILL, and what follows is errors of its own */
#define SCX_ENQ_IMMED (1ULL << 33)

/* take moves a task to the CPU that asks. The least right that a root gives is for tasks that run at once. */
INLINE bool take(u64 queue) { return scx_bpf_dsq_move_to_local___v2(queue, SCX_ENQ_IMMED); }

/* strict is whether a CPU runs online-strict work. */
APART int strict(u32 cpu)
{
	struct settings *set = at(&settings, 0);
	s32 pid = pid_on(cpu);
	struct cgroup_tier t = {};
	struct task_struct *p;

	if (!set || pid <= 0)
		return 0;
	p = bpf_task_from_pid(pid);
	if (!p)
		return 0;
	tier_of(p, set->generation, &t);
	bpf_task_release(p);
	return t.tier == TIER_STRICT;
}

/* refused says why a CPU may not run batch work now, apart from what runs there: a REFUSED_ count, or ALLOWED. */
APART u32 refused(u32 cpu)
{
	struct place *place = at(&places, cpu);
	struct cpu_now *c = at(&cpus_now, cpu);
	struct node_now *there;
	struct node *node;
	u64 budget;
	s64 others;

	if (!place || !c || !place->known)
		return ALLOWED; /* nobody would come for what waits here */
	for (int i = 0; i < MAX_SIBLINGS && i < place->nr_siblings; i++)
		if (strict(place->siblings[i]))
			return REFUSED_EXPELLED;
	node = at(&nodes, place->node);
	there = at(&nodes_now, place->node);
	if (!node || !there || node->budget < 0)
		return ALLOWED;
	others = there->batch - (c->since != 0); /* of whichever cgroup: the other scheduler chooses among them */
	budget = node->budget;
	/* What is left of a whole CPU is a part of each tenth of a second of one more. */
	if (others >= (s64)(budget / 1000 + ((bpf_ktime_get_ns() / 1000) % 100000 < budget % 1000 * 100)))
		return REFUSED_BUDGET;
	return ALLOWED;
}

/* may_wake is whether there is a use in waking a CPU: it may run batch work, or its turn of the guard has come. */
INLINE int may_wake(u32 cpu, int for_guard, u64 now)
{
	struct place *place = at(&places, cpu);
	struct llc_now *l = place ? at(&llcs_now, place->llc) : NULL;

	return for_guard ? l && now >= l->guard_next : refused(cpu) == ALLOWED;
}

/*
 * wake has an idle CPU of a node look for work: of those that there is a use in waking the one that was not woken for
 * longest, because what waits may be allowed on some CPUs only. The kernel does not tell when it found nothing.
 */
APART int wake(u32 index, int for_guard)
{
	struct node *node = at(&nodes, index);
	u64 now = bpf_ktime_get_ns(), oldest = now;
	struct bpf_iter_num it;
	struct sub_cpu *c;
	int *i, best = -1;

	if (!node)
		return 0;
	bpf_iter_num_new(&it, 0, node->count & 0xffff);
	while ((i = bpf_iter_num_next(&it))) {
		struct place *listed = at(&places, node->first + *i);

		if (!listed)
			break;
		c = at(&sub_cpus, listed->order);
		if (!c || !c->idle || !c->usable || c->roused >= oldest || !may_wake(listed->order, for_guard, now))
			continue;
		best = listed->order;
		oldest = c->roused;
		if (!oldest)
			break;
	}
	bpf_iter_num_destroy(&it);
	if (best < 0 || !(c = at(&sub_cpus, best)))
		return 0;
	c->roused = now;
	scx_bpf_kick_cid(scx_bpf_cpu_to_cid(best), SCX_KICK_IDLE);
	count(KICK_IDLE);
	return 1;
}

/* wake_beside has an idle CPU of another node look for work: see elsewhere. */
APART int wake_beside(u32 index)
{
	struct settings *set = at(&settings, 0);
	struct bpf_iter_num it;
	int *i, found = 0;

	if (!set)
		return 0;
	bpf_iter_num_new(&it, 0, set->nr_nodes & 0xff);
	while (!found && (i = bpf_iter_num_next(&it)))
		found = *i != index && wake(*i, 0);
	bpf_iter_num_destroy(&it);
	return found;
}

/* queue_of is the queue of a CPU: that of its node. */
INLINE u32 queue_of(u32 cpu)
{
	struct place *place = at(&places, cpu);

	return place && place->known ? place->node & (MAX_NODES - 1) : 0;
}

SEC("struct_ops/sub_select")
int sub_select(u64 *ctx)
{
	return (s32)ctx[1]; /* where it was; dispatch finds who runs it */
}

SEC("struct_ops/sub_enqueue")
int sub_enqueue(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct settings *set = at(&settings, 0);
	u32 queue = queue_of(scx_bpf_cid_to_cpu(scx_bpf_task_cid(p)));

	if (!set)
		return 0;
	if (!p->scx.dsq_vtime)
		set_since(p, bpf_ktime_get_ns());
	insert(p, queue, set->slice, ctx[1]);
	count(ENQUEUED);
	wake(queue, 0);
	return 0;
}

/* overdue is how long the first of a queue has waited beyond what it is to wait at most, in ns. */
APART u64 overdue(u64 queue, u64 now)
{
	struct settings *set = at(&settings, 0);
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	u64 since = 0;

	bpf_iter_scx_dsq_new(&it, queue, 0);
	p = bpf_iter_scx_dsq_next(&it);
	if (p)
		since = p->scx.dsq_vtime;
	bpf_iter_scx_dsq_destroy(&it);
	return set && set->guard && since && now > since + set->guard ? now - since - set->guard : 0;
}

/*
 * guard lets the one who has waited too long run, whatever speaks against it: for a fiftieth of a CPU of each
 * last-level cache. Else the kernel's watchdog would end the sub-scheduler.
 */
APART int guard(u32 cpu, u64 queue)
{
	struct place *place = at(&places, cpu);
	struct sub_cpu *c = at(&sub_cpus, cpu);
	struct llc_now *l = place ? at(&llcs_now, place->llc) : NULL;
	u64 now = bpf_ktime_get_ns();

	if (!c || !l || now < l->guard_next || !overdue(queue, now) || !take(queue))
		return 0;
	l->guard_next = now + 50 * MS;
	c->guard = 1;
	count(GUARD_SLICES);
	return 1;
}

/* elsewhere takes from the queue of another node; the kernel moves no task to a CPU that it may not run on. */
APART int elsewhere(u32 queue)
{
	struct settings *set = at(&settings, 0);
	struct bpf_iter_num it;
	int *i, found = 0;

	if (!set)
		return 0;
	bpf_iter_num_new(&it, 0, set->nr_nodes & 0xff);
	while (!found && (i = bpf_iter_num_next(&it)))
		found = *i != queue && scx_bpf_dsq_nr_queued(*i) > 0 && take(*i);
	bpf_iter_num_destroy(&it);
	return found;
}

SEC("struct_ops/sub_dispatch")
int sub_dispatch(u64 *ctx)
{
	u32 cpu = scx_bpf_cid_to_cpu((s32)ctx[0]), why, queue = queue_of(cpu);
	struct task_struct *prev = (void *)ctx[1];
	struct settings *set = at(&settings, 0);
	struct sub_cpu *c = at(&sub_cpus, cpu);
	int goes_on = prev && prev->scx.flags & SCX_TASK_QUEUED;

	asm volatile("" :: "r"(&arena));
	if (!set || !c || !c->usable)
		return 0;
	why = refused(cpu);
	if (why != ALLOWED) {
		if (goes_on || scx_bpf_dsq_nr_queued(queue) > 0) {
			count(why);
			guard(cpu, queue);
		}
		return 0;
	}
	if (take(queue))
		return 0;
	if (goes_on) {
		set_slice(prev, set->slice);
		count(KEPT);
		return 0;
	}
	if (elsewhere(queue))
		count(STOLEN_REMOTE);
	return 0;
}

/* A task runs on a CPU until it stops there; both are told of where it is. */
SEC("struct_ops/sub_running")
int sub_running(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	u32 cpu = scx_bpf_cid_to_cpu(scx_bpf_task_cid(p));
	struct place *place = at(&places, cpu);
	struct sub_cpu *c = at(&sub_cpus, cpu);
	struct cpu_now *any = at(&cpus_now, cpu);
	struct node_now *node = place && place->known ? at(&nodes_now, place->node) : NULL;

	set_since(p, 0);
	if (!c || !any || c->since)
		return 0;
	c->since = bpf_ktime_get_ns();
	any->since = c->since;
	c->node = node ? place->node + 1 : 0;
	if (node)
		__sync_fetch_and_add(&node->batch, 1);
	count(STARTS);
	return 0;
}

/* stopped: on a CPU no task of this sub-scheduler runs any more. It returns whether one did. */
APART int stopped(u32 cpu)
{
	struct sub_cpu *c = at(&sub_cpus, cpu);
	struct cpu_now *any = at(&cpus_now, cpu);
	struct node_now *node;

	if (!c || !any || !c->since)
		return 0;
	node = c->node ? at(&nodes_now, c->node - 1) : NULL;
	if (node) {
		__sync_fetch_and_add(&node->batch, -1);
		__sync_fetch_and_add(&node->used, bpf_ktime_get_ns() - c->since);
	}
	if (any->since == c->since) /* no task of another cgroup has come meanwhile */
		any->since = 0;
	c->since = 0;
	c->guard = 0;
	return 1;
}

SEC("struct_ops/sub_stopping")
int sub_stopping(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	if (!stopped(scx_bpf_cid_to_cpu(scx_bpf_task_cid(p))))
		return 0;
	/* With a rest of its slice it would wait on this CPU alone, and start again without being asked for. */
	if (ctx[1] & 1 && p->scx.slice)
		set_slice(p, 0);
	return 0;
}

/* What a CPU may run is asked for again at each tick: online-strict work began beside it, or the budget fell. */
SEC("struct_ops/sub_tick")
int sub_tick(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	u32 cpu = scx_bpf_cid_to_cpu(scx_bpf_task_cid(p));
	struct sub_cpu *c = at(&sub_cpus, cpu);
	u32 why;

	if (!c || c->guard)
		return 0;
	why = refused(cpu);
	if (why != ALLOWED) {
		set_slice(p, 0);
		if (why == REFUSED_EXPELLED)
			count(KICK_EXPEL);
	}
	return 0;
}

SEC("struct_ops/sub_idle")
int sub_idle(u64 *ctx)
{
	struct sub_cpu *c = at(&sub_cpus, scx_bpf_cid_to_cpu((s32)ctx[0]));

	if (!c)
		return 0;
	c->idle = ctx[1] & 1;
	c->roused = 0;
	return 0;
}

SEC("struct_ops/sub_rights")
int sub_rights(u64 *ctx)
{
	struct sub_cpu *c = at(&sub_cpus, scx_bpf_cid_to_cpu((s32)ctx[0]));

	if (c)
		c->usable = (ctx[2] & MAY_RUN) != 0;
	return 0;
}

/*
 * ---- the pulse: who waits because of a budget is woken when there is more of it, and who waited too long in any
 * case: an idle CPU that may run no batch work asks for none, so the guard would not come ----
 */

static int beat(void *map, u32 *key, struct pulse *t)
{
	struct settings *set = at(&settings, 0);
	struct bpf_iter_num it;
	u32 busy = 0;
	int *i;

	if (!set)
		return 0;
	count(PULSES);
	bpf_iter_num_new(&it, 0, set->nr_nodes & 0xff);
	while ((i = bpf_iter_num_next(&it)))
		if (scx_bpf_dsq_nr_queued(*i) > 0) {
			busy = 1;
			if (!wake(*i, 0))
				wake_beside(*i);
			if (overdue(*i, bpf_ktime_get_ns()))
				wake(*i, 1);
		}
	bpf_iter_num_destroy(&it);
	bpf_timer_start(&t->timer, busy ? 2 * MS : 20 * MS, 0);
	return 0;
}

SEC("struct_ops.s/sub_init")
int sub_init(u64 *ctx)
{
	struct bpf_iter_num it;
	int *i, err = 0;

	bpf_iter_num_new(&it, 0, MAX_NODES);
	while ((i = bpf_iter_num_next(&it)))
		if ((err = scx_bpf_create_dsq(*i, -1)))
			break;
	bpf_iter_num_destroy(&it);
	return err;
}

SEC("struct_ops/sub_init_task")
int sub_init_task(u64 *ctx)
{
	struct pulse *t = at(&pulses, 0);
	int err;

	if (!t || t->begun || __sync_lock_test_and_set(&t->begun, 1))
		return 0;
	err = bpf_timer_init(&t->timer, &pulses, 1 /* CLOCK_MONOTONIC */);
	if (!err)
		err = bpf_timer_set_callback(&t->timer, beat);
	if (!err)
		err = bpf_timer_start(&t->timer, 0, 0);
	return err;
}

SEC("struct_ops/sub_exit")
int sub_exit(u64 *ctx)
{
	struct scx_exit_info *info = (void *)ctx[0];
	struct ending e = { .kind = info->kind, .code = info->exit_code };
	u64 own = own_cgroup;
	struct bpf_iter_num it;
	u32 all = 0;
	int *i;

	/* None of its tasks runs any more; a count that was left would make the budget of the others smaller. */
	bpf_iter_num_new(&it, 0, MAX_CPUS);
	while ((i = bpf_iter_num_next(&it)))
		stopped(*i);
	bpf_iter_num_destroy(&it);
	if (info->kind == UNLOADED || info->exit_code & CGROUP_GONE)
		return 0;
	bpf_probe_read_kernel_str(e.reason, sizeof e.reason, info->reason);
	bpf_probe_read_kernel_str(e.message, sizeof e.message, info->msg);
	if (info->kind >= KILLED)
		bpf_map_update_elem(&ended, &own, &e, 0);
	else
		bpf_map_update_elem(&endings, &all, &e, 0);
	return 0;
}

/* kernel/sched/ext/ext.c reads these members by name. */
struct sched_ext_ops_cid {
	void *select_cid;
	void *enqueue;
	void *dispatch;
	void *tick;
	void *running;
	void *stopping;
	void *update_idle;
	void *init_task;
	void *sub_ecaps_updated;
	void *init;
	void *exit;
	u64 flags;
	u32 timeout_ms;
	u64 sub_cgroup_id;
	char name[128];
};

SEC(".struct_ops.link")
struct sched_ext_ops_cid share = {
	.select_cid = sub_select,
	.enqueue = sub_enqueue,
	.dispatch = sub_dispatch,
	.tick = sub_tick,
	.running = sub_running,
	.stopping = sub_stopping,
	.update_idle = sub_idle,
	.init_task = sub_init_task,
	.sub_ecaps_updated = sub_rights,
	.init = sub_init,
	.exit = sub_exit,
	.flags = SCX_OPS_ENQ_LAST,
	.timeout_ms = 30000,
	.name = "homenode",
};
