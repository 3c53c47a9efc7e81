/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * numacount: counts a guest's memory accesses by who made them, on which node
 * the CPU was and on which node the memory lies.
 *
 * A QEMU TCG plugin, hence GPL (it is loaded into QEMU). QEMU's distributions
 * ship no qemu-plugin.h, so the few prototypes used are declared here; they are
 * those of plugin API version 4 (QEMU 9.2 on).
 *
 * Who: a walker maps its buffer at (0x40 + slot) << 40, so the address itself
 * names the walker and nothing else of the process is counted. Only user-space
 * instructions are looked at: the kernel copying a page is not the workload's
 * access.
 * Memory at other addresses is named by two marks, "from" and "to", each after 32 bits that
 * are the address in units of 2 MiB: the first so named is slot 0, the next slot 1 …
 * Where: the guest physical address, looked up in the ranges given; the vCPU's
 * number divided by the CPUs per node.
 * When: a guest program executes 32 marks "bit 0" or "bit 1" and one mark "dump"
 * (NOPs, see the guest's mark_amd64.s): with tag 0 counting begins, with another the
 * counts go to the file under that tag, and counting ends. Marks come from one thread at
 * a time, and the counts are exact when the walkers stand still meanwhile.
 * While nothing is counted no access is looked at, and the guest runs as without a
 * plugin: each beginning and end lets QEMU translate anew what it runs. The vCPU that
 * executed the mark does not go on before (qemu_plugin_reset queues that as work for it,
 * which it does before its next block).
 *
 * Arguments: out=PATH, cpn=CPUS_PER_NODE, range=FROM-TO-NODE (hex) for each
 * piece of RAM.
 *
 * With cache=BYTES, each group of cpc=CPUS_PER_CACHE CPUs (those of a node, unless told
 * otherwise) has a last-level cache of ways=WAYS (16) and line=BYTES (64), see cache.h. Then
 * every access of user-space code goes through it, also those of no slot, for they take room
 * in the caches; these are written out under slot -1. For each slot and pair of nodes there
 * are three figures more: misses, which that memory served, and lines taken from a cache of
 * the CPU's own node (near) and of another (far). The caches are empty when counting begins.
 *
 * With turns=on all vCPUs take turns on one thread (-icount). There QEMU hands a callback the
 * number of the vCPU for which the code was translated first (gen_cpu_index, plugin-gen.c), so
 * that the CPU is found another way: in user space, GS's hidden base is the kernel's per-CPU
 * memory (k_gs_base). Which CPU has which, the guest says: on each CPU it executes the mark
 * "here" (number 5) after 32 bits that are the CPU's number.
 *
 * These are numbers of accesses and, with a cache, of its misses. They say nothing about
 * time. Page walks are not seen: QEMU walks page tables in C, and calls no plugin for it.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cache.h"

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_hwaddr;
typedef struct {
	const char *target_name;
	struct { int min, cur; } version;
	bool system_emulation;
	struct { int smp_vcpus, max_vcpus; } system;
} qemu_info_t;
enum { CB_NO_REGS = 0, CB_R_REGS = 1, MEM_RW = 3 };

/* GLib's arrays, in which QEMU hands over registers; both are linked with it. */
typedef struct { uint8_t *data; unsigned len; } GByteArray;
typedef struct { char *data; unsigned len; } GArray;
typedef struct { void *handle; const char *name, *feature; } qemu_register_t;
GByteArray *g_byte_array_new(void);
GByteArray *g_byte_array_set_size(GByteArray *, unsigned);
GArray *qemu_plugin_get_registers(void);
int qemu_plugin_read_register(void *, GByteArray *);
void qemu_plugin_register_vcpu_init_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, unsigned));

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *, void *, size_t);
void qemu_plugin_reset(qemu_plugin_id_t, void (*)(qemu_plugin_id_t));
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t,
	void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *,
	void (*)(unsigned, qemu_plugin_meminfo_t, uint64_t, void *), int, int, void *);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *,
	void (*)(unsigned, void *), int, void *);
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t, uint64_t);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *);

EXPORT int qemu_plugin_version = 4;

enum { MAX_CPU = 64, MAX_NODE = 16, NOWHERE = MAX_NODE, SLOTS = 16, WATCHES = 32, NO_SLOT = WATCHES, FIRST = 0x40, MAX_RANGE = 32 };
enum { LOADS, STORES, MISSES, NEAR, FAR, KINDS };

