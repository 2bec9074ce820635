// SPDX-License-Identifier: Apache-2.0
#include "agent/config/config_error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/buf.h"

static int finish(struct buf *line, char **ret_error)
{
	char *text = strdup(buf_str(line));

	if (!text)
		return -ENOMEM;
	for (char *p = text; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
	free(*ret_error);
	*ret_error = text;
	return -EINVAL;
}

int config_fail(char **ret_error, const char *format, ...)
{
	_cleanup_buf_ struct buf line = {0};
	va_list ap;
	int r = buf_puts(&line, "proflet: ");

	va_start(ap, format);
	if (r == 0)
		r = buf_vprintf(&line, format, ap);
	va_end(ap);
	return r < 0 ? r : finish(&line, ret_error);
}

static int put_place(struct buf *line, const struct config *c, const struct config_origin *origin,
		     const char *key)
{
	switch (origin->source) {
	case CONFIG_FROM_FILE:
		return buf_printf(line, "%s:%u:%u: %s: ", c->file ? c->file : "-", origin->line,
				  origin->column, key);
	case CONFIG_FROM_ENVIRONMENT:
		return buf_printf(line, "environment variable %s: ", origin->name);
	case CONFIG_FROM_OPTION:
		return buf_printf(line, "option %s: ", origin->name);
	case CONFIG_FROM_DEFAULT:
		break;
	}
	return buf_printf(line, "default of %s: ", key);
}

int config_fail_at(const struct config *c, const struct config_origin *origin, const char *key,
		   char **ret_error, const char *format, ...)
{
	_cleanup_buf_ struct buf line = {0};
	va_list ap;
	int r = buf_puts(&line, "proflet: ");

	if (r == 0)
		r = put_place(&line, c, origin, key);
	va_start(ap, format);
	if (r == 0)
		r = buf_vprintf(&line, format, ap);
	va_end(ap);
	return r < 0 ? r : finish(&line, ret_error);
}
