// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/equality/frames.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"

#define VA_DIGITS 16
#define KEY_BYTES 2048

/* The section and entry of the current line. */
struct reader {
	struct frames *f;
	struct frames_entry *entry; /* NULL: the entry is skipped */
	const char *columns;
};

void frames_fini(struct frames *f)
{
	texts_fini(&f->keys);
	free(f->list);
	free(f->cies);
	free(f->fdes);
	free(f->rows);
	free(f->sections);
	*f = (struct frames){0};
}

/* " (loaded from FILE):", or ":" */
static bool is_of(const char *rest, const char *path)
{
	static const char loaded[] = " (loaded from ";
	size_t n = strlen(path);

	if (strncmp(rest, loaded, sizeof loaded - 1) != 0)
		return true;
	rest += sizeof loaded - 1;
	return strncmp(rest, path, n) == 0 && strcmp(rest + n, "):") == 0;
}

int frames_section_line(const char *line, const char *path, enum section_kind *ret)
{
	static const struct {
		const char *name;
		enum section_kind kind;
	} names[] = {{".eh_frame", EH_FRAME}, {".debug_frame", DEBUG_FRAME}, {".zdebug_frame", DEBUG_FRAME}};
	static const char before[] = "Contents of the ", after[] = " section";

	if (strncmp(line, before, sizeof before - 1) != 0)
		return 0;
	line += sizeof before - 1;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		size_t len = strlen(names[i].name);

		if (strncmp(line, names[i].name, len) == 0 &&
		    strncmp(line + len, after, sizeof after - 1) == 0) {
			*ret = is_of(line + len + sizeof after - 1, path) ? names[i].kind : DEBUG_FILE;
			return 1;
		}
	}
	return 0;
}

/* Hexadecimal digits; *ret_end is behind them. */
static uint64_t hex(const char *s, char **ret_end)
{
	uint64_t v = 0;

	for (;; s++) {
		if (*s >= '0' && *s <= '9')
			v = v << 4 | (uint64_t)(*s - '0');
		else if (*s >= 'a' && *s <= 'f')
			v = v << 4 | (uint64_t)(*s - 'a' + 10);
		else
			break;
	}
	*ret_end = (char *)s;
	return v;
}

int frames_entry_line(const char *line, struct frames_line *ret)
{
	struct frames_line e = {0};
	const char *at = line, *quote;
	char *end;

	/* offset, length, id */
	for (int i = 0; i < 3; i++) {
		uint64_t v = hex(at, &end);

		if (end == at || *end != ' ')
			return 0;
		e.offset = i == 0 ? v : e.offset;
		at = end + 1;
	}
	if (strcmp(at, "CIE") == 0 || strncmp(at, "CIE ", 4) == 0) {
		e.is_cie = true;
		quote = strchr(at, '"');
		e.signal = quote && memchr(quote + 1, 'S', strcspn(quote + 1, "\""));
		*ret = e;
		return 1;
	}
	if (strncmp(at, "FDE cie=", 8) != 0)
		return 0;
	e.cie_offset = hex(at + 8, &end);
	at = strstr(end, "pc=");
	if (!at)
		return 0;
	e.start = hex(at + 3, &end);
	if (end[0] != '.' || end[1] != '.')
		return 0;
	e.end = hex(end + 2, &end);
	*ret = e;
	return 1;
}

static int put_section(struct frames *f, enum section_kind kind)
{
	if (f->n_sections == f->sections_cap &&
	    texts_grow(&f->sections, &f->sections_cap, sizeof *f->sections) < 0)
		return -ENOMEM;
	f->sections[f->n_sections++] = (struct frames_section){.kind = kind, .first_cie = f->n_cies};
	return 0;
}

static int put_entry(struct reader *r, const struct frames_line *line)
{
	struct frames *f = r->f;
	struct frames_entry **list = line->is_cie ? &f->cies : &f->fdes;
	size_t *n = line->is_cie ? &f->n_cies : &f->n_fdes, *cap = line->is_cie ? &f->cies_cap : &f->fdes_cap;

	if (*n == *cap && texts_grow(list, cap, sizeof **list) < 0)
		return -ENOMEM;
	r->entry = &(*list)[(*n)++];
	*r->entry = (struct frames_entry){
		.start = line->start,
		.end = line->end,
		.offset = line->offset,
		.cie_offset = line->cie_offset,
		.cie = SIZE_MAX,
		.first = f->n_rows,
		.section = (uint32_t)f->n_sections - 1,
		.signal = line->signal,
	};
	f->sections[f->n_sections - 1].n_cies += line->is_cie;
	r->columns = NULL;
	return 0;
}

