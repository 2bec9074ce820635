// SPDX-License-Identifier: Apache-2.0
/*
 * A function is one allocation: the struct, its line table, its name. File names are shared: a few functions
 * of each file follow each other, so a small table of the file names seen last, by hash, finds nearly all; a
 * file name that was displaced from it is held once more, which costs memory only, and no tenant can make a
 * lookup slow by names whose hashes are equal. Numbers are secret to tenants (bpf/abi.h), so a map does for
 * them. Every function is in the list `by_use` of its tenant, the one used last at the end.
 *
 * A report about a function that is known is merged with it: of the name, the file name and the line table,
 * the more complete one stays (a page may have been absent when the first report was made). When that changes
 * anything, a new function replaces the old one.
 */
#include "agent/runtime/code_names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/map.h"
#include "agent/elf/runtime/cpython.h"
#include "agent/elf/runtime/ruby.h"
#include "agent/elf/runtime/v8_classes.h"
#include "agent/proc/tenant.h"
#include "agent/runtime/cpython_lines.h"
#include "agent/runtime/cpython_text.h"
#include "agent/runtime/lua_text.h"
#include "agent/runtime/perl_text.h"
#include "agent/runtime/php_text.h"
#include "agent/runtime/ruby_text.h"
#include "agent/runtime/utf8_text.h"
#include "agent/runtime/v8_text.h"
#include "bpf/abi.h"

#define FILES_RECENT 1024u
#define ALLOCATION_BYTES 16u	       /* the allocator's own, of each allocation */
#define MAP_BYTES (2 * sizeof(void *)) /* buckets: between one and two for an entry */
#define PADDED(n) (((size_t)(n) + 7) & ~(size_t)7)

/* How complete a text is. */
enum completeness { NOT_READ, CUT, WHOLE };

struct list_link {
	struct list_link *prev, *next; /* circular */
};

struct file_name {
	size_t refs; /* functions */
	uint64_t hash;
	size_t len;
	char text[]; /* NUL terminated */
};

struct tenant {
	struct tenant_share share; /* refs: its functions */
	struct list_link by_use;   /* head */
	size_t bytes;		   /* of its functions */
};

struct function {
	struct map_node node;
	struct tenant *tenant;
	struct list_link by_use;
	uint64_t number;	/* the low FRAME_VA_BITS */
	struct file_name *file; /* one reference is owned; NULL: unknown */
	enum completeness name_is, file_is;
	struct cpython_lines_table lines; /* `bytes` points into this allocation */
	uint16_t code_start, instruction_bytes;
	bool index;	/* RUNTIME_WALK_INDEX */
	bool has_lines; /* frames have lines themselves (RUNTIME_WALK_LINES) */
	bool no_lines;	/* nothing has lines but the function */
	size_t bytes;	/* of the allocation */
	size_t name_at; /* in data */
	char data[];	/* the line table, then the name, NUL terminated */
};

struct code_names {
	struct map functions, tenants;
	/* borrowed from the functions; at hash % FILES_RECENT */
	struct file_name *recent_files[FILES_RECENT];
	struct buf name, file; /* of the report that is being added */
	size_t max_bytes;
	struct code_names_stats stats;
};

/* The parts of a report, and what is going to be a function. All is borrowed. */
struct content {
	const char *name, *file; /* not NUL terminated */
	size_t name_len, file_len;
	enum completeness name_is, file_is;
	struct cpython_lines_table lines;
	const struct cpython_layout *layout; /* of `lines`; NULL: that of `known`, or none is needed */
	bool has_lines, no_lines;
	const struct function *known;
};

static void list_init(struct list_link *head)
{
	head->prev = head->next = head;
}

static void list_remove(struct list_link *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
}

static void list_append(struct list_link *head, struct list_link *l)
{
	l->prev = head->prev;
	l->next = head;
	head->prev->next = l;
	head->prev = l;
}

static size_t file_bytes(const struct file_name *f)
{
	return sizeof *f + f->len + 1 + ALLOCATION_BYTES;
}

static size_t function_bytes(const struct function *f)
{
	return f->bytes + ALLOCATION_BYTES + MAP_BYTES;
}

