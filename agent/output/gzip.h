// SPDX-License-Identifier: Apache-2.0
/* A gzip stream (RFC 1952) into a stdio file. Private. */
#ifndef PROFLET_OUTPUT_GZIP_H
#define PROFLET_OUTPUT_GZIP_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <zlib.h>

struct gzip {
	FILE *f; /* borrowed */
	z_stream z;
	uint8_t out[16384];
};

/* 0, -ENOMEM. */
int gzip_init(struct gzip *g, FILE *f);
void gzip_fini(struct gzip *g);
/* 0, -EIO. */
int gzip_write(struct gzip *g, const void *data, size_t len);
/* Writes the trailer and flushes `f`. 0, -EIO. */
int gzip_finish(struct gzip *g);

#endif
