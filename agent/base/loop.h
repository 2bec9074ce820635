// SPDX-License-Identifier: Apache-2.0
/*
 * One epoll loop: file descriptors, timers, signals. Callbacks run on the thread that calls loop_run and must
 * not block; a callback that returns < 0 ends loop_run with that value. Sources are owned by the loop.
 */
#ifndef PROFLET_BASE_LOOP_H
#define PROFLET_BASE_LOOP_H

#include <signal.h>
#include <stdint.h>

struct loop;
struct loop_source;

typedef int (*loop_fd_fn)(int fd, uint32_t events, void *data);
typedef int (*loop_timer_fn)(uint64_t expirations, void *data);
typedef int (*loop_signal_fn)(int signo, void *data);

int loop_new(struct loop **ret);
void loop_free(struct loop *l);
/* Watches `fd` (EPOLL* mask); the fd stays the caller's. *ret may be NULL. */
int loop_add_fd(struct loop *l, int fd, uint32_t events, loop_fd_fn fn, void *data, struct loop_source **ret);
int loop_set_events(struct loop_source *s, uint32_t events);
/* Calls back after first_ns, then every period_ns (0: only once). */
int loop_add_timer(struct loop *l, uint64_t first_ns, uint64_t period_ns, loop_timer_fn fn, void *data,
		   struct loop_source **ret);
int loop_set_timer(struct loop_source *s, uint64_t first_ns, uint64_t period_ns);
/* Blocks the signals of `set` for the calling thread and delivers them here. */
int loop_add_signals(struct loop *l, const sigset_t *set, loop_signal_fn fn, void *data);
/* Safe inside the source's own callback. NULL is fine. */
void loop_remove(struct loop_source *s);
/* Sets a function that is called after the sources of each wakeup. */
void loop_set_after(struct loop *l, void (*fn)(void *data), void *data);
/* Runs until loop_stop; returns 0 or the failing callback's value. */
int loop_run(struct loop *l);
void loop_stop(struct loop *l);

#endif