static void file_put(struct code_names *n, struct file_name *f)
{
	struct file_name **recent;

	if (!f || --f->refs)
		return;
	recent = &n->recent_files[f->hash % FILES_RECENT];
	if (*recent == f)
		*recent = NULL;
	n->stats.bytes -= file_bytes(f);
	free(f);
}

/* A reference on the file name; NULL: no memory. */
static struct file_name *file_get(struct code_names *n, const char *text, size_t len)
{
	uint64_t hash = hash_bytes(text, len);
	struct file_name **recent = &n->recent_files[hash % FILES_RECENT], *f = *recent;

	if (f && f->hash == hash && f->len == len && memcmp(f->text, text, len) == 0) {
		f->refs++;
		return f;
	}
	f = malloc(sizeof *f + len + 1);
	if (!f)
		return NULL;
	*f = (struct file_name){.refs = 1, .hash = hash, .len = len};
	memcpy(f->text, text, len);
	f->text[len] = '\0';
	n->stats.bytes += file_bytes(f);
	*recent = f;
	return f;
}

static bool function_is(const struct map_node *node, const void *key)
{
	return container_of(node, struct function, node)->number == *(const uint64_t *)key;
}

static struct function *function_find(const struct code_names *n, uint64_t number)
{
	struct map_node *node;

	number &= FRAME_VA_MASK;
	node = map_find(&n->functions, hash_u64(number), function_is, &number);
	return node ? container_of(node, struct function, node) : NULL;
}

/* A reference on the tenant's record; NULL: no memory. */
static struct tenant *tenant_get(struct code_names *n, uint64_t number)
{
	struct tenant_share *share = tenant_share_find(&n->tenants, number);
	struct tenant *t = share ? container_of(share, struct tenant, share) : calloc(1, sizeof *t);

	if (!t)
		return NULL;
	if (!share) {
		list_init(&t->by_use);
		if (tenant_share_add(&n->tenants, &t->share, number) < 0) {
			free(t);
			return NULL;
		}
	}
	t->share.refs++;
	return t;
}

static void tenant_put(struct code_names *n, struct tenant *t)
{
	if (--t->share.refs)
		return;
	tenant_share_remove(&n->tenants, &t->share);
	free(t);
}

static void function_drop(struct code_names *n, struct function *f)
{
	map_remove(&n->functions, &f->node);
	list_remove(&f->by_use);
	n->stats.bytes -= function_bytes(f);
	f->tenant->bytes -= function_bytes(f);
	tenant_put(n, f->tenant);
	file_put(n, f->file);
	free(f);
}

static void touch(struct function *f)
{
	list_remove(&f->by_use);
	list_append(&f->tenant->by_use, &f->by_use);
}

/* Drops that function of the tenant with most bytes which was unused for longest. */
static void drop_oldest(struct code_names *n)
{
	struct tenant *most = NULL;
	struct map_node *node;

	map_for_each (&n->tenants, node, it) {
		struct tenant *t =
			container_of(container_of(node, struct tenant_share, node), struct tenant, share);

		if (!most || t->bytes > most->bytes)
			most = t;
	}
	function_drop(n, container_of(most->by_use.next, struct function, by_use));
}

int code_names_new(struct code_names **ret, size_t max_bytes)
{
	struct code_names *n = calloc(1, sizeof *n);

	if (!n)
		return -ENOMEM;
	map_init(&n->functions, max_bytes / sizeof(struct function) + 1);
	map_init(&n->tenants, SIZE_MAX); /* each has a function */
	buf_init(&n->name, 0);
	buf_init(&n->file, 0);
	n->max_bytes = max_bytes;
	*ret = n;
	return 0;
}

void code_names_free(struct code_names *n)
{
	if (!n)
		return;
	while (n->functions.len)
		drop_oldest(n);
	map_fini(&n->functions);
	map_fini(&n->tenants);
	buf_fini(&n->name);
	buf_fini(&n->file);
	free(n);
}

