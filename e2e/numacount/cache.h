/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cache: the last-level caches of a machine, one for each group of CPUs.
 *
 * Set-associative, least recently used out first, write-back, filled by loads and by stores.
 * A line is held by any number of caches while it is clean, and by one cache alone once it is
 * written (MESI without its fourth state). An access is served by
 *   HIT    the CPU's own cache;
 *   TAKEN  another cache that holds the line modified: it is handed over, and memory is not read;
 *   MISS   memory. A clean copy in another cache does not help, as on most servers.
 * A load leaves the line clean in both caches after TAKEN; a store leaves it in its own alone.
 *
 * A hash of the line chooses its set, as in the caches of servers, whose slices are hashed: a walk
 * in large steps would else use few of the sets. All caches have the same size, so that a line
 * belongs to the same set in each of them, and one lock for the set is enough. The same accesses in
 * the same order give the same answers.
 *
 * Not modelled: L1 and L2 (each access arrives here), prefetching, instruction fetches, the traffic
 * of lines that are written back. No QEMU in here: trace.c runs it on a file.
 */
#ifndef NUMACOUNT_CACHE_H
#define NUMACOUNT_CACHE_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum served { HIT, TAKEN, MISS };
enum { MAX_CACHE = 64, LOCKS = 1 << 12, MODIFIED = 1 };

static struct {
	int caches, ways, line_bits;
	uint64_t sets;
	uint64_t *way; /* [cache][set][way]: (line + 1) << 1 | MODIFIED, newest first; 0 is empty */
	bool lock[LOCKS];
} llc;

/* cache_open makes the caches. It reports whether the numbers make one. */
static bool cache_open(int caches, uint64_t bytes, int ways, int line)
{
	if (caches < 1 || caches > MAX_CACHE || ways < 1 || line < 8 || line & (line - 1))
		return false;
	if (bytes == 0 || bytes % ((uint64_t)ways * line))
		return false;
	llc.caches = caches;
	llc.ways = ways;
	llc.line_bits = __builtin_ctz(line);
	llc.sets = bytes / ways / line;
	llc.way = calloc((size_t)caches * llc.sets * ways, sizeof *llc.way);
	return llc.way;
}

static void cache_clear(void)
{
	memset(llc.way, 0, (size_t)llc.caches * llc.sets * llc.ways * sizeof *llc.way);
}

/* cache_index is the set of a line: Fibonacci hashing (Knuth, 6.4), 2^64 over the golden ratio. */
static uint64_t cache_index(uint64_t line)
{
	return (line * 0x9e3779b97f4a7c15u >> 32) % llc.sets;
}

static uint64_t *cache_set(int cache, uint64_t set)
{
	return llc.way + ((uint64_t)cache * llc.sets + set) * llc.ways;
}

static int cache_find(const uint64_t *set, uint64_t line)
{
	for (int i = 0; i < llc.ways; i++)
		if (set[i] >> 1 == line + 1)
			return i;
	return -1;
}

/* cache_front makes entry the newest of its set, in the place of what was at i. */
static void cache_front(uint64_t *set, int i, uint64_t entry)
{
	memmove(set + 1, set, i * sizeof *set);
	set[0] = entry;
}

/* cache_drop takes the entry at i out: what is older moves up. */
static void cache_drop(uint64_t *set, int i)
{
	memmove(set + i, set + i + 1, (llc.ways - 1 - i) * sizeof *set);
	set[llc.ways - 1] = 0;
}

static enum served cache_locked(int own, uint64_t line, bool store, int *from)
{
	uint64_t index = cache_index(line), *mine = cache_set(own, index);
	uint64_t entry = (line + 1) << 1 | (store ? MODIFIED : 0);
	enum served by = MISS;
	int at = cache_find(mine, line);

	if (at >= 0) {
		by = HIT;
		entry |= mine[at] & MODIFIED;
		if (mine[at] & MODIFIED || !store) { /* no other cache has to know */
			cache_front(mine, at, entry);
			return HIT;
		}
	}
	for (int c = 0; c < llc.caches; c++) {
		uint64_t *other = cache_set(c, index);
		int i = c == own ? -1 : cache_find(other, line);

		if (i < 0)
			continue;
		if (other[i] & MODIFIED) {
			by = TAKEN;
			*from = c;
		}
		if (store)
			cache_drop(other, i);
		else
			other[i] &= ~(uint64_t)MODIFIED;
	}
	cache_front(mine, at >= 0 ? at : llc.ways - 1, entry);
	return by;
}

/* cache_access says what serves an access of a CPU with cache own; from is the cache of TAKEN. */
static enum served cache_access(int own, uint64_t address, bool store, int *from)
{
	uint64_t line = address >> llc.line_bits;
	bool *lock = &llc.lock[cache_index(line) % LOCKS];

	while (__atomic_test_and_set(lock, __ATOMIC_ACQUIRE))
		sched_yield(); /* more vCPUs than CPUs: the holder may not run */
	enum served by = cache_locked(own, line, store, from);
	__atomic_clear(lock, __ATOMIC_RELEASE);
	return by;
}

#endif
