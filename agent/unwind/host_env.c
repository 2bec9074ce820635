// SPDX-License-Identifier: Apache-2.0
/* The environment of bpf/unwind.h on the host: the caller sets it for the duration of one unwind. */
#include "bpf/env.h"

_Thread_local const struct env *env_current;
