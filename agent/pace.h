// SPDX-License-Identifier: Apache-2.0
/*
 * How often the main loop looks into the rings by timer: every 100 ms while there is something to do, and
 * every 400 ms after a while in which all samples were whole and nothing else came. Then the first sample
 * that is not whole, or that has frames of a language runtime, wakes the loop at once. It is every 20 ms
 * while what samples have met may be gone soon. Main loop only.
 */
#ifndef PROFLET_PACE_H
#define PROFLET_PACE_H

#include <stdbool.h>
#include <stdint.h>

struct loop;
struct loop_source;

struct pace {
	struct loop_source *timer;
	void (*wake_early)(void *data);
	void *data;
	unsigned calm; /* turns of the timer without anything to do */
	bool slow, brisk;
};

/*
 * Adds the timer to the loop. `turn` is called at each turn, `wake_early` to have the first sample wake the
 * loop that gives it work (probe_ring_wake_early). All are borrowed. 0 or -errno.
 */
int pace_start(struct pace *p, struct loop *loop, int (*turn)(uint64_t expirations, void *data),
	       void (*wake_early)(void *data), void *data);
/* There is something to do: the timer is quick from now on. */
void pace_busy(struct pace *p);
/* The same, where what there is to do cannot be done later: every 20 ms, until pace_busy or pace_calm. */
void pace_hurry(struct pace *p);
/* The rings have been drained at a turn of the timer, and there was nothing to do. */
void pace_calm(struct pace *p);
/* The ring of samples has been drained. */
void pace_drained(struct pace *p);

#endif
