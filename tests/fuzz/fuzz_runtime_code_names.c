// SPDX-License-Identifier: Apache-2.0
/*
 * Reports about code objects with any bytes, and any layout: the input is a layout, the types that are
 * expected, an offset, then reports, each behind its length in 8 bytes. The header of a report is repaired
 * in every second one so that its sizes add up; a few bytes of budget make functions go soon. A bit of the
 * input says whether the reports are about Python, Perl, Lua or V8. Their first bytes are also taken for a
 * task's name.
 */
#include <errno.h>
#include <iconv.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/buf.h"
#include "agent/elf/runtime/cpython.h"
#include "agent/elf/runtime/ruby.h"
#include "agent/runtime/code_names.h"
#include "agent/runtime/cpython_task.h"
#include "bpf/abi.h"

#define BUDGET_BYTES 4096u
#define REPORT_MAX (sizeof(struct runtime_code) + 2 * RUNTIME_TEXT_MAX + RUNTIME_LINES_MAX)

struct input {
	struct cpython_layout layout;
	uint64_t code_type, text_type;
	int64_t offset;
};

static void require(int condition)
{
	if (!condition)
		abort();
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static size_t padded(size_t n)
{
	return (n + 7) & ~(size_t)7;
}

/* Of a report about Ruby, which has no line table, and strings that are at least their length. */
static size_t repair_ruby(struct runtime_code *r, size_t left)
{
	uint16_t *const bytes[] = {&r->name_bytes, &r->file_bytes, &r->class_bytes};
	size_t len = sizeof *r;

	r->runtime = RUNTIME_RUBY;
	for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
		*bytes[i] = (uint16_t)least(*bytes[i] % (RUNTIME_TEXT_MAX + 1), left & ~(size_t)7);
		left -= padded(*bytes[i]);
		len += padded(*bytes[i]);
	}
	r->lines_bytes = 0;
	return len;
}

/* As repair, of a report about Perl. */
static size_t repair_perl(struct runtime_code *r, size_t len)
{
	size_t left = len - sizeof *r;

	r->kind = RUNTIME_REPORT_CODE;
	r->runtime = RUNTIME_PERL;
	r->type %= RUNTIME_PERL_CODES;
	r->lines_bytes = 0;
	r->name_bytes = (uint16_t)least(r->name_bytes % (RUNTIME_TEXT_MAX + 1), left & ~(size_t)7);
	left -= padded(r->name_bytes);
	r->file_bytes = (uint16_t)least(r->file_bytes % (RUNTIME_TEXT_MAX + 1), left & ~(size_t)7);
	left -= padded(r->file_bytes);
	r->class_bytes = (uint16_t)least(r->class_bytes % (RUNTIME_TEXT_MAX + 1), left & ~(size_t)7);
	return sizeof *r + padded(r->name_bytes) + padded(r->file_bytes) + padded(r->class_bytes);
}

/* The same, of a report about Lua: only a source, which is terminated. */
static size_t repair_lua(struct runtime_code *r, size_t len)
{
	size_t left = least(len - sizeof *r, RUNTIME_TEXT_MAX) & ~(size_t)7;

	r->kind = RUNTIME_REPORT_CODE;
	r->runtime = RUNTIME_LUA;
	r->name_bytes = r->class_bytes = 0;
	r->lines_bytes = 0;
	r->file_bytes = (uint16_t)left;
	if (left)
		((uint8_t *)(r + 1))[left - 1] = 0;
	return sizeof *r + left;
}

/* The same, of a report about V8, which has any texts. */
static size_t repair_v8(struct runtime_code *r, size_t len)
{
	len = repair_perl(r, len);
	r->runtime = RUNTIME_V8;
	return len;
}

/* Makes the sizes fit to the length of the report, which is returned. */
static size_t repair(struct runtime_code *r, size_t len, int ruby)
{
	size_t left = len - sizeof *r;

	r->kind = RUNTIME_REPORT_CODE;
	if (ruby)
		return repair_ruby(r, left);
	r->runtime = RUNTIME_CPYTHON;
	r->class_bytes = 0; /* PHP's and Ruby's */
	r->name_bytes = (uint16_t)least(r->name_bytes % (RUNTIME_TEXT_MAX + 1), left & ~(size_t)7);
	left -= padded(r->name_bytes);
	r->file_bytes = (uint16_t)least(r->file_bytes % (RUNTIME_TEXT_MAX + 1), left & ~(size_t)7);
	left -= padded(r->file_bytes);
	r->lines_bytes = (uint32_t)least(RUNTIME_LINES_MAX, left & ~(size_t)7);
	if (r->lines_length < r->lines_bytes)
		r->lines_length = r->lines_bytes;
	return sizeof *r + padded(r->name_bytes) + padded(r->file_bytes) + r->lines_bytes;
}

