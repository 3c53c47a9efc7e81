/* SPDX-License-Identifier: GPL-2.0 */
/* What the scheduler and package scx both know. Go has the same types in maps.go; a test compares them. */

#define MAX_CPUS 1024
#define MAX_NODES 64 /* a set of nodes is one word */
#define MAX_LLCS 256
#define MAX_SIBLINGS 7
#define MAX_CGROUPS 16384
#define MAX_DEPTH 64 /* of a cgroup below the root */
#define BUCKETS 32

/* Lower is stronger; 0 is none. */
enum tier { TIER_NONE, TIER_STRICT, TIER_ONLINE, TIER_NORMAL, TIER_BATCH };

struct settings {
	u64 guard;      /* ns; 0: no guard */
	u64 patience;   /* ns: who waits longer is near what the kernel's watchdog bears */
	u64 slice;      /* ns */
	u64 hold;       /* ns */
	u64 generation; /* of the tiers; changes when they do */
	u32 nr_cpus;    /* highest CPU + 1 */
	u32 nr_listed;  /* CPUs in struct place.order */
	u32 nr_llcs;
	u32 nr_nodes;   /* highest index + 1 */
};

struct place { /* of a CPU */
	u32 known;
	u32 node; /* index */
	u32 llc;  /* index */
	u32 nr_siblings;
	u32 siblings[MAX_SIBLINGS];
	u32 order; /* not of this CPU: the n-th CPU when they are sorted by node and LLC */
};
struct node {
	u32 first, count; /* in the order */
	u32 first_llc, nr_llcs;
	s64 budget; /* thousandths of a CPU; negative: no bound */
	s64 buffer; /* CPUs that are kept idle */
};
struct llc { u32 node, first, count, unused; };
struct cgroup_tier { u64 nodes; /* set of indices; 0: all */ u32 tier, unused; };

/* What is so now. */
struct cpu_now {
	u64 word;          /* count of switches << 10 | which node counts it, index + 1, or 0 << 3 | what runs */
	u64 strict_until;  /* ns: expels until then, though nothing strict runs any more */
	u64 since;         /* ns: when the batch task that runs began */
	u64 overlap_since; /* ns: since when it runs beside online-strict work */
	u64 last_cgroup, last_generation;
	u32 last_tier;
	u32 online;
	u32 guard;   /* so many guard slices run next, or now */
	u32 overdue; /* in its own queue somebody waits for the guard */
	u32 turn;
	u32 waiting;
	u32 roused; /* idle, and about to look for work: who wakes next takes another CPU */
	u32 unused;
};
struct node_now {
	s64 idle, batch;
	u64 used;   /* ns of batch work */
	u64 coming; /* ns: when a task began to be queued there that runs on the node */
};
struct llc_now {
	u64 guard_next; /* ns: no guard slice before */
	u64 oldest;     /* ns that the first in the queue has waited */
	u32 overdue;
	u32 waiting;
};
struct ending { s64 code; u32 kind, unused; char reason[64]; char message[192]; };

enum what { RUNS_UNKNOWN, RUNS_IDLE, RUNS_OTHER, RUNS_STRICT, RUNS_BATCH, RUNS_GUARD };

enum count {
	REFUSED_EXPELLED, REFUSED_BUDGET, REFUSED_BUFFER, REFUSED_NODES, REFUSED_ONLINE,
	GUARD_SLICES, GUARD_BESIDE,
	STRICT_STARTS, STRICT_STOPS,
	KICK_EXPEL, KICK_LATE, KICK_IDLE, KICK_GUARD_END,
	STARTS,
	ENQUEUED, ENQUEUED_OWN, ENQUEUED_FREE, STOLEN_NODE, STOLEN_REMOTE, KEPT,
	PULSES,
	KICK_HAND_OVER,
	NR_COUNTS
};
