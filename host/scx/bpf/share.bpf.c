/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Batch work beside online work. Only batch tasks are SCHED_EXT: online work stays in
 * the fair class, which goes first by itself. What is decided here is whether a CPU that
 * has nothing else to do may run a batch task, and which.
 *
 * Everything goes through dispatch: no task is put on a CPU's local queue before the CPU
 * asks, so that nothing starts unasked for. What runs on each CPU is known from the
 * tracepoint of the scheduler's switch.
 */
#include "kernel.h"
#include "share.h"
#include "tiers.h"

char LICENSE[] SEC("license") = "GPL";

struct pulse { struct bpf_timer timer; u64 generation, begun; };
ARRAY(pulses, struct pulse, 1);
/* Of a CPU that runs batch work. */
struct turn {
	u64 ends;  /* ns: when the slice ends that it gave to the first of a queue */
	u32 takes; /* index + 1 of an LLC: cpu is to take a thread of its queue off an idle CPU before that; 0: none */
	u32 took;  /* threads that it took so since the slice began */
};
ARRAY(turns, struct turn, MAX_CPUS);

#define OVERDUE 1
#define VERY_OVERDUE 2
#define OWN_QUEUE 0x100000 /* + CPU; an LLC's queue has its index */
#define FREE_QUEUE 0x200000 /* SCHED_EXT, but not batch work: every CPU serves it before all others */
#define MS 1000000ULL
#define MOST_TAKEN 8 /* off idle CPUs in one slice: each costs two switches */
#define SEARCHED 64 /* threads of a queue */
#define COMING (MS / 20) /* the kernel has queued a task so long after share_enqueue at the latest */
#define ALLOWED NR_COUNTS /* no reason to refuse */

INLINE u32 what(u64 word) { return word & 7; }

/* counted is which node counts what the CPU runs: its index + 1; 0: none. */
INLINE u32 counted(u64 word) { return word >> 3 & 127; }

/* differ is whether two words say more than that the CPU has switched. */
INLINE int differ(u64 a, u64 b) { return (a ^ b) & 1023; }

/* The count of switches keeps resync from a word that only looks as before. */
INLINE u64 word_after(u64 before, struct cpu_now *c, struct place *place, u32 runs)
{
	u64 node = c->online && place->known ? place->node + 1 : 0;

	return ((before >> 10) + 1) << 10 | (node & 127) << 3 | runs;
}

/* ---- what runs on each CPU ---- */

INLINE u32 what_is(struct cpu_now *c, struct task_struct *p, u32 tier)
{
	if (p->policy != SCHED_EXT)
		return tier == TIER_STRICT ? RUNS_STRICT : RUNS_OTHER;
	if (tier != TIER_BATCH)
		return RUNS_OTHER;
	return c->guard ? RUNS_GUARD : RUNS_BATCH;
}

APART int overlap_ends(u32 cpu, u64 now)
{
	struct cpu_now *c = at(&cpus_now, cpu);
	u64 since = c ? __sync_lock_test_and_set(&c->overlap_since, 0) : 0, took;
	u32 bucket = 0;

	if (!since || now < since)
		return 0;
	took = now - since;
	for (int bit = 16; bit; bit >>= 1)
		if (took >> bit) {
			took >>= bit;
			bucket += bit;
		}
	add(&overlaps, bucket < BUCKETS ? bucket : BUCKETS - 1);
	return 0;
}

INLINE int is_batch(u32 w) { return w == RUNS_BATCH || w == RUNS_GUARD; }

/* tally adds n to what the node that counts a CPU has of CPUs that run the same. */
APART int tally(u64 word, s64 n)
{
	struct node_now *node = counted(word) ? at(&nodes_now, counted(word) - 1) : NULL;

	if (node && what(word) == RUNS_IDLE)
		__sync_fetch_and_add(&node->idle, n);
	if (node && is_batch(what(word)))
		__sync_fetch_and_add(&node->batch, n);
	return 0;
}

/*
 * rouse has an idle CPU look for work, and returns whether it was not about to. One that was is kicked all the
 * same: it may look before the kernel has queued the task that it is kicked for, and the kernel sends the kick
 * (scx_bpf_kick_cpu, by irq_work) once that has happened. A second kick is not free: it costs the waker an irq_work
 * and the lock of the CPU's run queue, and may have the CPU look in vain. A lost wake-up would cost up to a pulse.
 */
INLINE int rouse(u32 cpu, struct cpu_now *c)
{
	u32 before = __sync_lock_test_and_set(&c->roused, 1);

	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	if (before)
		return 0;
	count(KICK_IDLE);
	return 1;
}

/* expel: cpu, which ran old, runs new now: what that means for the rest of its core. */
APART int expel(u32 cpu, u32 old, u32 new, u64 hold)
{
	struct place *place = at(&places, cpu);
	struct cpu_now *c = at(&cpus_now, cpu), *s;
	u64 now = bpf_ktime_get_ns();

	if (!place || !c)
		return 0;
	if (is_batch(old))
		overlap_ends(cpu, now);
	if (new == RUNS_STRICT)
		count(STRICT_STARTS);
	if (old == RUNS_STRICT)
		count(STRICT_STOPS);
	if (is_batch(new))
		count(STARTS);
	for (int i = 0; i < MAX_SIBLINGS && i < place->nr_siblings; i++) {
		u32 sibling = place->siblings[i], w;

		s = at(&cpus_now, sibling);
		if (!s)
			continue;
		w = what(s->word);
		if (new == RUNS_STRICT && w == RUNS_BATCH) {
			s->overlap_since = now;
			scx_bpf_kick_cpu(sibling, SCX_KICK_PREEMPT);
			count(KICK_EXPEL);
		} else if (new == RUNS_STRICT && w == RUNS_GUARD) {
			count(GUARD_BESIDE);
		} else if (old == RUNS_STRICT && is_batch(w)) {
			overlap_ends(sibling, now);
		} else if (old == RUNS_STRICT && !hold && w == RUNS_IDLE) {
			rouse(sibling, s);
		}
		if (new == RUNS_BATCH && w == RUNS_STRICT) {
			c->overlap_since = now;
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
			count(KICK_LATE);
		}
	}
	return 0;
}

