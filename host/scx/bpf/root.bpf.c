/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For tests only: another scheduler of sched_ext, that has all threads of the machine and lets other schedulers have
 * cgroups (Linux 7.3 and later). Its own threads go first, in the order of their coming.
 */
#include "kernel.h"
#include "share.h"

char LICENSE[] SEC("license") = "GPL";

#define MOST 8
#define QUEUE 0
#define SLICE 5000000ULL
#define MASK ((struct scx_cmask *)(1ULL << 44)) /* of all cids: the start of the arena, filled by who loads this */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct sched_ext_ops { u64 sub_cgroup_id; };
struct scx_sub_attach_args { struct sched_ext_ops *ops; };
struct scx_sub_detach_args { struct sched_ext_ops *ops; };
#pragma clang attribute pop

struct scx_cmask { u32 base, nr_cids, alloc_words; u64 bits[]; };

extern bool scx_bpf_sub_dispatch(u64 cgroup) KSYM;
extern s32 scx_bpf_sub_grant(u64 cgroup, u64 caps, const struct scx_cmask *cids, struct scx_cmask *denied) KSYM;

struct { UINT(type, BPF_MAP_TYPE_ARENA); UINT(map_flags, 1 << 10 /* BPF_F_MMAPABLE */); UINT(max_entries, 1024); } arena SEC(".maps");
struct { UINT(type, BPF_MAP_TYPE_ARRAY); UINT(max_entries, MOST); TYPE(key, u32); TYPE(value, u64); } below SEC(".maps");

struct { UINT(type, BPF_MAP_TYPE_ARRAY); UINT(max_entries, 1); TYPE(key, u32); TYPE(value, struct ending); } endings SEC(".maps");

/* Not 0: whoever is below gets nothing; more than 1: the one of this cgroup does not. */
struct { UINT(type, BPF_MAP_TYPE_ARRAY); UINT(max_entries, 1); TYPE(key, u32); TYPE(value, u64); } alone SEC(".maps");

INLINE u64 *slot(u32 i) { return bpf_map_lookup_elem(&below, &i); }

SEC("struct_ops/root_enqueue")
int root_enqueue(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	insert(p, QUEUE, SLICE, ctx[1]);
	if (ctx[1] & 1 /* SCX_ENQ_WAKEUP */)
		scx_bpf_kick_cid(scx_bpf_task_cid(p), SCX_KICK_PREEMPT);
	return 0;
}

SEC("struct_ops/root_dispatch")
int root_dispatch(u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1]; /* of its own */
	u32 zero = 0;
	u64 *no = bpf_map_lookup_elem(&alone, &zero);

	if (scx_bpf_dsq_move_to_local___v2(QUEUE, 0) || !no || *no == 1)
		return 0;
	if (prev && prev->scx.flags & SCX_TASK_QUEUED) {
		set_slice(prev, SLICE);
		return 0;
	}
	for (int i = 0; i < MOST; i++) {
		u64 *cgroup = slot(i);

		if (cgroup && *cgroup && *cgroup != *no && scx_bpf_sub_dispatch(*cgroup))
			return 0;
	}
	return 0;
}

SEC("struct_ops.s/root_attach")
int root_attach(u64 *ctx)
{
	struct scx_sub_attach_args *args = (void *)ctx[0];
	u64 id = args->ops->sub_cgroup_id;

	asm volatile("" :: "r"(&arena));
	for (int i = 0; i < MOST; i++) {
		u64 *cgroup = slot(i);

		if (!cgroup || *cgroup)
			continue;
		*cgroup = id;
		return scx_bpf_sub_grant(id, 1 /* SCX_CAP_ENQ_IMMED */, MASK, NULL);
	}
	return -28;
}

SEC("struct_ops.s/root_detach")
int root_detach(u64 *ctx)
{
	struct scx_sub_detach_args *args = (void *)ctx[0];
	u64 id = args->ops->sub_cgroup_id;

	for (int i = 0; i < MOST; i++) {
		u64 *cgroup = slot(i);

		if (cgroup && *cgroup == id)
			*cgroup = 0;
	}
	return 0;
}

SEC("struct_ops.s/root_init")
int root_init(u64 *ctx)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

SEC("struct_ops/root_exit")
int root_exit(u64 *ctx)
{
	struct scx_exit_info *info = (void *)ctx[0];
	u32 zero = 0;
	struct ending *e = bpf_map_lookup_elem(&endings, &zero);

	if (!e)
		return 0;
	e->kind = info->kind;
	bpf_probe_read_kernel_str(e->reason, sizeof e->reason, info->reason);
	bpf_probe_read_kernel_str(e->message, sizeof e->message, info->msg);
	return 0;
}

/* kernel/sched/ext/ext.c reads these members by name. */
struct sched_ext_ops_cid {
	void *enqueue;
	void *dispatch;
	void *sub_attach;
	void *sub_detach;
	void *init;
	void *exit;
	u64 flags;
	u32 timeout_ms;
	char name[128];
};

SEC(".struct_ops.link")
struct sched_ext_ops_cid root = {
	.enqueue = root_enqueue,
	.dispatch = root_dispatch,
	.sub_attach = root_attach,
	.sub_detach = root_detach,
	.init = root_init,
	.exit = root_exit,
	.name = "other",
};
