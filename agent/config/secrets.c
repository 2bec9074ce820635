// SPDX-License-Identifier: Apache-2.0
#include "agent/config/secrets.h"

#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "agent/base/cleanup.h"
#include "agent/config/config_types.h"

static int dumpable_before = -1;

void secrets_hide(void)
{
	dumpable_before = prctl(PR_GET_DUMPABLE);
	(void)prctl(PR_SET_DUMPABLE, 0); /* cannot fail: 0 is valid */
}

/* http://USER:PASSWORD@HOST */
static bool proxy_has_password(void)
{
	static const char *const names[] = {"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *value = getenv(names[i]);

		if (value && strchr(value, '@'))
			return true;
	}
	return false;
}

bool secrets_settle(const struct config *config)
{
	bool any = config->headers.n || config->headers_file || config->tls.key ||
		   config->listen_token_file || config->kubernetes.metadata || proxy_has_password();

	if (!any && dumpable_before == 1) /* 2 cannot be set, only inherited */
		(void)prctl(PR_SET_DUMPABLE, 1);
	return any;
}

static void overwrite(char *text)
{
	if (text)
		explicit_bzero(text, strlen(text));
}

void secrets_forget(struct config *config)
{
	static const char *const names[] = {
		"PROFLET_HEADERS",
		"PROFLET_ENDPOINT",
		"OTEL_EXPORTER_OTLP_HEADERS",
		"OTEL_EXPORTER_OTLP_PROFILES_HEADERS",
		"OTEL_EXPORTER_OTLP_ENDPOINT",
		"OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT",
		"http_proxy",
		"HTTP_PROXY",
		"https_proxy",
		"HTTPS_PROXY",
	};

	for (size_t i = 0; i < config->headers.n; i++)
		overwrite(config->headers.items[i].value);
	overwrite(config->endpoint);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		overwrite(getenv(names[i]));
}
