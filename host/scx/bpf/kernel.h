/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What of the kernel the scheduler uses, and no more. Where a field lies in the running
 * kernel is looked up when the object is loaded (preserve_access_index).
 */
typedef unsigned char u8;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;
typedef _Bool bool;

#define NULL ((void *)0)
#define SEC(name) __attribute__((section(name), used))
#define KSYM __attribute__((section(".ksyms")))
#define INLINE static inline __attribute__((always_inline))
/* Verified once, for all arguments, not at each call. */
#define APART __attribute__((noinline))
#define TRUSTED __attribute__((btf_decl_tag("arg:trusted")))

/* The form in which a map's type and size stand in BTF. */
#define UINT(name, value) int (*name)[value]
#define TYPE(name, value) typeof(value) *name

enum { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_ARRAY = 2, BPF_MAP_TYPE_PERCPU_ARRAY = 6, BPF_MAP_TYPE_LRU_HASH = 9, BPF_MAP_TYPE_ARENA = 33 };

/* Helpers, by their numbers in include/uapi/linux/bpf.h. */
static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static u32 (*bpf_get_smp_processor_id)(void) = (void *)8;
static long (*bpf_probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*bpf_probe_read_kernel_str)(void *to, u32 size, const void *from) = (void *)115;
static long (*bpf_timer_init)(void *timer, void *map, u64 flags) = (void *)169;
static long (*bpf_timer_set_callback)(void *timer, void *callback) = (void *)170;
static long (*bpf_timer_start)(void *timer, u64 ns, u64 flags) = (void *)171;

struct bpf_timer { u64 opaque[2]; } __attribute__((aligned(8)));
struct bpf_iter_num { u64 opaque[1]; } __attribute__((aligned(8)));
struct bpf_iter_scx_dsq { u64 opaque[6]; } __attribute__((aligned(8)));

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node { u64 id; };
struct cgroup;
struct cgroup_subsys_state { struct cgroup *cgroup; struct cgroup_subsys_state *parent; };
struct cgroup { struct cgroup_subsys_state self; struct kernfs_node *kn; };
struct css_set { struct cgroup *dfl_cgrp; };
struct cpumask { unsigned long bits[1]; };
struct sched_ext_entity { u32 flags; u64 slice; u64 dsq_vtime; };
struct task_struct {
	u32 policy;
	int pid;
	int nr_cpus_allowed;
	const struct cpumask *cpus_ptr;
	struct cpumask cpus_mask;
	struct css_set *cgroups;
	struct sched_ext_entity scx;
};
struct cfs_rq { u32 h_nr_runnable; };
struct cfs_rq___6_13 { u32 h_nr_running; };
struct rq { u32 nr_running; struct cfs_rq cfs; struct task_struct *curr; };
enum scx_exit_kind { SCX_EXIT_NONE };
struct scx_exit_info { enum scx_exit_kind kind; s64 exit_code; const char *reason; char *msg; };

#pragma clang attribute pop

#if GENERATION < 3
/* kernel/sched/ext.c reads these members by name. */
struct sched_ext_ops {
	void *select_cpu;
	void *enqueue;
	void *dispatch;
	void *running;
	void *stopping;
	void *init_task;
	void *cpu_online;
	void *cpu_offline;
	void *init;
	void *exit;
	u64 flags;
	u32 timeout_ms;
	char name[128];
};
#endif

enum {
	PID_IDLE = 0,
	SCHED_EXT = 7,          /* include/uapi/linux/sched.h */
	SCX_TASK_QUEUED = 1,    /* enum scx_ent_flags */
	SCX_KICK_IDLE = 1,      /* enum scx_kick_flags */
	SCX_KICK_PREEMPT = 2,
	SCX_OPS_ENQ_LAST = 2,   /* enum scx_ops_flags */
	SCX_OPS_SWITCH_PARTIAL = 8,
};
#define SCX_DSQ_LOCAL 0x8000000000000002ULL    /* enum scx_dsq_id_flags */
#define SCX_DSQ_LOCAL_ON 0xc000000000000000ULL

