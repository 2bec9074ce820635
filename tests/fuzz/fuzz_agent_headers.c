// SPDX-License-Identifier: Apache-2.0
/*
 * The first byte selects an environment variable or a headers_file, and the remaining bytes are its text. The
 * transport must be able to parse every header that is accepted. A refused one is reported by its position;
 * the error line and the dump must not contain its text, which is secret.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "agent/config/config.h"
#include "agent/config/config_keys.h"
#include "agent/config/config_source.h"
#include "agent/config/config_value.h"
#include "otlp/headers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const variables[] = {"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_PROFILES_HEADERS",
					"PROFLET_HEADERS"};

/* All error lines, without their numbers. */
static const char *const lines[] = {
	"has no name; accepted is NAME=VALUE,NAME=VALUE",
	"has a name that is no HTTP field name; accepted is NAME=VALUE,NAME=VALUE",
	"has a control character in its value; accepted is NAME=VALUE,NAME=VALUE",
	"is one too many; accepted is NAME=VALUE,NAME=VALUE",
	"has no \"=\"; accepted is NAME=VALUE,NAME=VALUE",
	"has a bad %XX sequence; accepted is NAME=VALUE,NAME=VALUE",
};
static const char *const file_lines[] = {
	"has no \":\"; accepted is \"name: value\"",
	"is no header; accepted is \"name: value\"",
};

static const char *skip_number(const char *s)
{
	while (isdigit((unsigned char)*s))
		s++;
	return s;
}

static bool is_one_of(const char *text, const char *const *accepted, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(text, accepted[i]))
			return true;
	return false;
}

/* The line must be one of these, apart from its numbers. */
static void check_line(const char *line, const char *start, const char *const *accepted, size_t n)
{
	if (!line || strncmp(line, start, strlen(start)))
		abort();
	line = skip_number(line + strlen(start));
	if (!is_one_of(line + strspn(line, " :"), accepted, n))
		abort();
}

/*
 * The transport may still refuse a name that it sets itself, a value that HTTP/2 forbids, or too many
 * headers.
 */
static void use(const struct config *c)
{
	struct otlp_header headers[CONFIG_MAX_ITEMS];
	_cleanup_pairs_ struct config_pairs pairs = {0};
	_cleanup_free_ char *error = NULL;
	struct otlp_headers copy = {0};
	size_t bad = SIZE_MAX;
	int r;

	if (config_headers_read(c, &pairs, &error) < 0 || pairs.n > CONFIG_MAX_ITEMS)
		abort();
	for (size_t i = 0; i < pairs.n; i++)
		headers[i] = (struct otlp_header){pairs.items[i].key, pairs.items[i].value};
	r = otlp_headers_copy(headers, pairs.n, &copy, &bad);
	if (r != 0 && (r != -EINVAL || bad >= pairs.n))
		abort();
	otlp_headers_fini(&copy);
}

static void fuzz_environment(const char *variable, const char *text)
{
	_cleanup_config_ struct config *c = calloc(1, sizeof *c);
	_cleanup_free_ char *error = NULL;
	char start[96];
	int r;

	if (!c || setenv(variable, text, 1) < 0)
		abort();
	r = config_environment_apply(c, &error);
	unsetenv(variable);
	if (r != 0 && r != -EINVAL)
		abort();
	snprintf(start, sizeof start, "proflet: environment variable %s: entry ", variable);
	if (r < 0)
		check_line(error, start, lines, ARRAY_SIZE(lines));
	else
		use(c);
}

static void fuzz_file(char *text)
{
	_cleanup_pairs_ struct config_pairs pairs = {0};
	_cleanup_free_ char *error = NULL;
	int r = config_headers_parse(&pairs, "f", text, &error);

	if (r != 0 && r != -EINVAL)
		abort();
	if (r < 0)
		check_line(error, "proflet: f:", file_lines, ARRAY_SIZE(file_lines));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = NULL;

	if (!size || size > 65536)
		return 0;
	text = strndup((const char *)data + 1, size - 1);
	if (!text)
		return 0;
	if (data[0] % 4 == 3)
		fuzz_file(text);
	else
		fuzz_environment(variables[data[0] % 4], text);
	return 0;
}
