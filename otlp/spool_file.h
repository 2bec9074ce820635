// SPDX-License-Identifier: Apache-2.0
/*
 * One request as a file of the spool: a header of 64 bytes and the request's bytes in their coding. Pure; the
 * format stands on disks, so it only ever gets a new magic. Rank 1 (otlp).
 *
 *	 0  magic "PFLSPL01"          32  start_unix_ns u64     56  CRC-32 of the data u32
 *	 8  n_samples u64             40  end_unix_ns u64       60  CRC-32 of bytes 0..59 u32
 *	16  n_profiles u64            48  bytes of data u32
 *	24  raw_bytes u64             52  coding u32            all little-endian
 */
#ifndef PROFLET_OTLP_SPOOL_FILE_H
#define PROFLET_OTLP_SPOOL_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "otlp/request.h"

#define SPOOL_HEADER_BYTES 64u
#define SPOOL_DATA_MAX (64u << 20) /* bytes of a request; those of the builder are below 4 MiB */

/* Writes the header of the request to `ret`. 0; -EFBIG: more than SPOOL_DATA_MAX. */
int spool_file_header(const struct otlp_request *r, uint8_t ret[SPOOL_HEADER_BYTES]);
/* Decodes a whole file. 0, -ENOMEM, or -EBADMSG: incomplete, damaged, or not a spool file. */
int spool_file_decode(const uint8_t *file, size_t len, struct otlp_request **ret);

#endif
