// SPDX-License-Identifier: Apache-2.0
/*
 * Names of Perl (HEK: u32 hash, s32 length, bytes), as bytes that were read in a process: → UTF-8. Pure.
 * Rank 3.
 */
#ifndef PROFLET_RUNTIME_PERL_TEXT_H
#define PROFLET_RUNTIME_PERL_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct buf;

/*
 * Appends the name whose first `len` bytes are at `hek`, as utf8_text_append; one that is no UTF-8 has a
 * byte for each character, as Perl keeps names that have no larger ones. 1: it goes on behind the bytes,
 * "…" follows; 0: it is whole; -EBADMSG: there is no name; -ENOMEM, -EOVERFLOW. On error, nothing is
 * appended.
 */
int perl_text_append(struct buf *out, const uint8_t *hek, size_t len);

#endif
