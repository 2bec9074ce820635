// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/runtime/dotnet_lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/elf/runtime/dotnet_code.h"

#define PACKED_BITS 10u	  /* runtimes from this version on pack maps */
#define PACKED_AHEAD 16u  /* the same of code that was compiled ahead of time: versions of the format */
#define UNKNOWN_AHEAD 17u /* maps of this version and later ones are not known */

struct dotnet_lines_file {
	struct dotnet_pdb pdb;
	int fd;		/* owned; -1: it was in the assembly */
	uint8_t *bytes; /* owned; NULL */
	uint32_t n;
};

static void dotnet_lines_file_free(struct dotnet_lines_file *f)
{
	if (!f)
		return;
	if (f->fd >= 0)
		close(f->fd);
	free(f->bytes);
	free(f);
}

DEFINE_CLEANUP(struct dotnet_lines_file *, dotnet_lines_file_free)

/* --- the file, whose last page is filled with zeroes */

static int read_page(void *to, uint64_t address, void *data)
{
	const struct dotnet_lines_file *f = data;
	ssize_t n = pread(f->fd, to, VM_PIECE_BYTES, (off_t)address);

	if (n <= 0)
		return -EFAULT;
	memset((uint8_t *)to + n, 0, VM_PIECE_BYTES - (size_t)n);
	return 0;
}

static int copy_page(void *to, uint64_t address, void *data)
{
	const struct dotnet_lines_file *f = data;
	const uint64_t left = address < f->n ? f->n - address : 0;
	const size_t n = left < VM_PIECE_BYTES ? left : VM_PIECE_BYTES;

	if (!n)
		return -EFAULT;
	memcpy(to, f->bytes + address, n);
	memset((uint8_t *)to + n, 0, VM_PIECE_BYTES - n);
	return 0;
}

/* Inflates `from` (RFC 1951), which has to give all of the bytes. */
static int inflate_all(uint8_t *to, uint32_t n, uint8_t *from, uint32_t from_bytes)
{
	z_stream z = {.next_in = from, .avail_in = from_bytes, .next_out = to, .avail_out = n};
	int r;

	if (inflateInit2(&z, -MAX_WBITS) != Z_OK)
		return -ENOMEM;
	r = inflate(&z, Z_FINISH);
	(void)inflateEnd(&z);
	return r == Z_STREAM_END && !z.avail_out ? 0 : -ENOTSUP;
}

/* A process may have no room for a large one: -ENOMEM. */
static int unpack(struct dotnet_lines_file *f, struct vm_memory *m, const struct dotnet_symbols *s)
{
	_cleanup_free_ uint8_t *packed = malloc(s->packed_bytes);
	int r;

	f->bytes = malloc(s->bytes);
	if (!packed || !f->bytes)
		return -ENOMEM;
	f->n = s->bytes;
	f->pdb.file.read = copy_page;
	r = vm_read(m, packed, s->packed, s->packed_bytes);
	return r == 0 ? inflate_all(f->bytes, s->bytes, packed, s->packed_bytes) : r;
}

static int open_beside(struct dotnet_lines_file *f, const struct dotnet_symbols *s, uint64_t base,
		       const struct dotnet_lines_files *files)
{
	f->fd = files->open && s->name[0] ? files->open(base, s->name, files->data) : -ENOENT;
	f->pdb.file.read = read_page;
	return f->fd < 0 ? -ENOENT : 0;
}

/* Finds the file of the assembly. 0 or -ENOMEM; *ret stays NULL if there is none. */
static int find_file(struct dotnet_lines_file **ret, const struct dotnet_image *image, struct vm_memory *m,
		     const struct dotnet_lines_files *files)
{
	_cleanup_(dotnet_lines_file_free_p) struct dotnet_lines_file *f = NULL;
	struct dotnet_symbols s;
	int r = dotnet_image_symbols(image, m, &s);

	if (r < 0)
		return 0;
	f = calloc(1, sizeof *f);
	if (!f)
		return -ENOMEM;
	f->fd = -1;
	f->pdb.file.data = f;
	r = s.packed && s.bytes ? unpack(f, m, &s) : open_beside(f, &s, image->base, files);
	if (r == 0)
		r = dotnet_pdb_open(&f->pdb, s.id);
	if (r == 0)
		*ret = TAKE_PTR(f);
	return 0;
}

/* The file of the assembly, which is looked for once. NULL: there is none, or *error. */
static struct dotnet_lines_file *file_of(struct dotnet_lines_files *files, const struct dotnet_image *image,
					 struct vm_memory *m, int *error)
{
	*error = 0;
	for (size_t i = 0; i < files->n; i++)
		if (files->v[i].base == image->base)
			return files->v[i].file;
	if (files->n == DOTNET_LINES_FILES_MAX)
		return NULL;
	files->v[files->n].base = image->base;
	files->v[files->n].file = NULL;
	*error = find_file(&files->v[files->n].file, image, m, files);
	return files->v[files->n++].file;
}