/* changed: of cpu to is true now and from was before; c->word says so already, by an exchange, which is a full barrier. */
APART int changed(u32 cpu, u64 from, u64 to, u64 hold)
{
	tally(from, -1);
	tally(to, 1);
	return what(from) == what(to) ? 0 : expel(cpu, what(from), what(to), hold);
}

APART int wake(u32 llc, u64 allowed_nodes);
APART u32 refused(u32 cpu);
APART int wake_for_free(u32 many);

/*
 * pass_on has another CPU look for what waits, when cpu does not: a batch task left it, or it was roused and
 * something came that is not batch work. Who was queued meanwhile saw that it was roused, and woke nobody else.
 */
APART int pass_on(u32 cpu)
{
	struct place *place = at(&places, cpu);

	if (!place || !place->known)
		return 0;
	if (scx_bpf_dsq_nr_queued(FREE_QUEUE) > 0)
		wake_for_free(1);
	if (scx_bpf_dsq_nr_queued(place->llc) > 0)
		wake(place->llc, 0);
	return 0;
}

/* any_waits is whether a task waits in the queue of an LLC. */
INLINE int any_waits(struct settings *set)
{
	struct bpf_iter_num it;
	int *i, found = 0;

	bpf_iter_num_new(&it, 0, set->nr_llcs & 0xffff);
	while (!found && (i = bpf_iter_num_next(&it)))
		found = scx_bpf_dsq_nr_queued(*i) > 0;
	bpf_iter_num_destroy(&it);
	return found;
}

/* comes says that p is about to be queued: the kernel puts it there after share_enqueue has looked for a CPU. */
INLINE void comes(u32 cpu)
{
	struct place *place = at(&places, cpu);
	struct node_now *node = place ? at(&nodes_now, place->node) : NULL;

	if (node)
		node->coming = bpf_ktime_get_ns();
}

/* any_comes is whether a task may be on its way into a queue. */
APART int any_comes(u64 now)
{
	struct settings *set = at(&settings, 0);
	struct bpf_iter_num it;
	struct node_now *node;
	int *i, found = 0;

	if (!set)
		return 0;
	bpf_iter_num_new(&it, 0, set->nr_nodes & 0xff);
	while (!found && (i = bpf_iter_num_next(&it))) {
		node = at(&nodes_now, *i);
		found = node && now < node->coming + COMING;
	}
	bpf_iter_num_destroy(&it);
	return found;
}

/* look_again: what was queued after cpu had looked, and before it was known to be idle, woke nobody. */
APART int look_again(u32 cpu)
{
	struct place *place = at(&places, cpu);
	struct cpu_now *c = at(&cpus_now, cpu);
	struct settings *set = at(&settings, 0);

	if (!place || !c || !set)
		return 0;
	if (scx_bpf_dsq_nr_queued(FREE_QUEUE) > 0 || any_comes(bpf_ktime_get_ns()) ||
	    (scx_bpf_dsq_nr_queued(OWN_QUEUE + cpu) > 0 || place->known && any_waits(set)) && refused(cpu) == ALLOWED)
		rouse(cpu, c);
	return 0;
}

SEC("tp_btf/sched_switch")
int switched(u64 *ctx)
{
	struct task_struct *next = (void *)ctx[2];
	u32 cpu = bpf_get_smp_processor_id(), new = RUNS_IDLE;
	struct settings *set = at(&settings, 0);
	struct place *place = at(&places, cpu);
	struct cpu_now *c = at(&cpus_now, cpu);
	u64 word, now;
	u32 roused;

	if (!set || !place || !c)
		return 0;
	if (next->pid != PID_IDLE) {
		struct cgroup *g = next->cgroups->dfl_cgrp;
		u64 id = g->kn->id;

		/* Most switches are among few cgroups; no other context of this CPU uses these three. */
		if (c->last_cgroup != id || c->last_generation != set->generation) {
			struct cgroup_tier t;

			tier_of(next, set->generation, &t);
			c->last_cgroup = id;
			c->last_generation = set->generation;
			c->last_tier = t.tier;
		}
		new = what_is(c, next, c->last_tier);
	}
	word = c->word;
	if (what(word) == RUNS_STRICT && new != RUNS_STRICT)
		c->strict_until = bpf_ktime_get_ns() + set->hold;
	roused = c->roused;
	c->roused = 0;
	now = word_after(word, c, place, new);
	word = __sync_lock_test_and_set(&c->word, now);
	if (!differ(word, now))
		return 0;
	changed(cpu, word, now, set->hold);
	if (new == RUNS_IDLE)
		look_again(cpu);
	if (!is_batch(new) && (roused || is_batch(what(word))))
		pass_on(cpu);
	return 0;
}

/* resync looks at what runs on a CPU that has not switched since the tiers changed, or since the scheduler was loaded. */
APART int resync(u32 cpu, u64 generation, u64 hold)
{
	struct place *place = at(&places, cpu);
	struct cpu_now *c = at(&cpus_now, cpu);
	struct cgroup_tier t;
	struct task_struct *p;
	u64 word, now;
	u32 new = RUNS_IDLE;
	s32 pid;

	if (!place || !c)
		return 0;
	word = *(volatile u64 *)&c->word; /* before all that is looked at */
	if (!c->online)
		return 0;
	pid = pid_on(cpu);
	if (pid < 0)
		return 0;
	if (pid != PID_IDLE) {
		p = bpf_task_from_pid(pid);
		if (!p)
			return 0;
		tier_of(p, generation, &t);
		new = what_is(c, p, t.tier);
		bpf_task_release(p);
	}
	now = word_after(word, c, place, new);
	if (!differ(word, now))
		return 0;
	if (what(word) == RUNS_STRICT && new != RUNS_STRICT)
		c->strict_until = bpf_ktime_get_ns() + hold;
	if (__sync_val_compare_and_swap(&c->word, word, now) == word)
		changed(cpu, word, now, hold);
	return 0;
}

/* ---- may batch work run here? ---- */

