// SPDX-License-Identifier: Apache-2.0
#include "agent/check/check_result.h"

#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/exit_code.h"
#include "otlp/utf8.h"

static const char *const status_names[] = {
	[CHECK_OK] = "ok", [CHECK_DEGRADED] = "degraded", [CHECK_FAILS] = "fails"};

/* Text from servers and files ends up on terminals and in JSON: make it valid, without control characters. */
static void put_text(char *ret, size_t size, const char *text)
{
	_cleanup_buf_ struct buf clean = {0};

	*ret = '\0';
	if (utf8_sanitize(&clean, text, strlen(text), size - 1) < 0)
		return;
	for (size_t i = 0; i < clean.len; i++)
		ret[i] = clean.data[i] < 0x20 || clean.data[i] == 0x7f ? '?' : (char)clean.data[i];
	ret[clean.len] = '\0';
}

static void add(struct check_report *report, enum check_status status, bool permission, const char *name,
		const char *detail, const char *fix)
{
	struct check_result *result;

	if (report->n == CHECK_MAX_RESULTS)
		return;
	result = &report->results[report->n++];
	*result = (struct check_result){.status = status, .permission = permission};
	put_text(result->name, sizeof result->name, name);
	put_text(result->detail, sizeof result->detail, detail);
	put_text(result->fix, sizeof result->fix, fix);
}

void check_add(struct check_report *report, enum check_status status, const char *name, const char *detail,
	       const char *fix)
{
	add(report, status, false, name, detail, fix);
}

void check_add_denied(struct check_report *report, const char *name, const char *detail, const char *fix)
{
	add(report, CHECK_FAILS, true, name, detail, fix);
}

int check_exit_code(const struct check_report *report)
{
	int code = EXIT_DONE;

	for (size_t i = 0; i < report->n; i++) {
		if (report->results[i].status != CHECK_FAILS)
			continue;
		if (report->results[i].permission)
			return EXIT_NOT_PERMITTED;
		code = EXIT_FAILED;
	}
	return code;
}

int check_format_text(const struct check_report *report, struct buf *b)
{
	int r = 0;

	for (size_t i = 0; i < report->n && r == 0; i++) {
		const struct check_result *result = &report->results[i];

		r = buf_printf(b, "%-8s  %-22s  %s%s%s\n", status_names[result->status], result->name,
			       result->detail, *result->fix ? " → " : "", result->fix);
	}
	return r;
}

static int put_json_string(struct buf *b, const char *text)
{
	int r = buf_putc(b, '"');

	for (; *text && r == 0; text++) {
		if (*text == '"' || *text == '\\')
			r = buf_putc(b, '\\');
		if (r == 0)
			r = buf_putc(b, *text);
	}
	return r < 0 ? r : buf_putc(b, '"');
}

static int put_json_member(struct buf *b, const char *before, const char *name, const char *value)
{
	int r = buf_printf(b, "%s\"%s\": ", before, name);

	return r < 0 ? r : put_json_string(b, value);
}

int check_format_json(const struct check_report *report, struct buf *b)
{
	int r = buf_putc(b, '[');

	for (size_t i = 0; i < report->n && r == 0; i++) {
		const struct check_result *result = &report->results[i];

		r = put_json_member(b, i ? ",\n {" : "\n {", "name", result->name);
		if (r == 0)
			r = put_json_member(b, ", ", "status", status_names[result->status]);
		if (r == 0)
			r = put_json_member(b, ", ", "detail", result->detail);
		if (r == 0)
			r = put_json_member(b, ", ", "fix", result->fix);
		if (r == 0)
			r = buf_putc(b, '}');
	}
	return r < 0 ? r : buf_puts(b, "\n]\n");
}
