// SPDX-License-Identifier: Apache-2.0
#include "agent/recording/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "agent/base/cleanup.h"
#include "agent/base/fs.h"
#include "agent/recording/reader.h"

#define WINDOW_BITS (15 + 16) /* 16: gzip header and trailer */
#define INFLATE_BYTES (256u << 10)

void recording_info_fini(struct recording_info *info)
{
	free(info->type);
	free(info->unit);
	free(info->hostname);
	free(info->command);
	free(info->version);
	*info = (struct recording_info){0};
}

/* Appends what is behind gzip, of all its members. 0; -EBADMSG; -EFBIG; -ENOMEM. */
static int decompress(const uint8_t *bytes, size_t n, struct buf *ret)
{
	z_stream z = {.next_in = (Bytef *)bytes, .avail_in = (uInt)n};
	int r = inflateInit2(&z, WINDOW_BITS) == Z_OK ? 0 : -ENOMEM, end = Z_OK;

	if (r < 0)
		return r;
	while (r == 0 && (end != Z_STREAM_END || z.avail_in)) {
		if (end == Z_STREAM_END && inflateReset(&z) != Z_OK)
			r = -EBADMSG;
		if (r == 0)
			r = buf_reserve(ret, INFLATE_BYTES);
		if (r < 0)
			break;
		z.next_out = ret->data + ret->len;
		z.avail_out = INFLATE_BYTES;
		end = inflate(&z, Z_NO_FLUSH);
		ret->len += INFLATE_BYTES - z.avail_out;
		if (end != Z_OK && end != Z_STREAM_END)
			r = end == Z_MEM_ERROR ? -ENOMEM : -EBADMSG;
	}
	inflateEnd(&z);
	return r == -EOVERFLOW ? -EFBIG : r;
}

static int fill_info(struct recording_info *info)
{
	char **const strings[] = {&info->type, &info->unit, &info->hostname, &info->command, &info->version};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(strings) && r == 0; i++)
		r = reader_note(strings[i], "");
	return r;
}

/* Tries the formats, the one that is recognised most surely first. */
static int read_any(struct reader *r)
{
	int (*const readers[])(struct reader *) = {read_pprof, read_otlp, read_folded};
	int e = -ENODATA;

	if (!r->n)
		return reader_bad(r, "is empty");
	for (size_t i = 0; i < ARRAY_SIZE(readers) && e == -ENODATA; i++)
		e = readers[i](r);
	return e == -ENODATA
		       ? reader_bad(r, "is no recording: neither pprof, nor OTLP profiles (protobuf), nor "
				       "folded stacks")
		       : e;
}

/* The line for an error that no reader has explained. */
static const char *why_of(const struct reader *r, int error)
{
	if (error == -EFBIG)
		return "is too large: more than 512 MiB, or 2 GiB in memory";
	return r->why.len ? buf_str((struct buf *)&r->why) : strerror(-error);
}

static void reader_fini(struct reader *r)
{
	buf_fini(&r->why);
	buf_fini(&r->lines);
	pool_fini(&r->pool);
	free(r->frames);
}

static int read_with(struct reader *r, struct buf *inflated)
{
	int e = fill_info(r->info);

	r->frames = calloc(OUTPUT_MAX_DEPTH + 1, sizeof *r->frames);
	if (e < 0 || !r->frames)
		return -ENOMEM;
	if (r->n > 2 && r->bytes[0] == 0x1f && r->bytes[1] == 0x8b) {
		e = decompress(r->bytes, r->n, inflated);
		if (e == -EBADMSG)
			return reader_bad(r, "is damaged: its gzip stream ends early or is not valid");
		if (e < 0)
			return e;
		r->bytes = inflated->data;
		r->n = inflated->len;
	}
	return read_any(r);
}

/* What the callback returned, which needs no explanation, is another thing than an error of the reader. */
struct guarded {
	recording_stack_fn on_stack;
	void *data;
	int error;
};

static int guard(const struct recording_stack *stack, void *data)
{
	struct guarded *g = data;

	g->error = g->on_stack(stack, g->data);
	return g->error;
}

int recording_read_bytes(const void *bytes, size_t n, const char *name,
			 const struct recording_options *options, recording_stack_fn on_stack, void *data,
			 struct recording_info *ret, char **ret_why)
{
	struct guarded guarded = {on_stack, data, 0};
	_cleanup_(reader_fini) struct reader r = {
		.bytes = bytes, .n = n, .options = options, .on_stack = guard, .data = &guarded, .info = ret};
	_cleanup_buf_ struct buf inflated = {.max = RECORDING_BYTES_MAX};
	int e;

	*ret_why = NULL;
	*ret = (struct recording_info){.format = ""};
	e = read_with(&r, &inflated);
	if (e < 0 && guarded.error == 0 && asprintf(ret_why, "%s: %s", name, why_of(&r, e)) < 0)
		*ret_why = NULL;
	return e;
}

int recording_read(const char *path, const struct recording_options *options, recording_stack_fn on_stack,
		   void *data, struct recording_info *ret, char **ret_why)
{
	_cleanup_buf_ struct buf bytes = {.max = RECORDING_BYTES_MAX};
	const bool is_stdin = strcmp(path, "-") == 0;
	int e = is_stdin ? fs_read_fd(STDIN_FILENO, RECORDING_BYTES_MAX, &bytes)
			 : fs_read_file(path, RECORDING_BYTES_MAX, &bytes);

	*ret = (struct recording_info){.format = ""};
	*ret_why = NULL;
	if (e == -EOVERFLOW)
		e = -EFBIG;
	if (e < 0) {
		if (asprintf(ret_why, "%s: %s", path,
			     e == -EFBIG ? "is too large: more than 512 MiB" : strerror(-e)) < 0)
			*ret_why = NULL;
		return e;
	}
	return recording_read_bytes(bytes.data, bytes.len, is_stdin ? "standard input" : path, options,
				    on_stack, data, ret, ret_why);
}
