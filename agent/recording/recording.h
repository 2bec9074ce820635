// SPDX-License-Identifier: Apache-2.0
/*
 * Reads a recording from a file: pprof (profile.proto, gzip or not), OTLP profiles (an export request, as
 * `record` writes it, or ProfilesData, both of v1development) and folded stacks. The content says which it
 * is. Each file may be ours or another program's, and may be damaged or made to harm: sizes are bounded.
 */
#ifndef PROFLET_RECORDING_RECORDING_H
#define PROFLET_RECORDING_RECORDING_H

#include <stddef.h>
#include <stdint.h>

#include "agent/recording/recording_types.h"

/*
 * Calls `on_stack` for each stack of the file. 0; -EBADMSG: it is no recording, or a damaged one; -EFBIG: it
 * is too large; -ENOENT: it has no values of that type; -errno of opening and reading it; -ENOMEM. Then
 * *ret_why is a line without newline that names the file (owned; NULL: no memory), unless the callback ended
 * it. *ret is to be released in any case.
 */
int recording_read(const char *path, const struct recording_options *options, recording_stack_fn on_stack,
		   void *data, struct recording_info *ret, char **ret_why);
/* The same of bytes; `name` stands for the file in *ret_why. */
int recording_read_bytes(const void *bytes, size_t n, const char *name,
			 const struct recording_options *options, recording_stack_fn on_stack, void *data,
			 struct recording_info *ret, char **ret_why);
void recording_info_fini(struct recording_info *info); /* zeroed is fine */

#endif
