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
 * These are numbers of accesses. They say nothing about caches or time.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

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
enum { CB_NO_REGS = 0, MEM_RW = 3 };

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

enum { MAX_CPU = 64, MAX_NODE = 16, NOWHERE = MAX_NODE, SLOTS = 16, FIRST = 0x40, MAX_RANGE = 32 };

/* One table per vCPU, so that vCPU threads never write the same line. */
static struct {
	uint64_t n[SLOTS][MAX_NODE + 1][2]; /* [..][loads, stores] */
} __attribute__((aligned(128))) count[MAX_CPU];

static struct { uint64_t from, to; int node; } range[MAX_RANGE];
static struct { uint64_t from, to; } watch[SLOTS];
static int ranges, per_node = 1, cpus, watches;
static uint32_t tag;
static bool counting;
static qemu_plugin_id_t self;
static FILE *out;

static int node_of(uint64_t pa)
{
	for (int i = 0; i < ranges; i++)
		if (pa >= range[i].from && pa < range[i].to)
			return range[i].node;
	return NOWHERE;
}

static void seen(unsigned cpu, qemu_plugin_meminfo_t info, uint64_t va, void *unused)
{
	uint64_t slot = (va >> 40) - FIRST;

	for (int i = 0; i < watches; i++)
		if (va >= watch[i].from && va < watch[i].to)
			slot = i;
	if (slot >= SLOTS || cpu >= MAX_CPU)
		return;
	struct qemu_plugin_hwaddr *h = qemu_plugin_get_hwaddr(info, va);
	int node = NOWHERE;
	if (h && !qemu_plugin_hwaddr_is_io(h))
		node = node_of(qemu_plugin_hwaddr_phys_addr(h));
	count[cpu].n[slot][node][qemu_plugin_mem_is_store(info)]++;
}

/* dump writes one line for each (slot, CPU's node, memory's node) seen. */
static void dump(void)
{
	for (int s = 0; s < SLOTS; s++)
		for (int first = 0; first < cpus; first += per_node)
			for (int m = 0; m <= MAX_NODE; m++) {
				uint64_t loads = 0, stores = 0;

				for (int c = first; c < first + per_node && c < cpus; c++) {
					loads += count[c].n[s][m][0];
					stores += count[c].n[s][m][1];
				}
				if (loads || stores)
					fprintf(out, "tag=%" PRIu32 " slot=%d cpunode=%d memnode=%d loads=%" PRIu64 " stores=%" PRIu64 "\n",
						tag, s, first / per_node, m == NOWHERE ? -1 : m, loads, stores);
			}
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
		if (tag)
			dump();
		else
			memset(count, 0, sizeof count);
		if (counting != !tag) {
			counting = !tag;
			qemu_plugin_reset(self, translate_anew);
		}
		tag = 0;
		break;
	case 3:
		if (watches < SLOTS)
			watch[watches].from = (uint64_t)tag << 21;
		tag = 0;
		break;
	case 4:
		if (watches < SLOTS)
			watch[watches++].to = (uint64_t)tag << 21;
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
		if (qemu_plugin_insn_data(in, b, sizeof b) == 7 && !memcmp(b, sign, sizeof sign) && b[6] <= 4) {
			qemu_plugin_register_vcpu_insn_exec_cb(in, mark, CB_NO_REGS, (void *)(intptr_t)b[6]);
			continue;
		}
		if (counting)
			qemu_plugin_register_vcpu_mem_cb(in, seen, CB_NO_REGS, MEM_RW, NULL);
	}
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
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
		} else if (sscanf(argv[i], "cpn=%d", &per_node) != 1 || per_node < 1) {
			fprintf(stderr, "numacount: bad argument %s\n", argv[i]);
			return -1;
		}
	}
	if (!out || !ranges) {
		fprintf(stderr, "numacount: needs out= and range=\n");
		return -1;
	}
	cpus = info->system.max_vcpus < MAX_CPU ? info->system.max_vcpus : MAX_CPU;
	self = id;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
	return 0;
}