/* refused says why cpu may not run a batch task now: a REFUSED_ count, or ALLOWED. */
APART u32 refused(u32 cpu)
{
	struct place *place = at(&places, cpu);
	struct cpu_now *c = at(&cpus_now, cpu), *s;
	struct node_now *now_there;
	struct node *node;
	u64 now = bpf_ktime_get_ns();
	s64 others;
	u32 w;

	if (!place || !c || !place->known || !c->online)
		return ALLOWED; /* nobody would come for what waits here */
	for (int i = 0; i < MAX_SIBLINGS && i < place->nr_siblings; i++) {
		s = at(&cpus_now, place->siblings[i]);
		if (s && (what(s->word) == RUNS_STRICT || now < s->strict_until))
			return REFUSED_EXPELLED;
	}
	node = at(&nodes, place->node);
	now_there = at(&nodes_now, place->node);
	if (!node || !now_there)
		return ALLOWED;
	w = what(c->word);
	if (node->budget >= 0) {
		/* What is left of a whole CPU is a part of each tenth of a second of one more. */
		s64 part = (node->budget % 1000) * 100;

		others = now_there->batch - is_batch(w);
		if (others >= node->budget / 1000 + ((now / 1000) % 100000 < part))
			return REFUSED_BUDGET;
	}
	if (now_there->idle - (w == RUNS_IDLE) < node->buffer)
		return REFUSED_BUFFER;
	return ALLOWED;
}

/* wake_in wakes one of the CPUs first to first + n of the order that is idle and may run batch work. */
APART int wake_in(u32 first, u32 n, u64 allowed_nodes)
{
	struct bpf_iter_num it;
	int *i, found = 0;

	bpf_iter_num_new(&it, 0, n & 0xffff);
	while ((i = bpf_iter_num_next(&it))) {
		struct place *listed = at(&places, first + *i), *place;
		struct cpu_now *c;
		u32 cpu;

		if (!listed)
			break;
		cpu = listed->order;
		c = at(&cpus_now, cpu);
		place = at(&places, cpu);
		if (!c || !place || !c->online || what(c->word) != RUNS_IDLE)
			continue;
		if (allowed_nodes && !(allowed_nodes >> (place->node & 63) & 1))
			continue;
		if (refused(cpu) != ALLOWED || !rouse(cpu, c))
			continue;
		found = 1;
		break;
	}
	bpf_iter_num_destroy(&it);
	return found;
}

/* idle_beside is whether a node other than this one has an idle CPU. */
INLINE int idle_beside(struct settings *set, u32 node)
{
	struct bpf_iter_num it;
	struct node_now *now;
	int *i, found = 0;

	bpf_iter_num_new(&it, 0, set->nr_nodes & 0xff);
	while (!found && (i = bpf_iter_num_next(&it))) {
		now = at(&nodes_now, *i);
		found = now && *i != node && now->idle > 0;
	}
	bpf_iter_num_destroy(&it);
	return found;
}

/* wake wakes a CPU for what waits in an LLC's queue: of that LLC, else of its node, else of any that is allowed. */
APART int wake(u32 llc, u64 allowed_nodes)
{
	struct settings *set = at(&settings, 0);
	struct llc *l = at(&llcs, llc);
	struct node_now *there;
	struct node *node;

	if (!set || !l)
		return 0;
	node = at(&nodes, l->node);
	there = at(&nodes_now, l->node);
	if (there && there->idle > 0) {
		if (wake_in(l->first, l->count, 0))
			return 1;
		if (node && node->nr_llcs > 1 && wake_in(node->first, node->count, 0))
			return 1;
	}
	if (allowed_nodes == 1ULL << (l->node & 63) || !idle_beside(set, l->node))
		return 0;
	return wake_in(0, set->nr_listed, allowed_nodes);
}

/* idle_in wakes one of the CPUs first to first + n of the order that is idle and that p may run on. */
APART int idle_in(struct task_struct *p TRUSTED, u32 first, u32 n)
{
	struct bpf_iter_num it;
	int *i, found = 0;

	bpf_iter_num_new(&it, 0, n & 0xffff);
	while ((i = bpf_iter_num_next(&it))) {
		struct place *listed = at(&places, first + *i);
		struct cpu_now *c;

		if (!listed)
			break;
		c = at(&cpus_now, listed->order);
		if (!c || !c->online || what(c->word) != RUNS_IDLE || !bpf_cpumask_test_cpu(listed->order, p->cpus_ptr) || !rouse(listed->order, c))
			continue;
		found = 1;
		break;
	}
	bpf_iter_num_destroy(&it);
	return found;
}

/* wake_free wakes a CPU for p, which is not batch work: its own, else one of its node, else any. */
APART int wake_free(struct task_struct *p TRUSTED)
{
	struct settings *set = at(&settings, 0);
	u32 cpu = scx_bpf_task_cpu(p);
	struct place *place = at(&places, cpu);
	struct cpu_now *c = at(&cpus_now, cpu);
	struct node *node;

	if (!set || !place || !c)
		return 0;
	if (what(c->word) == RUNS_IDLE && rouse(cpu, c))
		return 1;
	node = at(&nodes, place->node);
	if (node && idle_in(p, node->first, node->count))
		return 1;
	return idle_in(p, 0, set->nr_listed);
}

/* wake_for_free wakes CPUs for the first so many of those that wait and are not batch work. */
APART int wake_for_free(u32 many)
{
	struct bpf_iter_scx_dsq it;
	struct bpf_iter_num most;
	struct task_struct *p;

	bpf_iter_num_new(&most, 0, many & 0xff);
	bpf_iter_scx_dsq_new(&it, FREE_QUEUE, 0);
	while ((p = bpf_iter_scx_dsq_next(&it)) && bpf_iter_num_next(&most))
		wake_free(p);
	bpf_iter_scx_dsq_destroy(&it);
	bpf_iter_num_destroy(&most);
	return 0;
}

/* ---- the scheduler ---- */

