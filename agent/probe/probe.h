// SPDX-License-Identifier: Apache-2.0
/*
 * The BPF program's life: open → configure → load → attach, its segments, its ring of samples, its counters.
 * Rank 1.
 */
#ifndef PROFLET_PROBE_PROBE_H
#define PROFLET_PROBE_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/abi.h"

/* AUTO: cycles, else cpu-clock, else, where perf_event_open is refused, the tick. */
enum probe_event { PROBE_EVENT_AUTO, PROBE_EVENT_CYCLES, PROBE_EVENT_CPU_CLOCK, PROBE_EVENT_TICK };

struct probe_options {
	enum probe_event event;
	uint32_t frequency_hz; /* samples a second and CPU */
	uint32_t user_frames;  /* most of a stack, up to USER_FRAMES_MAX */
	uint32_t max_segments; /* of the arena, up to SEGMENTS_MAX */
	size_t ring_bytes;     /* rounded up to a power of two of pages; 0: by frequency and CPUs */
};

struct probe;

/*
 * Opens and configures the program, and begins to load it, which takes a tenth of a second: it goes on beside
 * the caller, who may call probe_is_tick, probe_segment_new and probe_free, and then probe_loaded. 0, -EPERM
 * (capability or policy), -errno; *ret_log gets the verifier's or libbpf's last words (owned, may be NULL) on
 * failure. With the tick -ENOTSUP when the kernel's symbols do not tell where it is, -EKEYREJECTED when they
 * are hidden.
 */
int probe_new(struct probe **ret, const struct probe_options *options, char **ret_log);
/* Once, before anything else: waits until the program is loaded. As probe_new; it is the caller's still. */
int probe_loaded(struct probe *p, char **ret_log);
void probe_free(struct probe *p);
/* Opens the sampling event on every online CPU and attaches the program. */
int probe_attach(struct probe *p);
/*
 * Once attached, now and then: samples CPUs that came online, lets go of those that went. Returns the number
 * of CPUs that changed, or -errno of one that cannot be sampled; it is tried again the next time.
 */
int probe_follow(struct probe *p);
/* Samples at this rate from now on, also on CPUs that come later. 0; or -errno, and all goes on as it was. */
int probe_set_frequency(struct probe *p, uint32_t frequency_hz);
/* Closes the events; what is in the ring stays there. */
void probe_detach(struct probe *p);
/* Whether a probe for this event would sample by the tick. */
bool probe_takes_tick(enum probe_event event);
/* Samples by the tick: no perf event may or shall be opened, and no perf side-band either. */
bool probe_is_tick(const struct probe *p);
/* 0 when a perf event of the whole host can be opened, else -errno. */
int probe_perf_allowed(void);
/* With the tick only: attaches the programs that tell what tasks do. *ret is the caller's; 0 or -errno. */
struct tasks;
int probe_tasks_open(struct probe *p, struct tasks **ret);
/* The event in use: "cycles", "cpu-clock" or "tick". Static string. */
const char *probe_event_name(const struct probe *p);
uint32_t probe_cpus(const struct probe *p);

/*
 * Makes segment `index` of the arena: SEGMENT_VALUE zeroed bytes shared with the program, mapped until
 * probe_free. 0, -ENOMEM, -ENOSPC past max_segments.
 */
int probe_segment_new(struct probe *p, uint32_t index, void **ret);

/* Readable when much waits; the ring is to be drained by timer. Borrowed. */
int probe_ring_fd(struct probe *p);
/* Hands every waiting record to fn; the bytes are valid in the call only. Returns how many, or -errno. */
typedef void (*probe_sample_fn)(const void *record, size_t len, void *data);
int probe_ring_drain(struct probe *p, probe_sample_fn fn, void *data);

/* Since the start, of all CPUs. */
struct probe_sums {
	uint64_t counters[PROBE_COUNTERS_N];
	uint64_t cpu_ns;	/* what samples cost in the kernel, by every TIMED_EVERYth (bpf/area.h) */
	uint64_t ring_pressure; /* samples sent without their saved stack because the ring was more than half
				   full */
};
/* 0 or -errno, with zeros. */
int probe_sums(struct probe *p, struct probe_sums *ret);
/*
 * What the kernel says of the sampling program: its time and how often it ran, since the start. Both stand
 * still while kernel.bpf_stats_enabled is 0, as it is by default. 0 or -errno, with zeros.
 */
int probe_run_time(const struct probe *p, uint64_t *ret_ns, uint64_t *ret_runs);
/* Memory that the kernel holds for the maps: arena, areas, ring. Bytes. */
size_t probe_map_bytes(const struct probe *p);

#endif
