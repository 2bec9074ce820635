// SPDX-License-Identifier: Apache-2.0
/* Folded stacks: a line is "PROCESS;OUTERMOST;…;INNERMOST COUNT". Kernel frames end in _[k]. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "agent/base/parse.h"
#include "agent/recording/reader.h"

#define KERNEL_SUFFIX "_[k]"
#define SUFFIX_BYTES 4

/* Cuts "file" off "function (file)", if that is a source file of a language runtime. */
static void set_source(struct frame *f, char *name, struct frame_line *line)
{
	char *end = name + strlen(name), *open = NULL;

	if (end == name || end[-1] != ')')
		return;
	for (char *at = end - 1; at > name && !open; at--)
		if (at[-1] == ' ' && *at == '(')
			open = at;
	if (!open)
		return;
	end[-1] = '\0';
	f->runtime = runtime_of_file(open + 1);
	if (!f->runtime) {
		end[-1] = ')';
		return;
	}
	open[-1] = '\0';
	*line = (struct frame_line){.function = name, .file = open + 1};
	f->lines = line;
	f->n_lines = 1;
}

static struct frame frame_of(char *name, struct frame_line *line)
{
	struct frame f = {.function = name};
	size_t n = strlen(name);

	if (is_ending_name(name)) {
		f.kind = FRAME_ENDING;
		return f;
	}
	if (n > SUFFIX_BYTES && name[n - SUFFIX_BYTES] == '_' && name[n - 3] == '[' && name[n - 1] == ']') {
		f.kind = strcmp(name + n - SUFFIX_BYTES, KERNEL_SUFFIX) == 0 ? FRAME_KERNEL : FRAME_NATIVE;
		name[n - SUFFIX_BYTES] = '\0';
		return f;
	}
	set_source(&f, name, line);
	return f;
}

/* Splits the line at its last space. False: it has no number there. */
static bool split(char *line, uint64_t *ret_count)
{
	char *space = strrchr(line, ' ');

	if (!space || space == line || parse_u64(space + 1, 10, ret_count) < 0)
		return false;
	*space = '\0';
	return true;
}

static int read_line(struct reader *r, char *line, uint64_t count)
{
	struct recording_stack s = {.stack = {.frames = r->frames, .count = count, .complete = true}};
	struct frame_line *sources;
	char *save = NULL, *part;
	size_t n = 0;

	buf_clear(&r->lines);
	if (buf_reserve(&r->lines, OUTPUT_MAX_DEPTH * sizeof *sources) < 0)
		return -ENOMEM;
	sources = (struct frame_line *)r->lines.data;
	s.stack.process = strtok_r(line, ";", &save);
	if (!s.stack.process)
		return reader_bad(r, "has a line without a stack");
	while ((part = strtok_r(NULL, ";", &save))) {
		if (n == OUTPUT_MAX_DEPTH)
			return reader_bad(r, "has a stack of more than %d frames", OUTPUT_MAX_DEPTH);
		r->frames[n] = frame_of(part, &sources[n]);
		if (!n && r->frames[n].kind == FRAME_ENDING)
			s.stack.complete = false;
		n++;
	}
	for (size_t i = 0; i < n / 2; i++) { /* leaf first */
		struct frame swap = r->frames[i];

		r->frames[i] = r->frames[n - 1 - i];
		r->frames[n - 1 - i] = swap;
	}
	s.stack.n_frames = n;
	return reader_stack(r, &s);
}

/* Whether the first line that is not empty is one of a folded stack, in text. */
static bool looks_folded(const struct reader *r)
{
	for (size_t i = 0; i < r->n; i++) {
		if (r->bytes[i] == '\n' && i && isdigit(r->bytes[i - 1]))
			return true;
		if (r->bytes[i] < 0x20 && r->bytes[i] != '\n' && r->bytes[i] != '\t' && r->bytes[i] != '\r')
			return false;
	}
	return r->n && isdigit(r->bytes[r->n - 1]);
}

int read_folded(struct reader *r)
{
	_cleanup_buf_ struct buf line = {0};
	size_t number = 0;
	uint64_t count;
	int e = 0;

	if (!looks_folded(r))
		return -ENODATA;
	r->info->format = "folded stacks";
	e = reader_choose(r, &(struct value_type){"samples", "count"}, 1);
	for (size_t at = 0, end; at < r->n && e >= 0; at = end + 1) {
		const uint8_t *found = memchr(r->bytes + at, '\n', r->n - at);

		end = found ? (size_t)(found - r->bytes) : r->n;
		number++;
		buf_clear(&line);
		if (buf_append(&line, r->bytes + at, end - at) < 0 || buf_putc(&line, '\0') < 0)
			return -ENOMEM;
		for (size_t k = line.len - 1; k && isspace(line.data[k - 1]); k--)
			line.data[k - 1] = '\0';
		if (!line.data[0])
			continue;
		if (!split((char *)line.data, &count))
			return reader_bad(r, "line %zu is no folded stack: it does not end in a number",
					  number);
		e = read_line(r, (char *)line.data, count);
	}
	return e < 0 ? e : 0;
}