/* Valid for the C library's converter, which refuses surrogates and overlong forms. */
static void check_utf8(const char *s)
{
	static iconv_t to_ucs4; /* keeps no state from one text to the next */
	static char out[16 * RUNTIME_TEXT_MAX];
	char *from = (char *)(uintptr_t)s, *to = out;
	size_t from_left = strlen(s), to_left = sizeof out;

	if (!to_ucs4)
		to_ucs4 = iconv_open("UCS-4LE", "UTF-8");
	require(iconv(to_ucs4, &from, &from_left, &to, &to_left) == 0 && from_left == 0);
}

static void check_text(const char *s)
{
	require(strlen(s) <= 4 * RUNTIME_TEXT_MAX);
	check_utf8(s);
	for (; *s; s++)
		require((unsigned char)*s >= 0x20 && *s != 0x7f);
}

static void check_find(struct code_names *n, uint64_t number, int64_t offset)
{
	struct code_place p;

	if (!code_names_find(n, number, offset, &p))
		return;
	require(p.function != NULL);
	check_text(p.name);
	check_text(p.file);
	require(p.first_line <= INT32_MAX && p.line <= INT32_MAX);
}

/* In every second report about Ruby, too: its form, and its version, are any. */
static int add_report(struct code_names *n, const struct input *in, const struct runtime_code *report,
		      size_t len, int ruby)
{
	static const uint32_t versions[] = {RUBY_VERSION(2, 7), RUBY_VERSION(3, 4), RUBY_VERSION(9, 9)};

	if (ruby)
		return code_names_add_ruby(n, 1, report, len, versions[in->code_type % 3]);
	return code_names_add(n, 1, report, len, &in->layout, in->code_type, in->text_type);
}

static void add(struct code_names *n, const struct input *in, const uint8_t *data, size_t len, int fix,
		int ruby)
{
	struct runtime_code *report = malloc(len ? len : 1); /* exactly, so that reads behind it are found */
	struct code_names_stats s;
	uint64_t number = 0;
	int perl = in->text_type >> 1 & 1, lua = !perl && in->text_type >> 2 & 1;
	int v8 = perl && in->text_type >> 2 & 1;
	int r;

	require(report != NULL);
	memcpy(report, data, len);
	if (len >= sizeof *report) {
		if (fix)
			len = v8     ? repair_v8(report, len)
			      : perl ? repair_perl(report, len)
			      : lua  ? repair_lua(report, len)
				     : repair(report, len, ruby);
		report = realloc(report, len);
		require(report != NULL);
		if (fix && !perl && !lua && in->code_type & 1)
			report->type = in->code_type;
		if (fix && in->text_type & 1)
			report->name_type = report->file_type = in->text_type;
		number = report->number;
	}
	r = v8	   ? code_names_add_v8(n, 1, report, len)
	    : perl ? code_names_add_perl(n, 1, report, len)
	    : lua  ? code_names_add_lua(n, 1, report, len, RUNTIME_LUA)
		   : add_report(n, in, report, len, ruby);
	require(r == 0 || r == -EBADMSG || r == -ENOTSUP);
	require(!fix || ruby || perl || len < sizeof *report || r != -EBADMSG);
	free(report);
	code_names_stats(n, &s);
	require(s.bytes <= BUDGET_BYTES && (s.functions == 0) == (s.bytes == 0));
	check_find(n, number, in->offset);
	for (int64_t i = -4; i < 64; i++)
		check_find(n, number, in->layout.code_start + i);
}

/* The reports' bytes as the name of a task. */
static void check_task(const struct input *in, const uint8_t *data, size_t size)
{
	struct cpython_facts facts = {
		.text_type = in->text_type, .int_type = in->code_type, .layout = in->layout};
	struct sample_task task = {0};
	struct buf name = {0};

	memcpy(&task, data, least(size, sizeof task));
	if (task.reserved & 1)
		task.type = task.bias + (task.reserved & 2 ? in->text_type : in->code_type);
	if (cpython_task_name(&name, &facts, &task) == 0) {
		require(name.len > 0 && name.data[name.len - 1] == '\0');
		require(strlen((const char *)name.data) + 1 == name.len);
		check_text((const char *)name.data);
	} else {
		require(name.len == 0);
	}
	buf_fini(&name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct code_names *n = NULL;
	struct input in;

	if (size < sizeof in)
		return 0;
	memcpy(&in, data, sizeof in);
	data += sizeof in;
	size -= sizeof in;
	in.layout.lines_format %= CPYTHON_LINES_N;
	check_task(&in, data, size);
	require(code_names_new(&n, BUDGET_BYTES) == 0);
	for (int i = 0; size >= 8; i++) {
		uint64_t len;

		memcpy(&len, data, sizeof len);
		data += 8;
		size -= 8;
		len = least(least(len & 0xffff, REPORT_MAX), size);
		add(n, &in, data, len, i % 2 == 0, i % 4 >= 2);
		data += len;
		size -= len;
	}
	code_names_free(n);
	return 0;
}
