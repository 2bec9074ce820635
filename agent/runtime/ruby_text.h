// SPDX-License-Identifier: Apache-2.0
/* Names of Ruby's code as Ruby 3.4 has them in backtraces, of what was read in a process. Pure. Rank 3. */
#ifndef PROFLET_RUNTIME_RUBY_TEXT_H
#define PROFLET_RUNTIME_RUBY_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct buf;

/* A string: its length in 8 bytes, and the beginning of it. */
struct ruby_string {
	const uint8_t *bytes;
	size_t len; /* 0: there is none */
};

/*
 * Appends the text of a string. 1: its end is missing, "…" stands for it; 0: it is whole; -EBADMSG: there is
 * no string; -ENOMEM, -EOVERFLOW.
 */
int ruby_text_append(struct buf *out, struct ruby_string s);
/*
 * Appends the name of code with that label: "Class#method" and "Class.method" for methods of classes that
 * have names, "block in Class#method", else the label. `form`: RUNTIME_FORM_* (bpf/abi.h). As above.
 */
int ruby_name_append(struct buf *out, struct ruby_string label, struct ruby_string class, uint32_t form);

#endif
