/* SPDX-License-Identifier: GPL-2.0 */
/* The maps that package scx writes and reads, and the tiers of cgroups: of the scheduler and of the sub-scheduler. */
#define ARRAY(name, value_type, size) \
	struct { UINT(type, BPF_MAP_TYPE_ARRAY); UINT(max_entries, size); TYPE(key, u32); TYPE(value, value_type); } name SEC(".maps")

ARRAY(settings, struct settings, 1);
ARRAY(places, struct place, MAX_CPUS);
ARRAY(nodes, struct node, MAX_NODES);
ARRAY(llcs, struct llc, MAX_LLCS);
ARRAY(cpus_now, struct cpu_now, MAX_CPUS);
ARRAY(nodes_now, struct node_now, MAX_NODES);
ARRAY(llcs_now, struct llc_now, MAX_LLCS);
ARRAY(endings, struct ending, 1);
struct { UINT(type, BPF_MAP_TYPE_HASH); UINT(max_entries, MAX_CGROUPS); TYPE(key, u64); TYPE(value, struct cgroup_tier); } tiers SEC(".maps");
struct resolved { struct cgroup_tier tier; u64 generation; };
struct { UINT(type, BPF_MAP_TYPE_LRU_HASH); UINT(max_entries, MAX_CGROUPS); TYPE(key, u64); TYPE(value, struct resolved); } resolved SEC(".maps");
struct { UINT(type, BPF_MAP_TYPE_PERCPU_ARRAY); UINT(max_entries, NR_COUNTS); TYPE(key, enum count); TYPE(value, u64); } counts SEC(".maps");
struct { UINT(type, BPF_MAP_TYPE_PERCPU_ARRAY); UINT(max_entries, BUCKETS); TYPE(key, u32); TYPE(value, u64); } overlaps SEC(".maps");

INLINE void *at(void *map, u32 i) { return bpf_map_lookup_elem(map, &i); }

INLINE void add(void *map, u32 i)
{
	u64 *n = at(map, i);
	if (n)
		*n += 1;
}
#define count(i) add(&counts, i)

/* The nearest cgroup above, or the one itself, that has a tier. */
INLINE void resolve(struct cgroup *g, struct cgroup_tier *out)
{
	struct bpf_iter_num it;

	out->tier = TIER_NORMAL;
	out->nodes = 0;
	bpf_iter_num_new(&it, 0, MAX_DEPTH);
	while (bpf_iter_num_next(&it)) {
		struct cgroup_subsys_state *above;
		u64 id = g->kn->id;
		struct cgroup_tier *t = bpf_map_lookup_elem(&tiers, &id);

		if (t) {
			*out = *t;
			break;
		}
		above = g->self.parent;
		if (!above)
			break;
		g = above->cgroup;
	}
	bpf_iter_num_destroy(&it);
}

APART int tier_of(struct task_struct *p TRUSTED, u64 generation, struct cgroup_tier *out)
{
	struct cgroup *g = p->cgroups->dfl_cgrp;
	u64 id = g->kn->id;
	struct resolved *known = bpf_map_lookup_elem(&resolved, &id), new = {};

	if (!out)
		return 0;
	if (known && known->generation == generation) {
		*out = known->tier;
		return 0;
	}
	resolve(g, &new.tier);
	new.generation = generation;
	bpf_map_update_elem(&resolved, &id, &new, 0);
	*out = new.tier;
	return 0;
}