void dotnet_lines_files_fini(struct dotnet_lines_files *f)
{
	while (f->n)
		dotnet_lines_file_free(f->v[--f->n].file);
}

/* --- lines */

/* Where the function's method begins, and the method's map. */
static int read_map(struct dotnet_il_map *ret, uint64_t *ret_code, const struct dotnet_place *p,
		    struct dotnet_reader *r, struct dotnet_assembly *a)
{
	unsigned form = DOTNET_IL_COMPILED;
	uint64_t debug = p->debug;
	uint32_t start;
	int e = 0;

	*ret_code = p->code;
	if (p->method) {
		form |= r->vm.major >= PACKED_BITS ? DOTNET_IL_PACKED : 0;
	} else if (a->ready.major >= UNKNOWN_AHEAD) {
		return -ENOTSUP;
	} else {
		form = a->ready.major >= PACKED_AHEAD ? DOTNET_IL_PACKED : 0;
		e = dotnet_ready_debug(&a->ready, &a->image, &r->memory, p->function, &debug, &start);
		*ret_code = e == 0 ? p->image + start : 0;
	}
	if (e < 0)
		return e;
	return debug ? dotnet_il_map_read(ret, &r->memory, debug, form) : -ENOENT;
}

/* Of the last point that is not behind the instruction. */
static uint32_t line_of(const struct dotnet_points *points, uint32_t il)
{
	const size_t i = array_first(points->n, k, points->v[k].il > il);

	return i ? points->v[i - 1].line : 0;
}

/* From there on, the code is of that line. */
static void put(struct dotnet_lines *to, uint32_t start, uint32_t line, uint32_t end)
{
	if (to->n && to->v[to->n - 1].line == line) {
		to->v[to->n - 1].end = end;
		return;
	}
	if (to->n)
		to->v[to->n - 1].end = start;
	to->v[to->n++] = (struct dotnet_line){end, line};
}

static bool is_instruction(const struct dotnet_il_place *place)
{
	return place->il < DOTNET_IL_EPILOGUE;
}

/* The line of the next place that is of an instruction; 0: there is none. */
static uint32_t line_behind(const struct dotnet_lines *x, uint32_t i)
{
	while (++i < x->map.n)
		if (is_instruction(&x->map.v[i]))
			return line_of(&x->points, x->map.v[i].il);
	return 0;
}

/*
 * The line of a place; `before`: of the last instruction before it. A method's first place lasts until code
 * is of another instruction than the first one. What is of none is what the compiler had to insert: between
 * parts of an expression, mostly.
 */
static uint32_t line_at(const struct dotnet_lines *x, uint32_t i, uint32_t before)
{
	const struct dotnet_il_place *place = &x->map.v[i];
	const uint32_t first = i ? 0 : line_of(&x->points, 0);

	if (is_instruction(place))
		return line_of(&x->points, place->il);
	if (place->il == DOTNET_IL_PROLOGUE)
		return first ? first : line_behind(x, i);
	return before;
}

/* A function's first code may be of a place that began before it. */
static void lay_out(struct dotnet_lines *to, uint64_t offset, uint32_t bytes)
{
	uint32_t line = 0, before = 0;

	to->n = 0;
	put(to, 0, 0, bytes);
	for (uint32_t i = 0; i < to->map.n; i++) {
		const struct dotnet_il_place *place = &to->map.v[i];

		if (place->native >= offset + bytes)
			break;
		if (i + 1 < to->map.n && to->map.v[i + 1].native == place->native)
			continue;
		line = line_at(to, i, before);
		before = is_instruction(place) ? line : before;
		if (place->native <= offset)
			to->v[0] = (struct dotnet_line){bytes, line};
		else
			put(to, (uint32_t)(place->native - offset), line, bytes);
	}
}

int dotnet_lines_read(struct dotnet_lines *ret, const struct dotnet_place *p, struct dotnet_reader *r,
		      struct dotnet_lines_files *files)
{
	struct dotnet_lines_file *file = NULL;
	struct dotnet_assembly *a;
	uint64_t code = 0;
	uint32_t row;
	int e = p->dynamic ? -ENOENT : dotnet_place_method(p, r, &a, &row);

	if (e == 0)
		file = file_of(files, &a->image, &r->memory, &e);
	if (e == 0)
		e = file ? dotnet_pdb_points(&ret->points, &file->pdb, row) : -ENOENT;
	if (e == 0 && !ret->points.n)
		e = -ENOENT;
	if (e == 0)
		e = read_map(&ret->map, &code, p, r, a);
	if (e == 0 && (code > p->start || !ret->map.n))
		e = -ENOENT;
	if (e < 0)
		return e;
	memcpy(ret->document, ret->points.document, sizeof ret->document);
	lay_out(ret, p->start - code, (uint32_t)(p->end - p->start));
	return 0;
}
