// SPDX-License-Identifier: Apache-2.0
#include "agent/config/config_check.h"

#include <stdio.h>
#include <string.h>

#include "agent/config/selector.h"
#include "otlp/endpoint.h"

const char *config_check_endpoint(const char *text)
{
	struct otlp_endpoint ignored;
	const char *why;

	/* The protocol may be set elsewhere: whether it takes a path is checked when all keys are known. */
	return otlp_endpoint_parse(text, OTLP_HTTP, &ignored, &why) < 0 ? why : NULL;
}

const char *config_check_url(const char *text)
{
	return strncmp(text, "unix:", 5) ? config_check_endpoint(text) : "is no http or https address";
}

const char *config_check_listen(const char *text)
{
	const char *port = strrchr(text, ':'), *bracket = strrchr(text, ']');
	char url[300];

	if (!port || (bracket && bracket > port))
		return "has no port";
	if (strchr(text, '/') ||
	    snprintf(url, sizeof url, "http://%s%s", port == text ? "x" : "", text) >= (int)sizeof url)
		return "is no address";
	return config_check_endpoint(url);
}

/* Detects a file's content in place of its name: a mistake that must not end up in a log. */
const char *config_check_pem_file(const char *text)
{
	for (const char *p = text; *p; p++)
		if ((unsigned char)*p < 0x20)
			return "has a control character";
	return strstr(text, "-----BEGIN") ? "is PEM text" : NULL;
}

const char *config_check_headers_file(const char *text)
{
	if (*text != '/' && strpbrk(text, ":= "))
		return "looks like a header";
	return config_check_pem_file(text);
}

const char *config_check_directory(const char *text)
{
	return *text == '/' ? NULL : "is not an absolute path";
}

const char *config_check_selector(const char *text)
{
	struct config_selector ignored;

	return config_selector_parse(text, &ignored) < 0 ? "is no selector" : NULL;
}
