// SPDX-License-Identifier: Apache-2.0
/* Checks of single values: addresses, paths, selectors. */
#include <errno.h>
#include <string.h>

#include "agent/base/parse.h"
#include "agent/config/config_value.h"
#include "otlp/endpoint.h"

const char *config_check_endpoint(const char *text)
{
	struct otlp_endpoint ignored;
	const char *why;

	/* The protocol may come later and from elsewhere; whether it takes a path is checked when all is
	 * known. */
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

/* The file's content in the place of its name is a mistake that must not be repeated in a log. */
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

int config_selector_parse(const char *s, struct config_selector *ret)
{
	static const char *const names[] = {
		[CONFIG_SELECT_PID] = "pid=",	    [CONFIG_SELECT_COMM] = "comm=",
		[CONFIG_SELECT_CGROUP] = "cgroup=", [CONFIG_SELECT_CONTAINER] = "container=",
		[CONFIG_SELECT_EXE] = "exe=",	    [CONFIG_SELECT_NAMESPACE] = "namespace=",
		[CONFIG_SELECT_LABEL] = "label=",   [CONFIG_SELECT_CONTAINER_NAME] = "container_name=",
	};
	struct config_selector parsed = {0};
	size_t i = 0, len;

	while (i < ARRAY_SIZE(names) && strncmp(s, names[i], strlen(names[i])) != 0)
		i++;
	if (i == ARRAY_SIZE(names))
		return -EINVAL;
	parsed.kind = (enum config_selector_kind)i;
	parsed.value = s + strlen(names[i]);
	len = strlen(parsed.value);
	switch (parsed.kind) {
	case CONFIG_SELECT_PID:
		if (parse_u32(parsed.value, &parsed.pid) < 0 || parsed.pid == 0 || parsed.pid > INT32_MAX)
			return -EINVAL;
		break;
	case CONFIG_SELECT_COMM:
		if (len < 1 || len > 15)
			return -EINVAL;
		break;
	case CONFIG_SELECT_CGROUP:
		if (parsed.value[0] != '/')
			return -EINVAL;
		break;
	case CONFIG_SELECT_CONTAINER:
		if (len < 12 || len > 64 || strspn(parsed.value, "0123456789abcdef") != len)
			return -EINVAL;
		break;
	case CONFIG_SELECT_LABEL:
		if (parsed.value[0] == '=' || !strchr(parsed.value, '='))
			return -EINVAL;
		break;
	case CONFIG_SELECT_EXE:
	case CONFIG_SELECT_NAMESPACE:
	case CONFIG_SELECT_CONTAINER_NAME:
		if (len < 1)
			return -EINVAL;
		break;
	}
	*ret = parsed;
	return 0;
}

const char *config_check_selector(const char *text)
{
	struct config_selector ignored;

	return config_selector_parse(text, &ignored) < 0 ? "is no selector" : NULL;
}
