// SPDX-License-Identifier: Apache-2.0
/* Texts of servers, which may repeat what they were sent, without the secrets among it. Pure. Rank 1 (otlp).
 */
#ifndef PROFLET_OTLP_MASK_H
#define PROFLET_OTLP_MASK_H

#include "otlp/headers.h"

#define OTLP_MASK_LEAST 6 /* bytes of a secret; what is shorter is none */

/*
 * Overwrites in place, with '*', every word of `text` from where it is the secret or begins like it: a text
 * may have been cut anywhere.
 */
void otlp_mask(char *text, const char *secret);
/* Each word of the values of headers, but for a scheme such as "Bearer" in front. */
void otlp_mask_headers(char *text, const struct otlp_headers *headers);

#endif