static int check_report(const struct runtime_code *r, size_t len, uint32_t runtime)
{
	if (len < sizeof *r || r->kind != RUNTIME_REPORT_CODE || r->runtime != runtime)
		return -EBADMSG;
	if (r->name_bytes > RUNTIME_TEXT_MAX || r->file_bytes > RUNTIME_TEXT_MAX ||
	    r->class_bytes > RUNTIME_TEXT_MAX || r->lines_bytes > RUNTIME_LINES_MAX ||
	    r->lines_bytes > r->lines_length)
		return -EBADMSG;
	if (len != sizeof *r + PADDED(r->name_bytes) + PADDED(r->file_bytes) + PADDED(r->class_bytes) +
			   PADDED(r->lines_bytes))
		return -EBADMSG;
	/* each language has one of the two */
	if (runtime == RUNTIME_CPYTHON ? r->class_bytes : r->lines_bytes)
		return -EBADMSG;
	return 0;
}

static bool type_is(uint64_t type, uint64_t expected)
{
	return !expected || type == expected;
}

/* Decodes a string object of a report into *text. 0, -ENOTSUP, -ENOMEM. */
static int read_text(struct buf *text, enum completeness *ret, const struct cpython_layout *layout,
		     const uint8_t *object, size_t len)
{
	int r;

	buf_clear(text);
	*ret = NOT_READ;
	if (!len)
		return 0;
	r = cpython_text_append(text, layout, object, len);
	if (r == -ENODATA)
		return 0;
	if (r >= 0)
		*ret = r ? CUT : WHOLE;
	return r < 0 ? r : 0;
}

/* 0, -ENOTSUP, -ENOMEM. */
static int read_report(struct code_names *n, struct content *c, const struct runtime_code *report,
		       const struct cpython_layout *layout, uint64_t text_type)
{
	const uint8_t *name = (const uint8_t *)(report + 1), *file = name + PADDED(report->name_bytes);
	int r;

	if ((report->name_bytes && !type_is(report->name_type, text_type)) ||
	    (report->file_bytes && !type_is(report->file_type, text_type)))
		return -ENOTSUP;
	r = read_text(&n->name, &c->name_is, layout, name, report->name_bytes);
	if (r == 0)
		r = read_text(&n->file, &c->file_is, layout, file, report->file_bytes);
	if (r < 0)
		return r;
	c->name = (const char *)n->name.data;
	c->name_len = n->name.len;
	c->file = (const char *)n->file.data;
	c->file_len = n->file.len;
	c->layout = layout;
	c->lines = (struct cpython_lines_table){
		.bytes = file + PADDED(report->file_bytes),
		.len = report->lines_bytes,
		.cut = report->lines_bytes < report->lines_length,
		.format = layout->lines_format,
		.first_line = report->first_line,
	};
	return 0;
}

static int read_php_text(struct buf *text, enum completeness *ret, const uint8_t *object, size_t len)
{
	int r = len ? php_text_append(text, object, len) : 0;

	if (r < 0)
		return r;
	*ret = r ? CUT : WHOLE;
	return 0;
}

/* "Class::method". What has no name is the code of a file outside of functions. 0, -EBADMSG, -ENOMEM. */
static int read_php_name(struct code_names *n, struct content *c, const struct runtime_code *report)
{
	const uint8_t *name = (const uint8_t *)(report + 1),
		      *class = name + PADDED(report->name_bytes) + PADDED(report->file_bytes);
	enum completeness class_is = WHOLE;
	int r = 0;

	buf_clear(&n->name);
	if (report->class_bytes)
		r = read_php_text(&n->name, &class_is, class, report->class_bytes);
	if (r == 0 && report->class_bytes)
		r = buf_puts(&n->name, "::");
	if (r == 0 && !report->name_bytes)
		r = buf_puts(&n->name, CODE_NAME_MAIN);
	if (r == 0)
		r = read_php_text(&n->name, &c->name_is, name, report->name_bytes);
	if (class_is < c->name_is)
		c->name_is = class_is;
	return r;
}

static int read_php_report(struct code_names *n, struct content *c, const struct runtime_code *report)
{
	const uint8_t *file = (const uint8_t *)(report + 1) + PADDED(report->name_bytes);
	int r = read_php_name(n, c, report);

	buf_clear(&n->file);
	if (r == 0)
		r = read_php_text(&n->file, &c->file_is, file, report->file_bytes);
	if (r < 0)
		return r;
	c->name = (const char *)n->name.data;
	c->name_len = n->name.len;
	c->file = (const char *)n->file.data;
	c->file_len = n->file.len;
	c->has_lines = true;
	c->lines.first_line = report->first_line;
	return 0;
}

