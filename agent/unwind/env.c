// SPDX-License-Identifier: Apache-2.0
/* What bpf/unwind.h works on when it is compiled for the host: set by the caller for the time of one unwind.
 */
#include "bpf/env.h"

_Thread_local const struct env *env_current;
