// SPDX-License-Identifier: Apache-2.0
#include "agent/recording/reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"

static void *take(void *data, size_t size)
{
	struct reader *r = data;

	if (size > r->pool_left) {
		r->pool_left = 0;
		return NULL;
	}
	r->pool_left -= size;
	return pool_take(&r->pool, size);
}

static void ignore(void *data, void *piece)
{
	(void)data, (void)piece; /* freed as a whole */
}

ProtobufCAllocator reader_allocator(struct reader *r)
{
	pool_fini(&r->pool);
	r->pool_left = RECORDING_MEMORY_MAX;
	return (ProtobufCAllocator){take, ignore, r};
}

int reader_out_of_room(const struct reader *r)
{
	return r->pool_left ? 0 : -EFBIG;
}

int reader_note(char **to, const char *text)
{
	char *copy = strdup(text ? text : "");

	if (!copy)
		return -ENOMEM;
	free(*to);
	*to = copy;
	return 0;
}

int reader_bad(struct reader *r, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	buf_clear(&r->why);
	(void)buf_vprintf(&r->why, format, ap);
	va_end(ap);
	return -EBADMSG;
}

/* Lists the types that there are. */
static int no_such_type(struct reader *r, const struct value_type *types, size_t n)
{
	(void)reader_bad(r, "has no values of the type \"%s\", but of", r->options->value);
	for (size_t i = 0; i < n; i++)
		(void)buf_printf(&r->why, "%s %s", i ? "," : "", types[i].type);
	return -ENOENT;
}

int reader_choose(struct reader *r, const struct value_type *types, size_t n)
{
	const char *wanted = r->options->value;
	size_t chosen = n;
	int e;

	if (!n)
		return reader_bad(r, "has no values");
	for (size_t i = 0; i < n; i++)
		if (strcmp(types[i].type, wanted ? wanted : "samples") == 0)
			chosen = i;
	if (chosen == n && wanted)
		return no_such_type(r, types, n);
	if (chosen == n)
		chosen = n - 1;
	e = reader_note(&r->info->type, types[chosen].type);
	if (e == 0)
		e = reader_note(&r->info->unit, types[chosen].unit);
	return e < 0 ? e : (int)chosen;
}

void reader_place_lines(struct reader *r, size_t n)
{
	const struct frame_line *next = (const struct frame_line *)r->lines.data;

	for (size_t i = 0; i < n; i++) {
		r->frames[i].lines = NULL;
		if (!r->frames[i].n_lines)
			continue;
		r->frames[i].lines = next;
		next += r->frames[i].n_lines;
	}
}

int reader_stack(struct reader *r, const struct recording_stack *s)
{
	if (!s->stack.count)
		return 0;
	if (s->stack.count > INT64_MAX - r->info->n_samples)
		return reader_bad(r, "counts more samples than fit into 63 bits");
	r->info->n_samples += s->stack.count;
	return r->on_stack(s, r->data);
}

bool is_ending_name(const char *name)
{
	return strncmp(name, "[truncated: ", 12) == 0 || strncmp(name, "[frames omitted", 15) == 0 ||
	       strcmp(name, "[no frames]") == 0 || strcmp(name, "[other]") == 0;
}

bool is_kernel_module(const char *path)
{
	static const char *const others[] = {"[vdso]", "[vsyscall]", "[stack]", "[heap]", "[uprobes]"};

	if (path[0] != '[' || strncmp(path, "[anon", 5) == 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (strcmp(path, others[i]) == 0)
			return false;
	return true;
}

const char *runtime_of_file(const char *file)
{
	static const struct {
		const char *extension, *runtime;
	} languages[] = {
		{".py", "cpython"}, {".rb", "ruby"},  {".php", "php"},	{".pl", "perl"},
		{".pm", "perl"},    {".lua", "lua"},  {".java", "jvm"}, {".kt", "jvm"},
		{".js", "v8js"},    {".mjs", "v8js"}, {".ts", "v8js"},	{".cs", "dotnet"},
	};
	const char *dot = strrchr(file, '.');

	for (size_t i = 0; dot && i < ARRAY_SIZE(languages); i++)
		if (strcmp(dot, languages[i].extension) == 0)
			return languages[i].runtime;
	return NULL;
}

const char *last_component(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}
