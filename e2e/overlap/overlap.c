/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * overlap: counts the instructions that work of online-strict executes on a vCPU while its
 * SMT sibling executes batch work.
 *
 * A QEMU TCG plugin, hence GPL (it is loaded into QEMU). The few prototypes used are
 * declared here; they are those of plugin API version 4 (QEMU 9.2 on).
 *
 * Whose: the code of batch work lies at 64 TiB, that of online-strict at 65 TiB: the
 * guest maps both there (e2e/guest/share/turns_amd64.go), so that an address says whose it is.
 * Where: each turn of work reads the byte of its CPU (from 2 KiB on in its page): the
 * address says which. The number that QEMU gives a callback is no help: with one thread for
 * all vCPUs that is the one which translated the code first (gen_cpu_index, plugin-gen.c).
 * At the same time: all vCPUs take turns on one thread (-icount), and within ROUND each
 * that is busy has had its own. So a turn of online-strict work is beside batch work
 *   at most, if the sibling did some within the last ROUND;
 *   at least, if it goes on with that within ROUND.
 * What lies between is begun beside batch work that then leaves.
 * When: marks as in numacount.c. "dump" writes one line and clears:
 *   tag=T batch=N strict=N least=N most=N
 * in instructions.
 *
 * Argument: out=PATH. The siblings are vCPUs 2n and 2n+1.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef struct {
	const char *target_name;
	struct { int min, cur; } version;
	bool system_emulation;
	struct { int smp_vcpus, max_vcpus; } system;
} qemu_info_t;
enum { CB_NO_REGS = 0, MEM_R = 1 };

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *, void *, size_t);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t,
	void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *,
	void (*)(unsigned, void *), int, void *);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *,
	void (*)(unsigned, void *), int, void *);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *,
	void (*)(unsigned, uint32_t, uint64_t, void *), int, int, void *);

EXPORT int qemu_plugin_version = 4;

enum { MAX_CPU = 64, FIRST = 0x40, TURN = 32, ROUND = 100000 /* 200 µs, see e2e/rig/qemu.go */ };
enum class { BATCH, STRICT };

static struct cpu {
	uint64_t last;    /* when it did batch work; 0 never */
	uint64_t pending; /* of the sibling's online-strict work, since then and within ROUND of it */
} cpus[MAX_CPU];
static uint64_t executed; /* instructions that were executed, on all vCPUs */
static uint64_t batch, strict, least, most;
static uint32_t tag;
static FILE *out;

static void passes(unsigned unused, void *n)
{
	executed += (uintptr_t)n;
}

static void work(unsigned unused, uint32_t info, uint64_t at, void *whose)
{
	unsigned cpu = at & 0xff;
	struct cpu *c = &cpus[cpu % MAX_CPU], *sibling = &cpus[(cpu ^ 1) % MAX_CPU];

	if ((uintptr_t)whose == STRICT) {
		strict += TURN;
		if (sibling->last && executed - sibling->last <= ROUND) {
			most += TURN;
			sibling->pending += TURN;
		}
		return;
	}
	batch += TURN;
	if (c->last && executed - c->last <= ROUND)
		least += c->pending;
	c->pending = 0;
	c->last = executed;
}

static void mark(unsigned unused, void *what)
{
	switch ((int)(intptr_t)what) {
	case 0:
	case 1:
		tag = tag << 1 | (uint32_t)(intptr_t)what;
		break;
	case 2:
		fprintf(out, "tag=%" PRIu32 " batch=%" PRIu64 " strict=%" PRIu64 " least=%" PRIu64 " most=%" PRIu64 "\n", tag, batch, strict, least, most);
		fflush(out);
		tag = 0;
		batch = strict = least = most = 0;
		memset(cpus, 0, sizeof cpus);
	}
}

static void translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	static const uint8_t sign[] = { 0x0f, 0x1f, 0x80, 'H', 'N', 0x00 };
	size_t n = qemu_plugin_tb_n_insns(tb);
	uint64_t va = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, 0));

	qemu_plugin_register_vcpu_tb_exec_cb(tb, passes, CB_NO_REGS, (void *)(uintptr_t)n);
	if (va >> 47) /* the kernel's */
		return;
	for (size_t i = 0; i < n; i++) {
		struct qemu_plugin_insn *in = qemu_plugin_tb_get_insn(tb, i);
		uint8_t b[16];
		size_t k = qemu_plugin_insn_data(in, b, sizeof b);

		if ((va >> 40) - FIRST <= STRICT) {
			if (k == 3 && b[0] == 0x8a) /* mov (%rsi,%rdx), %al: the one of a turn */
				qemu_plugin_register_vcpu_mem_cb(in, work, CB_NO_REGS, MEM_R, (void *)(uintptr_t)((va >> 40) - FIRST));
		} else if (k == 7 && !memcmp(b, sign, sizeof sign) && b[6] <= 2) {
			qemu_plugin_register_vcpu_insn_exec_cb(in, mark, CB_NO_REGS, (void *)(intptr_t)b[6]);
		}
	}
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	if (argc == 1 && !strncmp(argv[0], "out=", 4))
		out = fopen(argv[0] + 4, "w");
	if (!out) {
		fprintf(stderr, "overlap: needs out=\n");
		return -1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
	return 0;
}