/* home finds a CPU that p may run on and that is on one of the nodes; cpu when there is none. */
APART u32 home(struct task_struct *p TRUSTED, u32 cpu, u64 allowed_nodes)
{
	struct settings *set = at(&settings, 0);
	struct place *place = at(&places, cpu);
	struct bpf_iter_num it;
	u32 found = cpu;
	int *i;

	if (!set || place && place->known && (!allowed_nodes || allowed_nodes >> (place->node & 63) & 1))
		return cpu;
	bpf_iter_num_new(&it, 0, set->nr_listed);
	while ((i = bpf_iter_num_next(&it))) {
		struct place *listed = at(&places, *i);
		struct cpu_now *c;
		u32 other;

		if (!listed)
			break;
		other = listed->order;
		place = at(&places, other);
		c = at(&cpus_now, other);
		if (place && c && c->online && (!allowed_nodes || allowed_nodes >> (place->node & 63) & 1) &&
		    bpf_cpumask_test_cpu(other, p->cpus_ptr)) {
			found = other;
			break;
		}
	}
	bpf_iter_num_destroy(&it);
	return found;
}

/* A task that may not migrate now has a mask of one CPU instead of its own (migrate_disable_switch, kernel/sched/core.c). */
INLINE int stays(struct task_struct *p)
{
	return p->nr_cpus_allowed == 1 || p->cpus_ptr != &p->cpus_mask;
}

/* ---- which CPUs look busy to the fair class ---- */

/*
 * The fair class takes a CPU for idle only while no thread is counted in its run queue (idle_cpu,
 * kernel/sched/syscalls.c). A thread that waits in a queue of ours is counted on the CPU that it ran on, or woke on,
 * until another CPU takes it. So batch work waits on CPUs that run batch work: a thread that wakes is put there
 * (waits_on). One that has to leave its CPU, or that waits on a CPU which goes idle, is taken at once by a CPU that
 * runs batch work, instead of what runs there (hand_over, take_over). No thread is put on the local queue of another
 * CPU: it would start there unasked for, and could not be taken back.
 */

/* strands is whether cpu idles and may not run batch work: a batch thread that waits there only makes it look busy. */
INLINE int strands(u32 cpu)
{
	struct cpu_now *c = at(&cpus_now, cpu);

	return c && what(c->word) == RUNS_IDLE && refused(cpu) != ALLOWED;
}

/* waits_on is a CPU of the same LLC for p to wait on, when cpu is idle and may not run it: one with batch work, else a busy one. */
APART u32 waits_on(struct task_struct *p TRUSTED, u32 cpu)
{
	struct place *place = at(&places, cpu);
	struct llc *l = place ? at(&llcs, place->llc) : NULL;
	struct bpf_iter_num it;
	u32 found = cpu;
	int *i;

	if (!l || !place->known || !strands(cpu))
		return cpu;
	bpf_iter_num_new(&it, 0, l->count & 0xffff);
	while ((i = bpf_iter_num_next(&it))) {
		struct place *listed = at(&places, l->first + *i);
		struct cpu_now *c;

		if (!listed)
			break;
		c = at(&cpus_now, listed->order);
		if (!c || !c->online || what(c->word) == RUNS_IDLE || !bpf_cpumask_test_cpu(listed->order, p->cpus_ptr))
			continue;
		found = listed->order;
		if (is_batch(what(c->word)))
			break;
	}
	bpf_iter_num_destroy(&it);
	return found;
}

/* hand_over_in has one of the CPUs first to first + n of the order, that runs batch work, take p, which waits for an LLC. */
APART int hand_over_in(struct task_struct *p TRUSTED, u32 llc, u32 first, u32 n)
{
	struct bpf_iter_num it;
	int *i, found = 0;

	bpf_iter_num_new(&it, 0, n & 0xffff);
	while (!found && (i = bpf_iter_num_next(&it))) {
		struct place *listed = at(&places, first + *i);
		struct cpu_now *c;
		struct turn *t;
		u32 why;

		if (!listed)
			break;
		c = at(&cpus_now, listed->order);
		t = at(&turns, listed->order);
		if (!c || !t || !c->online || what(c->word) != RUNS_BATCH || t->took >= MOST_TAKEN)
			continue;
		if (!bpf_cpumask_test_cpu(listed->order, p->cpus_ptr))
			continue;
		/* A CPU that leaves because of the budget counts until it has switched. The other one looks again when it comes. */
		why = refused(listed->order);
		if (why != ALLOWED && why != REFUSED_BUDGET)
			continue;
		found = 1;
		if (__sync_lock_test_and_set(&t->takes, llc + 1) == llc + 1)
			continue; /* it comes already, and takes them one after the other */
		scx_bpf_kick_cpu(listed->order, SCX_KICK_PREEMPT);
		count(KICK_HAND_OVER);
	}
	bpf_iter_num_destroy(&it);
	return found;
}

/* hand_over has a CPU of the same LLC, else of the node, take p, which waits for that LLC. */
APART int hand_over(struct task_struct *p TRUSTED, u32 llc)
{
	struct llc *l = at(&llcs, llc);
	struct node *node = l ? at(&nodes, l->node) : NULL;

	if (!node)
		return 0;
	if (hand_over_in(p, llc, l->first, l->count))
		return 1;
	return node->nr_llcs > 1 && hand_over_in(p, llc, node->first, node->count);
}

/* hand_over_from has what waits in an LLC's queue taken over, where it makes an idle CPU look busy; only: that CPU, or all with -1. */
APART int hand_over_from(u32 llc, s32 only)
{
	struct bpf_iter_scx_dsq it;
	struct bpf_iter_num most;
	struct task_struct *p;
	int found = 0;

	bpf_iter_num_new(&most, 0, SEARCHED);
	bpf_iter_scx_dsq_new(&it, llc, 0);
	while (!found && (p = bpf_iter_scx_dsq_next(&it)) && bpf_iter_num_next(&most)) {
		u32 cpu = scx_bpf_task_cpu(p);

		if (only >= 0 && cpu != only || only < 0 && !strands(cpu))
			continue;
		found = hand_over(p, llc);
	}
	bpf_iter_scx_dsq_destroy(&it);
	bpf_iter_num_destroy(&most);
	return found;
}

