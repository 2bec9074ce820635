// SPDX-License-Identifier: Apache-2.0
#include "otlp/headers.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <nghttp2/nghttp2.h>

#include "agent/base/cleanup.h"

static bool is_reserved(const char *name)
{
	static const char *const names[] = {
		"accept-encoding",
		"connection",
		"content-encoding",
		"content-length",
		"content-type",
		"expect",
		"host",
		"keep-alive",
		"proxy-connection",
		"te",
		"transfer-encoding",
		"upgrade",
	};

	if (!strncmp(name, "grpc-", 5))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

static int copy_one(const struct otlp_header *from, struct otlp_header *ret)
{
	_cleanup_free_ char *name = strdup(from->name), *value = strdup(from->value);

	if (!name || !value)
		return -ENOMEM;
	for (char *c = name; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	if (name[0] == ':' || is_reserved(name) ||
	    !nghttp2_check_header_name((uint8_t *)name, strlen(name)) ||
	    !nghttp2_check_header_value((uint8_t *)value, strlen(value)))
		return -EINVAL;
	ret->name = TAKE_PTR(name);
	ret->value = TAKE_PTR(value);
	return 0;
}

int otlp_headers_copy(const struct otlp_header *headers, size_t n, struct otlp_headers *ret, size_t *ret_bad)
{
	_cleanup_(otlp_headers_fini) struct otlp_headers h = {0};
	int r;

	if (n > OTLP_HEADERS_MAX)
		return -E2BIG;
	h.items = calloc(n ? n : 1, sizeof *h.items);
	if (!h.items)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		r = copy_one(&headers[i], &h.items[i]);
		if (r < 0) {
			if (ret_bad)
				*ret_bad = i;
			return r;
		}
		h.n++;
	}
	*ret = h;
	h = (struct otlp_headers){0};
	return 0;
}

void otlp_headers_fini(struct otlp_headers *h)
{
	for (size_t i = 0; i < h->n; i++) {
		explicit_bzero((char *)h->items[i].value, strlen(h->items[i].value));
		free((char *)h->items[i].name);
		free((char *)h->items[i].value);
	}
	free(h->items);
	*h = (struct otlp_headers){0};
}