/* The first line of an iseq; 0: unknown. A number as Ruby code has it is twice itself and 1. */
static uint32_t ruby_first_line(const struct runtime_code *report, uint32_t version)
{
	struct ruby_layout layout;

	if (report->form & RUNTIME_FORM_NATIVE || !ruby_layout_of(&layout, version & 0xffff0000u))
		return 0;
	return layout.number_of_line ? report->first_line >> 1 : report->first_line;
}

static int read_ruby_report(struct code_names *n, struct content *c, const struct runtime_code *report,
			    uint32_t version)
{
	const uint8_t *name = (const uint8_t *)(report + 1), *file = name + PADDED(report->name_bytes),
		      *class = file + PADDED(report->file_bytes);
	int r;

	buf_clear(&n->name);
	buf_clear(&n->file);
	r = ruby_name_append(&n->name, (struct ruby_string){name, report->name_bytes},
			     (struct ruby_string){class, report->class_bytes}, report->form);
	c->name_is = r > 0 ? CUT : WHOLE;
	if (r >= 0 && report->file_bytes)
		r = ruby_text_append(&n->file, (struct ruby_string){file, report->file_bytes});
	else if (r > 0)
		r = 0;
	if (r < 0)
		return r;
	c->file_is = r ? CUT : WHOLE;
	c->name = (const char *)n->name.data;
	c->name_len = n->name.len;
	c->file = (const char *)n->file.data;
	c->file_len = n->file.len;
	c->has_lines = true;
	c->lines.first_line = ruby_first_line(report, version);
	return 0;
}

/* Appends a name; `fallback` without one. The texts are whole unless one was cut. 0, -EBADMSG, -ENOMEM. */
static int read_perl_text(struct buf *text, enum completeness *is, const uint8_t *hek, size_t len,
			  const char *fallback)
{
	int r = len ? perl_text_append(text, hek, len) : buf_puts(text, fallback);

	if (r > 0)
		*is = CUT;
	return r < 0 ? r : 0;
}

/* "Package::function". A function whose package is gone has the one that caller() says. */
static int read_perl_name(struct code_names *n, struct content *c, const struct runtime_code *report)
{
	const uint8_t *name = (const uint8_t *)(report + 1),
		      *package = name + PADDED(report->name_bytes) + PADDED(report->file_bytes);
	int r;

	buf_clear(&n->name);
	c->name_is = WHOLE;
	if (report->type == RUNTIME_PERL_MAIN)
		return buf_puts(&n->name, CODE_NAME_PERL_MAIN);
	if (report->type == RUNTIME_PERL_EVAL)
		return buf_puts(&n->name, CODE_NAME_PERL_EVAL);
	if (!report->name_bytes)
		return buf_puts(&n->name, CODE_NAME_PERL_UNKNOWN);
	if (report->type == RUNTIME_PERL_FUNCTION) {
		r = read_perl_text(&n->name, &c->name_is, package, report->class_bytes, "__ANON__");
		if (r == 0)
			r = buf_puts(&n->name, "::");
		if (r < 0)
			return r;
	}
	return read_perl_text(&n->name, &c->name_is, name, report->name_bytes, "");
}

static int read_perl_report(struct code_names *n, struct content *c, const struct runtime_code *report)
{
	const uint8_t *file = (const uint8_t *)(report + 1) + PADDED(report->name_bytes);
	size_t len = strnlen((const char *)file, report->file_bytes);
	bool cut = report->file_bytes == RUNTIME_TEXT_MAX && len + 1 >= RUNTIME_TEXT_MAX;
	int r;

	if (report->type >= RUNTIME_PERL_CODES)
		return -EBADMSG;
	r = read_perl_name(n, c, report);
	buf_clear(&n->file);
	if (r == 0)
		r = utf8_text_append(&n->file, file, len, cut);
	if (r < 0)
		return r;
	c->name = (const char *)n->name.data;
	c->name_len = n->name.len;
	c->file = (const char *)n->file.data;
	c->file_len = n->file.len;
	c->file_is = cut ? CUT : WHOLE;
	c->has_lines = true;
	return 0;
}

