/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * still: keeps the host's time out of a guest in virtual time, so that it runs the same way each time.
 *
 * With -icount and sleep=off QEMU lets two things of the host into the guest:
 *
 * 1. Which thread is first. All CPUs take turns on one thread. When all are idle, QEMU's main loop
 *    moves the guest's clock to the next timer and wakes that thread (icount_start_warp_timer,
 *    accel/tcg/icount-common.c). It asks only whether all CPUs are halted, and may come while the
 *    CPUs' thread has not gone to sleep yet. Then the instructions that the last CPU has run are not
 *    in the clock yet (icount_process_data comes later, without the lock), and the clock moves too
 *    far; and the CPUs' thread breaks off its round (rr_cpu_thread_fn, accel/tcg/tcg-accel-ops-rr.c)
 *    and begins the next one at another CPU. Each timer of the guest's clock wakes the main loop
 *    (qemu_clock_notify), so it has the chance some thousand times a second.
 *    Here the main loop, back from waiting for events, waits until the CPUs' thread sleeps too; a
 *    thread that is woken counts as awake from the signal on. Where the CPUs are busy for long, the
 *    main loop goes on after PATIENCE: it has to hear that the rig gives the guest up.
 *
 * 2. The size of QEMU's own TLB. It shrinks by the host's clock (tlb_mmu_resize_locked,
 *    accel/tcg/cputlb.c: 100 ms of gettimeofday), and two guests of one seed part by a few
 *    instructions some seconds later. Here that clock goes on by 1 ms with each question.
 *
 * Preloaded into QEMU (LD_PRELOAD), hence GPL. QEMU waits for events by ppoll, in its main thread
 * alone; the one other thread that waits for a condition is that of the CPUs.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { PATIENCE = 10, BEGINNING = 1767225600 }; /* s, and s since 1970 */

static atomic_int awake;                    /* the CPUs' thread, 0 or 1 */
static _Atomic(pthread_cond_t *) condition; /* that it waits for when all CPUs are idle */

static bool main_thread(void)
{
	static _Thread_local int is;

	if (!is)
		is = getpid() == gettid() ? 1 : -1;
	return is > 0;
}

/* original is glibc's function. Conditions have had a second version since 2.3.2, but on newer machines. */
static void *original(const char *name)
{
	void *f = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");

	return f ? f : dlsym(RTLD_NEXT, name);
}

EXPORT int pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
	static int (*wait)(pthread_cond_t *, pthread_mutex_t *);

	if (!wait)
		wait = original("pthread_cond_wait");
	if (main_thread())
		return wait(c, m);
	condition = c;
	awake = 0;
	syscall(SYS_futex, &awake, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	int r = wait(c, m);
	awake = 1;
	return r;
}

EXPORT int pthread_cond_broadcast(pthread_cond_t *c)
{
	static int (*broadcast)(pthread_cond_t *);

	if (!broadcast)
		broadcast = original("pthread_cond_broadcast");
	if (c == condition)
		awake = 1;
	return broadcast(c);
}

EXPORT int pthread_cond_signal(pthread_cond_t *c)
{
	static int (*signal)(pthread_cond_t *);

	if (!signal)
		signal = original("pthread_cond_signal");
	if (c == condition)
		awake = 1;
	return signal(c);
}

EXPORT int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *limit, const sigset_t *signals)
{
	static int (*poll)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);
	struct timespec patience = { .tv_sec = PATIENCE };

	if (!poll)
		poll = dlsym(RTLD_NEXT, "ppoll");
	int r = poll(fds, n, limit, signals), error = errno;
	while (awake)
		if (syscall(SYS_futex, &awake, FUTEX_WAIT_PRIVATE, 1, &patience, NULL, 0) && errno == ETIMEDOUT)
			break;
	errno = error;
	return r;
}

/* gettimeofday is 1 ms later with each call of a thread. */
EXPORT int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	static _Thread_local int64_t ms;

	(void)zone;
	ms++;
	now->tv_sec = BEGINNING + ms / 1000;
	now->tv_usec = ms % 1000 * 1000;
	return 0;
}
