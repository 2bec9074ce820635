// SPDX-License-Identifier: Apache-2.0
/* The request headers. headers_file is read again for each connection, so that a token that a sidecar renews
 * takes effect. */
#include <errno.h>
#include <string.h>

#include "agent/base/fs.h"
#include "agent/config/config.h"
#include "agent/config/config_error.h"
#include "agent/config/config_source.h"
#include "agent/config/config_value.h"

static const struct config_spec headers_spec = {.type = CONFIG_PAIRS,
						.flags = CONFIG_SECRET | CONFIG_HEADERS};

/* "name: value" or "name=value". The first separator counts: the value may contain the other one. */
static int parse_line(struct config_pairs *pairs, const char *file, unsigned number, char *line,
		      char **ret_error)
{
	_cleanup_buf_ struct buf problem = {0};
	char *separator;
	int r;

	line = config_trim(line);
	if (!*line || *line == '#')
		return 0;
	separator = strpbrk(line, ":=");
	if (!separator)
		return config_fail(ret_error, "%s:%u: has no \":\"; accepted is \"name: value\"", file,
				   number);
	*separator = '\0';
	r = config_pairs_add(&headers_spec, pairs, config_trim(line), config_trim(separator + 1), &problem);
	if (r == -EINVAL)
		return config_fail(ret_error, "%s:%u: is no header; accepted is \"name: value\"", file,
				   number);
	return r;
}

int config_headers_parse(struct config_pairs *pairs, const char *file, char *text, char **ret_error)
{
	unsigned number = 0;
	char *line;
	int r = 0;

	while (r == 0 && (line = strsep(&text, "\n")))
		r = parse_line(pairs, file, ++number, line, ret_error);
	return r;
}

static int read_file(struct config_pairs *pairs, const char *file, char **ret_error)
{
	_cleanup_buf_ struct buf content = {0};
	int r = fs_read_file(file, CONFIG_MAX_FILE_BYTES, &content);

	if (r < 0) {
		int failed = r == -ENOMEM
				     ? r
				     : config_fail(ret_error, "%s: cannot be read: %s", file, strerror(-r));

		return failed == -EINVAL ? r : failed;
	}
	r = buf_putc(&content, '\0');
	return r < 0 ? r : config_headers_parse(pairs, file, (char *)content.data, ret_error);
}

int config_headers_read(const struct config *c, struct config_pairs *ret, char **ret_error)
{
	_cleanup_pairs_ struct config_pairs pairs = {0};
	_cleanup_buf_ struct buf problem = {0};
	int r = 0;

	for (size_t i = 0; i < c->headers.n && r == 0; i++)
		r = config_pairs_add(&headers_spec, &pairs, c->headers.items[i].key,
				     c->headers.items[i].value, &problem);
	if (r == 0 && c->headers_file)
		r = read_file(&pairs, c->headers_file, ret_error);
	if (r < 0)
		return r;
	*ret = pairs;
	pairs = (struct config_pairs){0};
	return 0;
}
