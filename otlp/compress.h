// SPDX-License-Identifier: Apache-2.0
/* Content codings: gzip (RFC 1952) and zstd (RFC 8878) over whole buffers. Pure. Rank 1 (otlp). */
#ifndef PROFLET_OTLP_COMPRESS_H
#define PROFLET_OTLP_COMPRESS_H

#include <stddef.h>

#include "agent/base/buf.h"
#include "otlp/request.h"

/* "identity", "gzip", "zstd": the names that HTTP and gRPC use. */
const char *otlp_coding_name(enum otlp_coding coding);

/*
 * Compresses the data and appends the result to `out`. 0, -ENOMEM, -EOVERFLOW (out->max),
 * -EINVAL (OTLP_IDENTITY).
 */
int otlp_compress(enum otlp_coding coding, const void *data, size_t len, struct buf *out);
/*
 * Decompresses the data and appends the result to `out`. Errors as above; -EBADMSG: the data is damaged,
 * incomplete, or followed by other bytes.
 */
int otlp_decompress(enum otlp_coding coding, const void *data, size_t len, struct buf *out);
/* The coding with this name. 0; -EINVAL: no coding has it. */
int otlp_coding_parse(const char *name, size_t len, enum otlp_coding *ret);
/*
 * The codings in a list such as "gzip, zstd;q=0.5", as servers send it: bit 1 << coding for each name that is
 * known. Identity is always set.
 */
unsigned otlp_codings_parse(const char *list, size_t len);

#endif