/* One table per vCPU, so that vCPU threads never write the same line. */
static struct {
	uint64_t n[WATCHES + 1][MAX_NODE + 1][KINDS];
} __attribute__((aligned(128))) count[MAX_CPU];

static struct { uint64_t from, to; int node; } range[MAX_RANGE];
static struct { uint64_t from, to; } watch[WATCHES];
static uint64_t base[MAX_CPU]; /* with turns: of each CPU's memory in the kernel */
static void *base_register;
static int ranges, per_node = 1, per_cache, cpus, watches;
static uint32_t tag;
static bool counting, caches, turns;
static qemu_plugin_id_t self;
static FILE *out;

static int node_of(uint64_t pa)
{
	for (int i = 0; i < ranges; i++)
		if (pa >= range[i].from && pa < range[i].to)
			return range[i].node;
	return NOWHERE;
}

static void find_register(qemu_plugin_id_t id, unsigned cpu)
{
	GArray *all = qemu_plugin_get_registers();
	qemu_register_t *r = (qemu_register_t *)all->data;

	for (unsigned i = 0; i < all->len; i++)
		if (!strcmp(r[i].name, "k_gs_base"))
			base_register = r[i].handle;
}

/* base_now is the base of the CPU whose turn it is. */
static uint64_t base_now(void)
{
	static GByteArray *bytes;
	uint64_t now = 0;

	if (!bytes)
		bytes = g_byte_array_new();
	g_byte_array_set_size(bytes, 0);
	if (base_register && qemu_plugin_read_register(base_register, bytes) == sizeof now)
		memcpy(&now, bytes->data, sizeof now);
	return now;
}

/* cpu_now is the CPU whose turn it is; MAX_CPU if the guest has not said. */
static unsigned cpu_now(void)
{
	static unsigned last;
	uint64_t now = base_now();

	if (now && base[last] == now)
		return last;
	for (unsigned c = 0; c < MAX_CPU && now; c++)
		if (base[c] == now)
			return last = c;
	return MAX_CPU;
}

static void seen(unsigned cpu, qemu_plugin_meminfo_t info, uint64_t va, void *unused)
{
	uint64_t slot = (va >> 40) - FIRST;

	if (slot >= SLOTS)
		slot = NO_SLOT;
	for (int i = 0; i < watches; i++)
		if (va >= watch[i].from && va < watch[i].to)
			slot = i;
	if (slot == NO_SLOT && !caches)
		return;
	if (turns)
		cpu = cpu_now();
	if (cpu >= MAX_CPU)
		return;
	struct qemu_plugin_hwaddr *h = qemu_plugin_get_hwaddr(info, va);
	int node = NOWHERE;
	uint64_t pa = 0;
	if (h && !qemu_plugin_hwaddr_is_io(h)) {
		pa = qemu_plugin_hwaddr_phys_addr(h);
		node = node_of(pa);
	}
	bool store = qemu_plugin_mem_is_store(info);
	uint64_t *n = count[cpu].n[slot][node];
	n[store ? STORES : LOADS]++;
	if (!caches || node == NOWHERE)
		return;
	int own = cpu / per_cache, from;
	switch (cache_access(own, pa, store, &from)) {
	case HIT:
		break;
	case TAKEN:
		n[from * per_cache / per_node == (int)cpu / per_node ? NEAR : FAR]++;
		break;
	case MISS:
		n[MISSES]++;
	}
}

/* dump_pair writes the line of a slot, the CPUs of a node and the memory of a node. */
static void dump_pair(int s, int first, int m)
{
	uint64_t n[KINDS] = { 0 };

	for (int c = first; c < first + per_node && c < cpus; c++)
		for (int k = 0; k < KINDS; k++)
			n[k] += count[c].n[s][m][k];
	if (!n[LOADS] && !n[STORES])
		return;
	fprintf(out, "tag=%" PRIu32 " slot=%d cpunode=%d memnode=%d loads=%" PRIu64 " stores=%" PRIu64,
		tag, s == NO_SLOT ? -1 : s, first / per_node, m == NOWHERE ? -1 : m, n[LOADS], n[STORES]);
	if (caches)
		fprintf(out, " misses=%" PRIu64 " near=%" PRIu64 " far=%" PRIu64, n[MISSES], n[NEAR], n[FAR]);
	fputc('\n', out);
}