/* The name and the file are both made from the function's source. */
static int read_lua_report(struct code_names *n, struct content *c, const struct runtime_code *report)
{
	const uint8_t *source = (const uint8_t *)(report + 1);
	int r;

	buf_clear(&n->name);
	buf_clear(&n->file);
	if (report->name_bytes || report->class_bytes)
		return -EBADMSG;
	r = lua_source_append(&n->file, source, report->file_bytes);
	if (r < 0)
		return r;
	c->name_is = c->file_is = r ? CUT : WHOLE;
	r = lua_name_append(&n->name, (const char *)n->file.data, n->file.len, report->first_line);
	if (r < 0)
		return r;
	c->name = (const char *)n->name.data;
	c->name_len = n->name.len;
	c->file = (const char *)n->file.data;
	c->file_len = n->file.len;
	c->has_lines = true;
	c->lines.first_line = report->first_line;
	return 0;
}

static int read_v8_report(struct code_names *n, struct content *c, const struct runtime_code *report)
{
	const uint8_t *name = (const uint8_t *)(report + 1), *file = name + PADDED(report->name_bytes),
		      *guessed = file + PADDED(report->file_bytes);
	int r;

	buf_clear(&n->name);
	buf_clear(&n->file);
	r = v8_name_append(&n->name, name, report->name_bytes, guessed, report->class_bytes);
	c->name_is = r > 0 ? CUT : WHOLE;
	if (r >= 0) {
		r = report->file_bytes ? v8_text_append(&n->file, file, report->file_bytes) : 0;
		c->file_is = r > 0 ? CUT : WHOLE;
	}
	if (r < 0)
		return r;
	c->name = (const char *)n->name.data;
	c->name_len = n->name.len;
	c->file = (const char *)n->file.data;
	c->file_len = n->file.len;
	c->has_lines = c->no_lines = true;
	return 0;
}

static bool lines_better(const struct cpython_lines_table *a, const struct cpython_lines_table *b)
{
	return a->cut == b->cut ? a->len > b->len : !a->cut;
}

/* Takes from the function that is known what the report does not have. False: the report has nothing new. */
static bool merge(struct content *c, const struct function *known)
{
	bool better = false;

	c->known = known;
	c->has_lines = known->has_lines;
	c->no_lines = known->no_lines;
	if (c->name_is > known->name_is) {
		better = true;
	} else {
		c->name = known->data + known->name_at;
		c->name_len = strlen(c->name);
		c->name_is = known->name_is;
	}
	if (c->file_is > known->file_is) {
		better = true;
	} else {
		c->file = known->file ? known->file->text : NULL;
		c->file_len = known->file ? known->file->len : 0;
		c->file_is = known->file_is;
	}
	if (lines_better(&c->lines, &known->lines)) {
		better = true;
	} else {
		c->lines = known->lines;
		c->layout = NULL;
	}
	return better;
}

/* Says where instructions are in the code. */
static void set_place(struct function *f, const struct content *c)
{
	f->has_lines = c->has_lines;
	f->no_lines = c->no_lines;
	if (c->has_lines)
		return;
	f->code_start = c->layout ? c->layout->code_start : c->known->code_start;
	f->instruction_bytes = c->layout ? c->layout->instruction_bytes : c->known->instruction_bytes;
	f->index = c->layout ? c->layout->flags & RUNTIME_WALK_INDEX : c->known->index;
}

/* Makes the function, with a reference on its file name, outside the map and the list. 0 or -ENOMEM. */
static int function_new(struct function **ret, struct code_names *n, const struct content *c, uint64_t number)
{
	const size_t name_at = c->lines.len, bytes = sizeof **ret + name_at + c->name_len + 1;
	_cleanup_free_ struct function *f = malloc(bytes);

	if (!f)
		return -ENOMEM;
	*f = (struct function){.number = number, .bytes = bytes, .name_at = name_at};
	f->name_is = c->name_is;
	f->file_is = c->file_is;
	f->lines = c->lines;
	f->lines.bytes = (const uint8_t *)f->data;
	set_place(f, c);
	if (c->lines.len)
		memcpy(f->data, c->lines.bytes, c->lines.len);
	if (c->name_len)
		memcpy(f->data + name_at, c->name, c->name_len);
	f->data[name_at + c->name_len] = '\0';
	if (c->file_len) {
		f->file = file_get(n, c->file, c->file_len);
		if (!f->file)
			return -ENOMEM;
	}
	*ret = TAKE_PTR(f);
	return 0;
}

