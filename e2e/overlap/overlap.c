/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * overlap: counts the instructions that work of online-strict executes on a vCPU while its
 * SMT sibling executes offline work.
 *
 * A QEMU TCG plugin, hence GPL (it is loaded into QEMU). The few prototypes used are
 * declared here; they are those of plugin API version 4 (QEMU 9.2 on).
 *
 * Whose: the code of offline work lies at 64 TiB, that of online-strict at 65 TiB: the
 * guest maps both there (e2e/guest/turns.go), so that an instruction's address says whose
 * it is. What a vCPU executes is what it executed last in user space; HLT and other
 * programs end it, the kernel does not: a tick amid the work is part of it.
 * At the same time: all vCPUs take turns on one thread (-icount), each to the next timer
 * at most, so that "while" is to a fraction of a timer's period.
 * When: marks as in numacount.c. "dump" writes one line and clears:
 *   tag=T offline=N strict=N shared=N
 * with the instructions of offline work, of online-strict, and those of online-strict
 * while the sibling executes offline work.
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
enum { CB_NO_REGS = 0 };

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

EXPORT int qemu_plugin_version = 4;

enum { MAX_CPU = 64, FIRST = 0x40 };
enum class { OFFLINE, STRICT, NONE };

static enum class now[MAX_CPU];
static uint64_t offline, strict, shared;
static uint32_t tag;
static FILE *out;

static void work(unsigned cpu, void *what)
{
	uintptr_t n = (uintptr_t)what >> 1;

	if (cpu >= MAX_CPU)
		return;
	now[cpu] = (uintptr_t)what & 1;
	if (now[cpu] == OFFLINE) {
		offline += n;
		return;
	}
	strict += n;
	if (now[cpu ^ 1] == OFFLINE)
		shared += n;
}

static void other(unsigned cpu, void *unused)
{
	if (cpu < MAX_CPU)
		now[cpu] = NONE;
}

static void mark(unsigned cpu, void *what)
{
	switch ((int)(intptr_t)what) {
	case 0:
	case 1:
		tag = tag << 1 | (uint32_t)(intptr_t)what;
		break;
	case 2:
		fprintf(out, "tag=%" PRIu32 " offline=%" PRIu64 " strict=%" PRIu64 " shared=%" PRIu64 "\n", tag, offline, strict, shared);
		fflush(out);
		tag = 0;
		offline = strict = shared = 0;
	}
}

static void translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	static const uint8_t sign[] = { 0x0f, 0x1f, 0x80, 'H', 'N', 0x00 };
	size_t n = qemu_plugin_tb_n_insns(tb);
	uint64_t va = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, 0));
	bool kernel = va >> 47;

	if (!kernel && (va >> 40) - FIRST <= STRICT) {
		qemu_plugin_register_vcpu_tb_exec_cb(tb, work, CB_NO_REGS, (void *)(uintptr_t)(n << 1 | ((va >> 40) - FIRST)));
		return;
	}
	if (!kernel)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, other, CB_NO_REGS, NULL);
	for (size_t i = 0; i < n; i++) {
		struct qemu_plugin_insn *in = qemu_plugin_tb_get_insn(tb, i);
		uint8_t b[16];
		size_t k = qemu_plugin_insn_data(in, b, sizeof b);

		if (kernel && k == 1 && b[0] == 0xf4) /* hlt: the vCPU is idle */
			qemu_plugin_register_vcpu_insn_exec_cb(in, other, CB_NO_REGS, NULL);
		else if (!kernel && k == 7 && !memcmp(b, sign, sizeof sign) && b[6] <= 2)
			qemu_plugin_register_vcpu_insn_exec_cb(in, mark, CB_NO_REGS, (void *)(intptr_t)b[6]);
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
	for (int i = 0; i < MAX_CPU; i++)
		now[i] = NONE;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
	return 0;
}