/* dump writes one line for each (slot, CPU's node, memory's node) seen. */
static void dump(void)
{
	for (int s = 0; s <= NO_SLOT; s++)
		for (int first = 0; first < cpus; first += per_node)
			for (int m = 0; m <= MAX_NODE; m++)
				dump_pair(s, first, m);
	fprintf(out, "tag=%" PRIu32 " end\n", tag);
	fflush(out);
}

static void translate(qemu_plugin_id_t, struct qemu_plugin_tb *);

static void translate_anew(qemu_plugin_id_t id)
{
	qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
}

static void mark(unsigned cpu, void *what)
{
	switch ((int)(intptr_t)what) {
	case 0:
	case 1:
		tag = tag << 1 | (uint32_t)(intptr_t)what;
		break;
	case 2:
		if (tag) {
			dump();
		} else {
			memset(count, 0, sizeof count);
			if (caches)
				cache_clear();
		}
		if (counting != !tag) {
			counting = !tag;
			qemu_plugin_reset(self, translate_anew);
		}
		tag = 0;
		break;
	case 3:
		if (watches < WATCHES)
			watch[watches].from = (uint64_t)tag << 21;
		tag = 0;
		break;
	case 4:
		if (watches < WATCHES)
			watch[watches++].to = (uint64_t)tag << 21;
		tag = 0;
		break;
	case 5:
		if (turns && tag < MAX_CPU)
			base[tag] = base_now();
		tag = 0;
	}
}

static void translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	/* nopl disp32(%rax) whose displacement spells 'H' 'N' and the mark's number */
	static const uint8_t sign[] = { 0x0f, 0x1f, 0x80, 'H', 'N', 0x00 };
	size_t n = qemu_plugin_tb_n_insns(tb);

	for (size_t i = 0; i < n; i++) {
		struct qemu_plugin_insn *in = qemu_plugin_tb_get_insn(tb, i);
		uint8_t b[16];

		if (qemu_plugin_insn_vaddr(in) >> 47) /* the kernel's half */
			continue;
		if (qemu_plugin_insn_data(in, b, sizeof b) == 7 && !memcmp(b, sign, sizeof sign) && b[6] <= 5) {
			qemu_plugin_register_vcpu_insn_exec_cb(in, mark, turns ? CB_R_REGS : CB_NO_REGS, (void *)(intptr_t)b[6]);
			continue;
		}
		if (counting)
			qemu_plugin_register_vcpu_mem_cb(in, seen, turns ? CB_R_REGS : CB_NO_REGS, MEM_RW, NULL);
	}
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	unsigned long long bytes = 0;
	int ways = 16, line = 64;

	for (int i = 0; i < argc; i++) {
		unsigned long long from, to;
		int node;

		if (!strncmp(argv[i], "out=", 4)) {
			out = fopen(argv[i] + 4, "w");
		} else if (sscanf(argv[i], "range=%llx-%llx-%d", &from, &to, &node) == 3 &&
			   ranges < MAX_RANGE && node >= 0 && node < MAX_NODE) {
			range[ranges].from = from;
			range[ranges].to = to;
			range[ranges++].node = node;
		} else if (!strcmp(argv[i], "turns=on")) {
			turns = true;
		} else if (sscanf(argv[i], "cache=%llu", &bytes) != 1 && sscanf(argv[i], "ways=%d", &ways) != 1 &&
			   sscanf(argv[i], "line=%d", &line) != 1 && (sscanf(argv[i], "cpc=%d", &per_cache) != 1 || per_cache < 1) &&
			   (sscanf(argv[i], "cpn=%d", &per_node) != 1 || per_node < 1)) {
			fprintf(stderr, "numacount: bad argument %s\n", argv[i]);
			return -1;
		}
	}
	if (!out || !ranges) {
		fprintf(stderr, "numacount: needs out= and range=\n");
		return -1;
	}
	cpus = info->system.max_vcpus < MAX_CPU ? info->system.max_vcpus : MAX_CPU;
	if (!per_cache)
		per_cache = per_node;
	caches = bytes > 0;
	if (per_node % per_cache || (caches && !cache_open((cpus + per_cache - 1) / per_cache, bytes, ways, line))) {
		fprintf(stderr, "numacount: no cache has %llu bytes, %d ways and lines of %d bytes for %d of %d CPUs\n",
			bytes, ways, line, per_cache, per_node);
		return -1;
	}
	self = id;
	if (turns)
		qemu_plugin_register_vcpu_init_cb(id, find_register);
	qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
	return 0;
}