static void evict_to_budget(struct code_names *n)
{
	while (n->stats.bytes > n->max_bytes && n->functions.len) {
		drop_oldest(n);
		n->stats.evicted++;
	}
}

/* Puts the content in place of the function that is known, if any. 0 or -ENOMEM. */
static int put(struct code_names *n, uint64_t tenant, const struct content *c, uint64_t number,
	       struct function *known)
{
	struct function *f = NULL;
	int r = function_new(&f, n, c, number);

	if (r < 0)
		return r;
	if (known)
		function_drop(n, known);
	f->tenant = tenant_get(n, tenant);
	if (!f->tenant || map_insert(&n->functions, &f->node, hash_u64(number)) < 0) {
		if (f->tenant)
			tenant_put(n, f->tenant);
		file_put(n, f->file);
		free(f);
		return -ENOMEM;
	}
	list_append(&f->tenant->by_use, &f->by_use);
	n->stats.bytes += function_bytes(f);
	f->tenant->bytes += function_bytes(f);
	evict_to_budget(n);
	return 0;
}

/* Adds the content, or what is new of it. 0 or -ENOMEM. */
static int add(struct code_names *n, uint64_t tenant, struct content *c, uint64_t number)
{
	struct function *known = function_find(n, number);

	if (known && !merge(c, known)) {
		touch(known);
		return 0;
	}
	return put(n, tenant, c, number & FRAME_VA_MASK, known);
}

static int count(struct code_names *n, int r)
{
	if (r < 0)
		n->stats.bad++;
	else
		n->stats.added++;
	return r;
}

int code_names_add(struct code_names *n, uint64_t tenant, const struct runtime_code *report, size_t len,
		   const struct cpython_layout *layout, uint64_t code_type, uint64_t text_type)
{
	struct content c = {0};
	int r = check_report(report, len, RUNTIME_CPYTHON);

	if (r == 0 && !type_is(report->type, code_type))
		r = -ENOTSUP;
	if (r == 0)
		r = read_report(n, &c, report, layout, text_type);
	return count(n, r == 0 ? add(n, tenant, &c, report->number) : r);
}

int code_names_add_php(struct code_names *n, uint64_t tenant, const struct runtime_code *report, size_t len)
{
	struct content c = {0};
	int r = check_report(report, len, RUNTIME_PHP);

	if (r == 0)
		r = read_php_report(n, &c, report);
	return count(n, r == 0 ? add(n, tenant, &c, report->number) : r);
}

int code_names_add_method(struct code_names *n, uint64_t tenant, uint64_t number, const char *name,
			  const char *file)
{
	struct content c = {.name_is = WHOLE, .file_is = WHOLE, .has_lines = true};
	int r;

	buf_clear(&n->name);
	buf_clear(&n->file);
	r = utf8_text_append(&n->name, (const uint8_t *)name, strlen(name), false);
	if (r == 0)
		r = utf8_text_append(&n->file, (const uint8_t *)file, strlen(file), false);
	c.name = (const char *)n->name.data;
	c.name_len = n->name.len;
	c.file = (const char *)n->file.data;
	c.file_len = n->file.len;
	return count(n, r == 0 ? add(n, tenant, &c, number) : r);
}

void code_names_set_line(struct code_names *n, uint64_t number, uint32_t line)
{
	struct function *f = function_find(n, number);

	if (f && f->no_lines && !f->lines.first_line)
		f->lines.first_line = line;
}