/* → index into list. */
static int64_t put_text(struct frames *f, const char *columns, const char *row, size_t row_len)
{
	char key[KEY_BYTES];
	size_t len = strlen(columns), n = f->keys.n;

	if (len + row_len + 2 > sizeof key)
		return -EINVAL;
	memcpy(key, columns, len);
	key[len] = '\n';
	memcpy(key + len + 1, row, row_len);
	key[len + 1 + row_len] = '\0';
	int64_t index = texts_index(&f->keys, key, len + 1 + row_len);
	if (index < 0 || f->keys.n == n)
		return index;
	if (n == f->list_cap && texts_grow(&f->list, &f->list_cap, sizeof *f->list) < 0)
		return -ENOMEM;
	f->list[n] = (struct frames_text){
		.columns = columns,
		.row = f->keys.list[n] + len + 1,
		/*
		 * an "exp" of a register that is not compared does no harm: the raw dump is then read without
		 * success
		 */
		.expression = strncmp(row, "exp ", 4) == 0 || strstr(key + len, " exp") ||
			      strstr(key + len, " vexp"),
		.rule = {-1, -1},
	};
	return index;
}

static int put_row(struct reader *r, const char *line, size_t len)
{
	struct frames *f = r->f;
	char *rest;
	uint64_t va = hex(line, &rest);

	if (!r->columns || rest != line + VA_DIGITS || *rest != ' ')
		return -EINVAL;
	rest++;
	len -= VA_DIGITS + 1;
	while (len > 0 && rest[len - 1] == ' ')
		len--;
	int64_t text = put_text(f, r->columns, rest, len);
	if (text < 0)
		return (int)text;
	if (f->n_rows == f->rows_cap && texts_grow(&f->rows, &f->rows_cap, sizeof *f->rows) < 0)
		return -ENOMEM;
	f->rows[f->n_rows++] = (struct frames_row){va, (uint32_t)text};
	r->entry->n++;
	r->entry->expression |= f->list[text].expression;
	return 0;
}

static int put_columns(struct reader *r, char *line)
{
	static const char head[] = "   LOC";
	int64_t index;

	if (strncmp(line, head, sizeof head - 1) != 0)
		return -EINVAL;
	index = texts_index(r->f->texts, line + sizeof head - 1, strlen(line) - (sizeof head - 1));
	if (index < 0)
		return (int)index;
	r->columns = r->f->texts->list[index];
	return 0;
}

static bool is_terminator(const char *line)
{
	return strstr(line, " ZERO terminator") != NULL;
}

static int put_line(struct reader *r, char *line, size_t len)
{
	struct frames_line entry;
	enum section_kind kind;

	if (len == 0)
		return 0;
	if (frames_section_line(line, r->f->path, &kind)) {
		r->entry = NULL;
		return put_section(r->f, kind);
	}
	if (!strncmp(line, "Contents of the ", 16)) {
		r->entry = NULL;
		return 0;
	}
	if (strncmp(line, "section '", 9) == 0) {
		r->f->no_bytes = true;
		return 0;
	}
	if (r->f->n_sections == 0)
		return 0;
	if (len > VA_DIGITS && line[VA_DIGITS] == ' ' && r->entry && r->columns &&
	    isalpha(line[VA_DIGITS + 1]))
		return put_row(r, line, len);
	if (line[0] == ' ')
		return put_columns(r, line);
	if (frames_entry_line(line, &entry))
		return put_entry(r, &entry);
	if (is_terminator(line)) {
		r->entry = NULL;
		return 0;
	}
	return -EINVAL;
}

static int by_offset(const void *a, const void *b)
{
	const struct frames_entry *x = a, *y = b;

	return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Finds the CIE of each FDE. CIEs are in the order of their offsets. */
static void find_cies(struct frames *f)
{
	for (size_t i = 0; i < f->n_fdes; i++) {
		struct frames_entry *fde = &f->fdes[i];
		const struct frames_section *s = &f->sections[fde->section];
		const struct frames_entry key = {.offset = fde->cie_offset};
		const struct frames_entry *cie =
			s->n_cies ? bsearch(&key, f->cies + s->first_cie, s->n_cies, sizeof key, by_offset)
				  : NULL;

		fde->cie = cie ? (size_t)(cie - f->cies) : SIZE_MAX;
		fde->expression |= fde->n == 0 && cie && cie->expression;
		f->expression |= fde->expression;
	}
}

int frames_read(struct frames *f, const char *path, struct texts *texts, struct lines *from)
{
	struct reader r = {.f = f};
	size_t len;
	char *line;
	int error = 0;

	*f = (struct frames){.path = path, .texts = texts};
	texts_init(&f->keys);
	while (error == 0 && (line = lines_next(from, &len)))
		error = put_line(&r, line, len);
	if (error == -EINVAL)
		snprintf(f->unknown, sizeof f->unknown, "%s", line);
	find_cies(f);
	return error;
}