/*
 * take_over moves a thread to cpu that makes an idle CPU look busy, for the rest of the slice that cpu gave in turn:
 * whoever waits longest is not put off by it. Where more of them wait, cpu comes back for the next one.
 */
APART int take_over(u32 cpu, u32 llc)
{
	struct turn *t = at(&turns, cpu);
	u64 now = bpf_ktime_get_ns(), rest;
	struct bpf_iter_scx_dsq it;
	struct bpf_iter_num most;
	struct task_struct *p;
	int moved = 0;

	if (!t)
		return 0;
	rest = t->ends > now + MS / 5 ? t->ends - now : MS / 5;
	bpf_iter_num_new(&most, 0, SEARCHED);
	bpf_iter_scx_dsq_new(&it, llc, 0);
	while ((p = bpf_iter_scx_dsq_next(&it)) && bpf_iter_num_next(&most)) {
		if (!strands(scx_bpf_task_cpu(p)) || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		if (moved) {
			if (t->took < MOST_TAKEN) {
				t->takes = llc + 1;
				scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
				count(KICK_HAND_OVER);
			}
			break;
		}
		scx_bpf_dsq_move_set_slice(&it, rest);
		moved = scx_bpf_dsq_move(&it, p, SCX_DSQ_LOCAL_ON | cpu, 0);
	}
	bpf_iter_scx_dsq_destroy(&it);
	bpf_iter_num_destroy(&most);
	t->took += moved;
	return moved;
}

/*
 * not_here: cpu was roused, and may not run batch work by now. Who was queued meanwhile saw that it was roused and
 * woke no other CPU. One that is not queued yet kicks cpu once it is: cpu has to know then that it was roused.
 */
APART int not_here(u32 cpu, u32 llc)
{
	struct cpu_now *c = at(&cpus_now, cpu);

	if (c && any_comes(bpf_ktime_get_ns()))
		c->roused = 1;
	return scx_bpf_dsq_nr_queued(llc) > 0 && wake(llc, 0);
}

SEC("struct_ops/share_select_cpu")
int share_select_cpu(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct settings *set = at(&settings, 0);
	struct cgroup_tier t;

	if (!set)
		return (s32)ctx[1];
	tier_of(p, set->generation, &t);
	if (t.tier != TIER_BATCH)
		return (s32)ctx[1];
	return waits_on(p, home(p, (u32)ctx[1], t.nodes));
}

SEC("struct_ops/share_enqueue")
int share_enqueue(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	u64 flags = ctx[1];
	struct settings *set = at(&settings, 0);
	u32 cpu = scx_bpf_task_cpu(p);
	struct cgroup_tier t;
	struct place *place;

	if (!set)
		return 0;
	tier_of(p, set->generation, &t);
	if (!p->scx.dsq_vtime)
		set_since(p, bpf_ktime_get_ns());
	comes(cpu);
	if (t.tier != TIER_BATCH) {
		insert(p, FREE_QUEUE, set->slice, flags);
		count(ENQUEUED_FREE);
		wake_free(p);
		return 0;
	}
	if (stays(p)) {
		struct cpu_now *c = at(&cpus_now, cpu);

		insert(p, OWN_QUEUE + cpu, set->slice, flags);
		count(ENQUEUED_OWN);
		if (c && what(c->word) == RUNS_IDLE)
			rouse(cpu, c);
		return 0;
	}
	cpu = home(p, cpu, t.nodes);
	place = at(&places, cpu);
	if (!place || place->llc >= set->nr_llcs) {
		insert(p, SCX_DSQ_LOCAL, set->slice, flags);
		return 0;
	}
	insert(p, place->llc, set->slice, flags);
	count(ENQUEUED);
	wake(place->llc, t.nodes);
	return 0;
}

INLINE u64 waited(struct task_struct *p, u64 now)
{
	u64 since = p->scx.dsq_vtime;

	return since && now > since ? now - since : 0;
}

INLINE u64 guard_slice(struct settings *set, u32 waiting)
{
	/* A fiftieth of a CPU is for the guard: the more wait, the shorter, so that all had their turn in time. */
	u64 ns = set->guard / 50 / (waiting + 1);

	if (ns < MS / 5)
		ns = MS / 5;
	return ns < set->slice ? ns : set->slice;
}

/* guard_from lets up to most of those that have waited too long in a queue run here, whatever speaks against it. */
APART int guard_from(u32 cpu, u64 queue, u64 limit, u64 slice, u32 most)
{
	struct cpu_now *c = at(&cpus_now, cpu);
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	u64 now = bpf_ktime_get_ns();
	u32 looked = 0, served = 0;

	if (!c)
		return 0;
	bpf_iter_scx_dsq_new(&it, queue, 0);
	while ((p = bpf_iter_scx_dsq_next(&it))) {
		if (++looked > 64 || waited(p, now) <= limit || served >= most)
			break;
		if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		scx_bpf_dsq_move_set_slice(&it, slice);
		if (scx_bpf_dsq_move(&it, p, SCX_DSQ_LOCAL_ON | cpu, 0))
			served++;
	}
	bpf_iter_scx_dsq_destroy(&it);
	c->guard += served;
	return served;
}

APART int guard(u32 cpu, u32 why)
{
	struct settings *set = at(&settings, 0);
	struct place *place = at(&places, cpu);
	struct cpu_now *c = at(&cpus_now, cpu);
	struct llc_now *l;
	u64 now = bpf_ktime_get_ns(), limit, slice;
	u32 most = 1, served = 0;

	if (!set || !place || !c || !set->guard)
		return 0;
	l = at(&llcs_now, place->llc);
	if (!l || !(l->overdue | c->overdue))
		return 0;
	/* Rather more than a fiftieth of a CPU than that the watchdog ends the scheduler. */
	if ((l->overdue | c->overdue) & VERY_OVERDUE)
		most = 8;
	else if (now < l->guard_next)
		return 0;
	slice = guard_slice(set, l->waiting);
	if (c->overdue)
		served = guard_from(cpu, OWN_QUEUE + cpu, set->guard, slice, most);
	if (!served && l->overdue) {
		/* Who has a sibling that is not strict goes first. */
		limit = set->guard + (why == REFUSED_EXPELLED ? set->guard / 4 : 0);
		served = guard_from(cpu, place->llc, limit, slice, most);
	}
	if (!served)
		return 0;
	l->guard_next = now + slice * 50;
	count(GUARD_SLICES);
	return 1;
}

/* steal takes a task from a queue of another node, if its cgroup may run here. */
APART int steal(u32 cpu, u64 queue, u32 node)
{
	struct settings *set = at(&settings, 0);
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	int n = 0, moved = 0;

	if (!set)
		return 0;
	bpf_iter_scx_dsq_new(&it, queue, 0);
	while ((p = bpf_iter_scx_dsq_next(&it))) {
		struct cgroup_tier t;

		if (++n > 16)
			break;
		tier_of(p, set->generation, &t);
		if (t.nodes && !(t.nodes >> (node & 63) & 1)) {
			count(REFUSED_NODES);
			continue;
		}
		if (bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && scx_bpf_dsq_move(&it, p, SCX_DSQ_LOCAL_ON | cpu, 0)) {
			moved = 1;
			break;
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	return moved;
}

/* elsewhere looks for work in the queues of other LLCs: first, or with far not, of this node. */
APART int elsewhere(u32 cpu, u32 far)
{
	struct settings *set = at(&settings, 0);
	struct place *place = at(&places, cpu);
	struct bpf_iter_num it;
	int *i, found = 0;

	if (!set || !place)
		return 0;
	bpf_iter_num_new(&it, 0, set->nr_llcs);
	while ((i = bpf_iter_num_next(&it))) {
		struct llc *l = at(&llcs, *i);

		if (!l)
			break;
		if (*i == place->llc || (l->node != place->node) != far || scx_bpf_dsq_nr_queued(*i) <= 0)
			continue;
		found = far ? steal(cpu, *i, place->node) : take(*i);
		if (found)
			break;
	}
	bpf_iter_num_destroy(&it);
	return found;
}

/* account adds to a node what SCHED_EXT had of a CPU since it was asked last, in ns. */
INLINE u64 account(struct place *place, struct cpu_now *c)
{
	u64 now = bpf_ktime_get_ns(), took = c->since ? now - c->since : 0;
	struct node_now *node = at(&nodes_now, place->node);

	if (node)
		__sync_fetch_and_add(&node->used, took);
	c->since = now;
	return took;
}

/* others_wait is whether a queue holds more, when a CPU has taken a task and is not to be roused for them. */
INLINE int others_wait(struct cpu_now *c, u64 queue)
{
	__sync_lock_test_and_set(&c->roused, 1);
	return scx_bpf_dsq_nr_queued(queue) > 0;
}

SEC("struct_ops/share_dispatch")
int share_dispatch(u64 *ctx)
{
	u32 cpu = (u32)ctx[0], why;
	struct task_struct *prev = (void *)ctx[1];
	struct settings *set = at(&settings, 0);
	struct place *place = at(&places, cpu);
	struct cpu_now *c = at(&cpus_now, cpu);
	struct turn *turn = at(&turns, cpu);
	s32 own, shared;
	int goes_on = 0, free = 0; /* prev may run on; nobody may refuse it */
	u32 roused, takes;
	u64 now;

	if (!set || !place || !c || !turn)
		return 0;
	takes = __sync_lock_test_and_set(&turn->takes, 0);
	roused = __sync_lock_test_and_set(&c->roused, 0); /* who is queued from now on may be missed here */
	if (prev && prev->scx.flags & SCX_TASK_QUEUED) {
		struct cgroup_tier t;

		tier_of(prev, set->generation, &t);
		free = t.tier != TIER_BATCH;
		goes_on = !free && (!t.nodes || t.nodes >> (place->node & 63) & 1);
		if (!free && !goes_on)
			count(REFUSED_NODES);
	}
	if (free || scx_bpf_dsq_nr_queued(FREE_QUEUE) > 0) {
		if (place->known && guard(cpu, REFUSED_ONLINE))
			return 0;
		if (take(FREE_QUEUE)) {
			if (others_wait(c, FREE_QUEUE))
				wake_for_free(1);
			return 0;
		}
		if (free) {
			set_slice(prev, set->slice);
			account(place, c);
			return 0;
		}
	}
	own = scx_bpf_dsq_nr_queued(OWN_QUEUE + cpu);
	shared = place->known ? scx_bpf_dsq_nr_queued(place->llc) : 0;
	why = refused(cpu);
	/* Here while online work waits: the kernel's deadline server of sched_ext gives 5 % of a CPU away. */
	if (why == ALLOWED && c->online && fair_waits(cpu))
		why = REFUSED_ONLINE;
	if (why != ALLOWED) {
		if (why == REFUSED_ONLINE && roused)
			c->roused = 1; /* the switch to fair work that follows passes it on */
		else if (roused && place->known)
			not_here(cpu, place->llc);
		if (own > 0 || shared > 0 || goes_on) {
			count(why);
			if (guard(cpu, why))
				return 0;
		}
		if (why == REFUSED_ONLINE || !place->known || fair_waits(cpu))
			return 0;
		/* It goes idle. What waits on it would make it look busy. */
		if (goes_on && !stays(prev))
			hand_over(prev, place->llc);
		else if (shared > 0 && counts_any(cpu))
			hand_over_from(place->llc, cpu);
		return 0;
	}
	now = bpf_ktime_get_ns();
	if (takes) {
		if (take_over(cpu, takes - 1))
			return 0;
		if (goes_on && now < turn->ends) { /* another CPU was first */
			set_slice(prev, turn->ends - now);
			account(place, c);
			return 0;
		}
	}
	turn->ends = now + set->slice;
	turn->took = 0;
	/* By turns, so that neither queue starves the other. */
	if (own > 0 && (shared <= 0 || c->turn++ & 1) && take(OWN_QUEUE + cpu) || shared > 0 && take(place->llc)) {
		if (place->known && others_wait(c, place->llc))
			wake(place->llc, 0);
		return 0;
	}
	if (own > 0 && take(OWN_QUEUE + cpu))
		return 0;
	if (goes_on) {
		set_slice(prev, set->slice);
		account(place, c);
		count(KEPT);
		return 0;
	}
	if (!place->known)
		return 0;
	if (elsewhere(cpu, 0))
		count(STOLEN_NODE);
	else if (elsewhere(cpu, 1))
		count(STOLEN_REMOTE);
	else if (__sync_lock_test_and_set(&c->roused, 0) || any_comes(bpf_ktime_get_ns()))
		/* Roused while it looked: where the kernel dropped the lock of the run queue meanwhile, it forgets that on return. */
		rouse(cpu, c);
	return 0;
}

SEC("struct_ops/share_running")
int share_running(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct cpu_now *c = at(&cpus_now, scx_bpf_task_cpu(p));

	if (c)
		c->since = bpf_ktime_get_ns();
	set_since(p, 0);
	return 0;
}

SEC("struct_ops/share_stopping")
int share_stopping(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	u32 cpu = scx_bpf_task_cpu(p);
	struct place *place = at(&places, cpu);
	struct cpu_now *c = at(&cpus_now, cpu);
	struct llc_now *l;
	u64 took;

	if (!place || !c)
		return 0;
	took = account(place, c);
	c->since = 0;
	if (c->guard) {
		c->guard--;
		l = at(&llcs_now, place->llc);
		if (l)
			l->guard_next = bpf_ktime_get_ns() + took * 49;
	}
	/* With a rest of its slice it would wait on this CPU alone, and start again without being asked for. */
	if (ctx[1] & 1 && p->scx.slice)
		set_slice(p, 0);
	return 0;
}

/* ---- the pulse: what nobody else would come back for ---- */

/* first_waited is how long the first of a queue has waited. */
APART u64 first_waited(u64 queue, u64 now)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	u64 ns = 0;

	bpf_iter_scx_dsq_new(&it, queue, 0);
	p = bpf_iter_scx_dsq_next(&it);
	if (p)
		ns = waited(p, now);
	bpf_iter_scx_dsq_destroy(&it);
	return ns;
}

INLINE u32 overdue(struct settings *set, u64 ns)
{
	return ns > set->patience ? OVERDUE | VERY_OVERDUE : ns > set->guard ? OVERDUE : 0;
}

/* sort_out looks again at those who wait in a queue after the tiers changed. */
APART int sort_out(u64 queue, u64 generation)
{
	struct bpf_iter_scx_dsq it;
	struct bpf_iter_num most; /* a number that rises would be verified 1024 times */
	struct task_struct *p;

	bpf_iter_num_new(&most, 0, 1024);
	bpf_iter_scx_dsq_new(&it, queue, 0);
	while ((p = bpf_iter_scx_dsq_next(&it)) && bpf_iter_num_next(&most)) {
		struct cgroup_tier t;
		struct place *place;
		u32 cpu, to;

		tier_of(p, generation, &t);
		cpu = scx_bpf_task_cpu(p);
		if (t.tier != TIER_BATCH) {
			if (queue != FREE_QUEUE)
				scx_bpf_dsq_move(&it, p, FREE_QUEUE, 0);
			continue;
		}
		if (queue == FREE_QUEUE && stays(p))
			scx_bpf_dsq_move(&it, p, OWN_QUEUE + cpu, 0);
		if (queue >= OWN_QUEUE && (queue != FREE_QUEUE || stays(p)))
			continue;
		to = home(p, cpu, t.nodes);
		place = at(&places, to);
		if (place && place->known && place->llc != queue && (queue == FREE_QUEUE || t.nodes && to != cpu))
			scx_bpf_dsq_move(&it, p, place->llc, 0);
	}
	bpf_iter_scx_dsq_destroy(&it);
	bpf_iter_num_destroy(&most);
	return 0;
}

/* wake_for_guard wakes an idle CPU of an LLC that would refuse, one whose sibling is not strict if there is one. */
APART int wake_for_guard(u32 llc)
{
	struct llc *l = at(&llcs, llc);
	struct cpu_now *c;
	struct bpf_iter_num it;
	int *i, best = -1;

	if (!l)
		return 0;
	bpf_iter_num_new(&it, 0, l->count & 0xffff);
	while ((i = bpf_iter_num_next(&it))) {
		struct place *listed = at(&places, l->first + *i);

		if (!listed)
			break;
		c = at(&cpus_now, listed->order);
		if (!c || !c->online || what(c->word) != RUNS_IDLE)
			continue;
		best = listed->order;
		if (refused(best) != REFUSED_EXPELLED)
			break;
	}
	bpf_iter_num_destroy(&it);
	if (best >= 0 && (c = at(&cpus_now, best)))
		rouse(best, c);
	return 0;
}

APART u32 look_at_cpu(u32 cpu, u32 changed_tiers)
{
	struct settings *set = at(&settings, 0);
	struct cpu_now *c = at(&cpus_now, cpu);
	u64 now = bpf_ktime_get_ns(), since;
	s32 own;

	if (!c || !set)
		return 0;
	if (changed_tiers || what(c->word) == RUNS_UNKNOWN)
		resync(cpu, set->generation, set->hold);
	c->roused = 0; /* while the machine is suspended the kernel asks nobody, whoever was roused */
	own = scx_bpf_dsq_nr_queued(OWN_QUEUE + cpu);
	c->waiting = own > 0 ? own : 0;
	c->overdue = 0;
	since = c->since;
	if (what(c->word) == RUNS_GUARD && since && now > since + 2 * set->slice) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		count(KICK_GUARD_END);
	}
	if (own <= 0)
		return is_batch(what(c->word));
	if (changed_tiers)
		sort_out(OWN_QUEUE + cpu, set->generation);
	c->overdue = overdue(set, first_waited(OWN_QUEUE + cpu, now));
	if (what(c->word) == RUNS_IDLE && (c->overdue || refused(cpu) == ALLOWED))
		rouse(cpu, c);
	return 2;
}

APART u32 look_at_llc(u32 llc, u32 changed_tiers)
{
	struct settings *set = at(&settings, 0);
	struct llc_now *l = at(&llcs_now, llc);
	s32 n = scx_bpf_dsq_nr_queued(llc);

	if (!l || !set)
		return 0;
	l->waiting = n > 0 ? n : 0;
	l->overdue = 0;
	l->oldest = 0;
	if (n <= 0)
		return 0;
	if (changed_tiers)
		sort_out(llc, set->generation);
	l->oldest = first_waited(llc, bpf_ktime_get_ns());
	l->overdue = overdue(set, l->oldest);
	if (!wake(llc, 0) && l->overdue)
		wake_for_guard(llc);
	hand_over_from(llc, -1); /* where no CPU ran batch work when it should have been */
	return 2;
}

/* look_at_free wakes CPUs for those that are not batch work. */
APART u32 look_at_free(u32 changed_tiers)
{
	struct settings *set = at(&settings, 0);

	if (!set || scx_bpf_dsq_nr_queued(FREE_QUEUE) <= 0)
		return 0;
	if (changed_tiers)
		sort_out(FREE_QUEUE, set->generation);
	wake_for_free(16);
	return 2;
}

static int beat(void *map, u32 *key, struct pulse *t)
{
	struct settings *set = at(&settings, 0);
	struct bpf_iter_num it;
	u64 generation;
	u32 busy = 0, changed_tiers;
	int *i;

	if (!set)
		return 0;
	count(PULSES);
	generation = set->generation;
	changed_tiers = t->generation != generation;
	bpf_iter_num_new(&it, 0, set->nr_cpus);
	while ((i = bpf_iter_num_next(&it)))
		busy |= look_at_cpu(*i, changed_tiers);
	bpf_iter_num_destroy(&it);
	bpf_iter_num_new(&it, 0, set->nr_llcs);
	while ((i = bpf_iter_num_next(&it)))
		busy |= look_at_llc(*i, changed_tiers);
	bpf_iter_num_destroy(&it);
	busy |= look_at_free(changed_tiers);
	t->generation = generation;
	/* Soon while somebody waits; seldom while there is no batch work. */
	bpf_timer_start(&t->timer, busy & 2 ? 2 * MS : busy ? 10 * MS : 100 * MS, 0);
	return 0;
}

SEC("syscall")
int nudge(void *ctx)
{
	struct pulse *t = at(&pulses, 0);

	return t ? bpf_timer_start(&t->timer, 0, 0) : -1;
}

SEC("struct_ops/share_cpu_online")
int share_cpu_online(u64 *ctx)
{
	struct cpu_now *c = at(&cpus_now, (u32)ctx[0]);

	if (c)
		c->online = 1;
	return 0;
}

SEC("struct_ops/share_cpu_offline")
int share_cpu_offline(u64 *ctx)
{
	struct place *place = at(&places, (u32)ctx[0]);
	struct cpu_now *c = at(&cpus_now, (u32)ctx[0]);
	u64 word, now;

	if (!place || !c)
		return 0;
	c->online = 0; /* no node counts it any more */
	now = word_after(c->word, c, place, RUNS_OTHER);
	word = __sync_lock_test_and_set(&c->word, now);
	if (differ(word, now))
		changed((u32)ctx[0], word, now, 0);
	return 0;
}

SEC("struct_ops.s/share_init")
int share_init(u64 *ctx)
{
	struct settings *set = at(&settings, 0);
	struct pulse *t = at(&pulses, 0);
	const struct cpumask *online;
	struct bpf_iter_num it;
	int *i, err = 0;

	if (!set || !t)
		return -22;
	err = scx_bpf_create_dsq(FREE_QUEUE, -1);
	if (err)
		return err;
	bpf_iter_num_new(&it, 0, MAX_LLCS); /* a CPU that comes later may bring one */
	while ((i = bpf_iter_num_next(&it)))
		if ((err = scx_bpf_create_dsq(*i, -1)))
			break;
	bpf_iter_num_destroy(&it);
	if (err)
		return err;
	bpf_iter_num_new(&it, 0, scx_bpf_nr_cpu_ids());
	while ((i = bpf_iter_num_next(&it)))
		if ((err = scx_bpf_create_dsq(OWN_QUEUE + *i, -1)))
			break;
	bpf_iter_num_destroy(&it);
	if (err)
		return err;
	online = scx_bpf_get_online_cpumask();
	bpf_iter_num_new(&it, 0, scx_bpf_nr_cpu_ids());
	while ((i = bpf_iter_num_next(&it))) {
		struct cpu_now *c = at(&cpus_now, *i);

		if (c)
			c->online = bpf_cpumask_test_cpu(*i, online);
	}
	bpf_iter_num_destroy(&it);
	scx_bpf_put_cpumask(online);
	t->generation = -1;
	return 0;
}

/*
 * Every task comes by here before the scheduler begins; the first one starts the pulse. share_init could
 * not: it may sleep, and up to 6.18 the verifier takes its timer's callback for one that may, too.
 */
SEC("struct_ops/share_init_task")
int share_init_task(u64 *ctx)
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

SEC("struct_ops/share_exit")
int share_exit(u64 *ctx)
{
	struct scx_exit_info *info = (void *)ctx[0];
	struct ending *e = at(&endings, 0);

	if (!e)
		return 0;
	e->kind = info->kind;
	e->code = info->exit_code;
	bpf_probe_read_kernel_str(e->reason, sizeof e->reason, info->reason);
	bpf_probe_read_kernel_str(e->message, sizeof e->message, info->msg);
	return 0;
}

SEC(".struct_ops.link")
struct sched_ext_ops share = {
	.select_cpu = share_select_cpu,
	.enqueue = share_enqueue,
	.dispatch = share_dispatch,
	.running = share_running,
	.stopping = share_stopping,
	.init_task = share_init_task,
	.cpu_online = share_cpu_online,
	.cpu_offline = share_cpu_offline,
	.init = share_init,
	.exit = share_exit,
	.flags = SCX_OPS_SWITCH_PARTIAL | SCX_OPS_ENQ_LAST,
	.timeout_ms = 30000,
	.name = "homenode",
};
