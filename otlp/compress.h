// SPDX-License-Identifier: Apache-2.0
/* Content codings: gzip (RFC 1952) and zstd (RFC 8878) over whole buffers. Pure. Rank 1 (otlp). */
#ifndef PROFLET_OTLP_COMPRESS_H
#define PROFLET_OTLP_COMPRESS_H

#include <stddef.h>

#include "agent/base/buf.h"
#include "otlp/request.h"

/* "identity", "gzip", "zstd": the names that HTTP and gRPC use. */
const char *otlp_coding_name(enum otlp_coding coding);

/* Appends the coded bytes to `out`. 0, -ENOMEM, -EOVERFLOW (out->max), -EINVAL (OTLP_IDENTITY). */
int otlp_compress(enum otlp_coding coding, const void *data, size_t len, struct buf *out);
/* Appends what the coded bytes hold. As above, and -EBADMSG for bytes that are none, cut short or followed by
 * more. */
int otlp_decompress(enum otlp_coding coding, const void *data, size_t len, struct buf *out);
/* 0 or -EINVAL: none of the names. */
int otlp_coding_parse(const char *name, size_t len, enum otlp_coding *ret);
/* A list as servers give it, "gzip, zstd;q=0.5": bit 1 << coding for each one of the names, and for identity
 * always. */
unsigned otlp_codings_parse(const char *list, size_t len);

#endif
