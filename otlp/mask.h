// SPDX-License-Identifier: Apache-2.0
/* Masks secrets in a server's text, which may quote the request. Pure. Rank 1 (otlp). */
#ifndef PROFLET_OTLP_MASK_H
#define PROFLET_OTLP_MASK_H

#include "otlp/headers.h"

#define OTLP_MASK_LEAST 6 /* minimum length of a secret; shorter values are not masked */

/*
 * Overwrites the secret in `text` with '*', from its begin to the end of the word. The text may be cut
 * anywhere, so a word that begins like the secret is masked, too.
 */
void otlp_mask(char *text, const char *secret);
/* Masks each word of each header's value, except a leading scheme such as "Bearer". */
void otlp_mask_headers(char *text, const struct otlp_headers *headers);

#endif