extern int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end) KSYM;
extern int *bpf_iter_num_next(struct bpf_iter_num *it) KSYM;
extern void bpf_iter_num_destroy(struct bpf_iter_num *it) KSYM;
extern int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 dsq, u64 flags) KSYM;
extern struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it) KSYM;
extern void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it) KSYM;
extern struct task_struct *bpf_task_from_pid(s32 pid) KSYM;
extern void bpf_task_release(struct task_struct *p) KSYM;
extern bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask) KSYM;
extern s32 scx_bpf_create_dsq(u64 dsq, s32 node) KSYM;
extern s32 scx_bpf_dsq_nr_queued(u64 dsq) KSYM;
extern void scx_bpf_dsq_move_set_slice(struct bpf_iter_scx_dsq *it, u64 slice) KSYM;
extern bool scx_bpf_dsq_move(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq, u64 flags) KSYM;
extern void scx_bpf_kick_cpu(s32 cpu, u64 flags) KSYM;
extern s32 scx_bpf_task_cpu(const struct task_struct *p) KSYM;
extern u32 scx_bpf_nr_cpu_ids(void) KSYM;
extern const struct cpumask *scx_bpf_get_online_cpumask(void) KSYM;
extern void scx_bpf_put_cpumask(const struct cpumask *mask) KSYM;

/*
 * What has another name, or is done otherwise, in another range of kernels. The exact
 * names of the kernel, with what follows three underscores: the loader compares whole names.
 */
#if GENERATION >= 2 /* 7.1 and later */
extern bool scx_bpf_dsq_insert___v2(struct task_struct *p, u64 dsq, u64 slice, u64 flags) KSYM;
extern bool scx_bpf_dsq_move_to_local___v2(u64 dsq, u64 flags) KSYM;
extern bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice) KSYM;
extern bool scx_bpf_task_set_dsq_vtime(struct task_struct *p, u64 vtime) KSYM;
#define insert(p, dsq, slice, flags) scx_bpf_dsq_insert___v2(p, dsq, slice, flags)
#define set_slice(p, ns) scx_bpf_task_set_slice(p, ns)
#define set_since(p, ns) scx_bpf_task_set_dsq_vtime(p, ns)
#if GENERATION == 3 /* 7.3 and later: the form of a sub-scheduler, which has cids instead of CPUs */
extern s32 scx_bpf_cpu_to_cid(s32 cpu) KSYM;
extern s32 scx_bpf_cid_to_cpu(s32 cid) KSYM;
extern s32 scx_bpf_task_cid(const struct task_struct *p) KSYM;
extern struct task_struct *scx_bpf_cid_curr(s32 cid) KSYM;
extern void scx_bpf_kick_cid(s32 cid, u64 flags) KSYM;
#define current_of(cpu) scx_bpf_cid_curr(scx_bpf_cpu_to_cid(cpu))
#else
extern struct task_struct *scx_bpf_cpu_curr(s32 cpu) KSYM;
extern struct rq *scx_bpf_locked_rq(void) KSYM;
#define take(dsq) scx_bpf_dsq_move_to_local___v2(dsq, 0)
#define own_rq(cpu) scx_bpf_locked_rq()
#define current_of(cpu) scx_bpf_cpu_curr(cpu)
#endif
/* pid_on is the thread that runs on a CPU; negative: unknown. */
INLINE s32 pid_on(s32 cpu)
{
	struct task_struct *p = current_of(cpu);

	return p ? p->pid : -1;
}
#else /* 6.13 to 7.0 */
extern void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq, u64 slice, u64 flags) KSYM;
extern bool scx_bpf_dsq_move_to_local(u64 dsq) KSYM;
extern struct rq *scx_bpf_cpu_rq(s32 cpu) KSYM;
#define insert(p, dsq, slice, flags) scx_bpf_dsq_insert(p, dsq, slice, flags)
#define take(dsq) scx_bpf_dsq_move_to_local(dsq)
#define set_slice(p, ns) ((p)->scx.slice = (ns))
#define set_since(p, ns) ((p)->scx.dsq_vtime = (ns))
#define own_rq(cpu) scx_bpf_cpu_rq(cpu)
INLINE s32 pid_on(s32 cpu)
{
	struct rq *rq = scx_bpf_cpu_rq(cpu);

	return rq ? rq->curr->pid : -1;
}
#endif

#if GENERATION < 3
#define HAS(field) __builtin_preserve_field_info(field, 2 /* BPF_FIELD_EXISTS */)

/* fair_waits is whether the fair class has something to run on a CPU whose queues are locked. */
INLINE int fair_waits(s32 cpu)
{
	struct rq *rq = own_rq(cpu);
	struct cfs_rq___6_13 *old;

	if (!rq)
		return 0;
	if (HAS(rq->cfs.h_nr_runnable))
		return rq->cfs.h_nr_runnable > 0;
	old = (void *)&rq->cfs;
	return old->h_nr_running > 0;
}

/* counts_any is whether the kernel counts a thread on a CPU whose queues are locked: to the fair class it looks busy then. */
INLINE int counts_any(s32 cpu)
{
	struct rq *rq = own_rq(cpu);

	return rq && rq->nr_running > 0;
}
#endif
