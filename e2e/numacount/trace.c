/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * trace: cache.h without QEMU, for its tests. Reads lines "CACHE l|s ADDRESS" (hex), and "clear";
 * writes what serves each access: "hit", "taken CACHE" or "miss".
 *
 *	trace CACHES BYTES WAYS LINE <accesses
 */
#include <inttypes.h>
#include <stdio.h>

#include "cache.h"

int main(int argc, char **argv)
{
	char text[80];

	if (argc != 5 || !cache_open(atoi(argv[1]), strtoull(argv[2], NULL, 10), atoi(argv[3]), atoi(argv[4]))) {
		fprintf(stderr, "trace: bad cache\n");
		return 2;
	}
	while (fgets(text, sizeof text, stdin)) {
		int own, from = -1;
		char kind;
		uint64_t address;

		if (!strcmp(text, "clear\n")) {
			cache_clear();
			continue;
		}
		if (sscanf(text, "%d %c %" SCNx64, &own, &kind, &address) != 3 || own < 0 || own >= llc.caches) {
			fprintf(stderr, "trace: bad line %s", text);
			return 2;
		}
		switch (cache_access(own, address, kind == 's', &from)) {
		case HIT:
			puts("hit");
			break;
		case TAKEN:
			printf("taken %d\n", from);
			break;
		case MISS:
			puts("miss");
		}
	}
	return 0;
}