int code_names_set_class(struct code_names *n, uint64_t number, const struct v8_member *member)
{
	struct function *f = function_find(n, number);
	struct content c;
	size_t len;
	int r;

	if (!f || !f->no_lines || f->name_is != WHOLE)
		return 0;
	len = strlen(f->data + f->name_at);
	if (v8_member_hash(f->data + f->name_at, len) != member->hash)
		return 0;
	buf_clear(&n->name);
	r = buf_printf(&n->name, "%s.%s", member->class_name, f->data + f->name_at);
	if (r < 0)
		return r;
	c = (struct content){.name = (const char *)n->name.data,
			     .name_len = n->name.len,
			     .file = f->file ? f->file->text : NULL,
			     .file_len = f->file ? f->file->len : 0,
			     .name_is = WHOLE,
			     .file_is = f->file_is,
			     .lines = f->lines,
			     .has_lines = f->has_lines,
			     .no_lines = f->no_lines,
			     .known = f};
	return put(n, f->tenant->share.tenant, &c, number & FRAME_VA_MASK, f);
}

bool code_names_lacks_line(const struct code_names *n, uint64_t number)
{
	const struct function *f = function_find(n, number);

	return f && f->no_lines && !f->lines.first_line;
}

bool code_names_has(const struct code_names *n, uint64_t number)
{
	return function_find(n, number) != NULL;
}

void code_names_forget(struct code_names *n, uint64_t number)
{
	struct function *f = function_find(n, number);

	if (f)
		function_drop(n, f);
}

int code_names_add_ruby(struct code_names *n, uint64_t tenant, const struct runtime_code *report, size_t len,
			uint32_t version)
{
	struct content c = {0};
	int r = check_report(report, len, RUNTIME_RUBY);

	if (r == 0)
		r = read_ruby_report(n, &c, report, version);
	return count(n, r == 0 ? add(n, tenant, &c, report->number) : r);
}

int code_names_add_perl(struct code_names *n, uint64_t tenant, const struct runtime_code *report, size_t len)
{
	struct content c = {0};
	int r = check_report(report, len, RUNTIME_PERL);

	if (r == 0)
		r = read_perl_report(n, &c, report);
	return count(n, r == 0 ? add(n, tenant, &c, report->number) : r);
}

int code_names_add_lua(struct code_names *n, uint64_t tenant, const struct runtime_code *report, size_t len,
		       uint32_t runtime)
{
	struct content c = {0};
	int r = check_report(report, len, runtime);

	if (r == 0)
		r = read_lua_report(n, &c, report);
	return count(n, r == 0 ? add(n, tenant, &c, report->number) : r);
}

int code_names_add_v8(struct code_names *n, uint64_t tenant, const struct runtime_code *report, size_t len)
{
	struct content c = {0};
	int r = check_report(report, len, RUNTIME_V8);

	if (r == 0)
		r = read_v8_report(n, &c, report);
	return count(n, r == 0 ? add(n, tenant, &c, report->number) : r);
}

/* Bytes from the first instruction on; false: before it, or more than a function has. */
static bool code_offset(const struct function *f, int64_t offset, uint32_t *ret)
{
	if (offset < 0 || offset > INT32_MAX)
		return false;
	offset = f->index ? offset * f->instruction_bytes : offset - f->code_start;
	if (offset < 0 || offset > INT32_MAX)
		return false;
	*ret = (uint32_t)offset;
	return true;
}

/* The line of a frame, by its second word. */
static uint32_t line_of(const struct function *f, int64_t word, uint32_t first_line)
{
	uint32_t at;

	if (f->no_lines)
		return 0;
	if (f->has_lines)
		return word > 0 && word <= INT32_MAX ? (uint32_t)word : first_line;
	return code_offset(f, word, &at) ? cpython_line(&f->lines, at) : first_line;
}

bool code_names_find(struct code_names *n, uint64_t number, int64_t offset, struct code_place *ret)
{
	struct function *f = function_find(n, number);
	uint32_t first_line;

	if (!f) {
		n->stats.missed++;
		return false;
	}
	touch(f);
	first_line = f->lines.first_line <= INT32_MAX ? f->lines.first_line : 0;
	*ret = (struct code_place){
		.function = f,
		.name = f->name_is == NOT_READ ? CODE_NAME_UNKNOWN : f->data + f->name_at,
		.file = f->file ? f->file->text : "",
		.first_line = first_line,
		.line = line_of(f, offset, first_line),
	};
	return true;
}

void code_names_stats(const struct code_names *n, struct code_names_stats *ret)
{
	*ret = n->stats;
	ret->functions = n->functions.len;
}
