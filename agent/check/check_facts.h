// SPDX-License-Identifier: Apache-2.0
/* Facts about the system that more than one check needs. */
#ifndef PROFLET_CHECK_FACTS_H
#define PROFLET_CHECK_FACTS_H

#include <linux/capability.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/check/check_view.h"

#ifndef CAP_PERFMON /* headers before Linux 5.9 */
#define CAP_PERFMON 38
#define CAP_BPF 39
#define CAP_CHECKPOINT_RESTORE 40
#endif

/* A set of capabilities has bit n for capability number n of linux/capability.h. */
#define CHECK_CAPABILITY(n) (1ull << (n))
/* Those that CAP_SYS_ADMIN includes. */
#define CHECK_BY_SYS_ADMIN \
	(CHECK_CAPABILITY(CAP_BPF) | CHECK_CAPABILITY(CAP_PERFMON) | CHECK_CAPABILITY(CAP_CHECKPOINT_RESTORE))

/* A kernel version as one number: 0xMMmmpp. */
#define CHECK_VERSION(major, minor, patch) \
	((uint32_t)(major) << 16 | (uint32_t)(minor) << 8 | (uint32_t)(patch))

/* The kernel's upstream version, also where Debian or Ubuntu hide its patch level in another place. 0 or
 * -errno. */
int check_kernel_version(const struct check_view *view, uint32_t *ret);
/* Whether the capability is effective, by itself or through CAP_SYS_ADMIN. */
bool check_has(const struct check_view *view, int capability);
/* As check_has, by itself only. */
bool check_has_itself(const struct check_view *view, int capability);
/* Whether a seccomp filter is active. */
bool check_seccomp_active(const struct check_view *view);
/* kernel.perf_event_paranoid. 0 or -errno. Above 2, which only the kernels of Debian and Ubuntu know, it
 * takes CAP_SYS_ADMIN to open an event. */
int check_paranoid_level(const struct check_view *view, int *ret);
/* Whether `run` would sample at the timer tick, which it finds by the kernel's symbols. */
bool check_takes_tick(const struct check_view *view, const struct config *config);

#endif
