// SPDX-License-Identifier: Apache-2.0
#include "agent/config/config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/config/config_error.h"
#include "agent/config/config_keys.h"
#include "agent/config/config_source.h"
#include "otlp/endpoint.h"

/* A default of the form "$NAME" is the value of that environment variable. It is applied after the file,
 * which overrides it. */
static int apply_defaults(struct config *c, bool from_environment, char **ret_error)
{
	for (size_t i = 0; i < config_n_keys; i++) {
		const char *text = config_keys[i].default_text;
		struct config_origin origin = c->origins[i];
		int r;

		if (!text || origin.source != CONFIG_FROM_DEFAULT || (*text == '$') != from_environment)
			continue;
		if (from_environment) {
			origin.source = CONFIG_FROM_ENVIRONMENT;
			snprintf(origin.name, sizeof origin.name, "%.63s", text + 1);
			text = getenv(text + 1);
		}
		r = text && *text ? config_key_set(c, i, &origin, text, ret_error) : 0;
		if (r < 0)
			return r;
	}
	return 0;
}

/* Reports a conflict between two keys at the one whose source has the higher precedence. */
static int conflict(const struct config *c, const char *a, const char *b, char **ret_error, const char *text)
{
	const struct config_origin *origin_a = config_origin(c, a), *origin_b = config_origin(c, b);

	if (origin_a->source >= origin_b->source)
		return config_fail_at(c, origin_a, a, ret_error, "%s", text);
	return config_fail_at(c, origin_b, b, ret_error, "%s", text);
}

static int check_memory(const struct config *c, const char *part, uint64_t bytes, char **ret_error)
{
	_cleanup_free_ char *text = NULL;

	if (bytes <= c->memory.total_bytes)
		return 0;
	if (asprintf(&text, "%s (%" PRIu64 " bytes) is more than memory.total (%" PRIu64 " bytes)", part,
		     bytes, c->memory.total_bytes) < 0) {
		text = NULL;
		return -ENOMEM;
	}
	return conflict(c, part, "memory.total", ret_error, text);
}

/* An endpoint with a path is valid, but not for gRPC. */
static int check_path(const struct config *c, char **ret_error)
{
	enum otlp_protocol protocol = c->protocol == CONFIG_PROTOCOL_GRPC ? OTLP_GRPC : OTLP_HTTP;
	_cleanup_free_ char *text = NULL;
	struct otlp_endpoint ignored;
	const char *why;

	if (otlp_endpoint_parse(c->endpoint, protocol, &ignored, &why) == 0)
		return 0;
	if (asprintf(&text, "\"%.100s\" %s", c->endpoint, why) < 0) {
		text = NULL;
		return -ENOMEM;
	}
	return conflict(c, "endpoint", "protocol", ret_error, text);
}

static int check_together(const struct config *c, char **ret_error)
{
	int r = check_memory(c, "memory.tables", c->memory.tables_bytes, ret_error);

	if (r == 0)
		r = check_memory(c, "queue.memory", c->queue.memory_bytes, ret_error);
	if (r == 0)
		r = check_path(c, ret_error);
	if (r == 0 && !c->tls.cert != !c->tls.key)
		r = conflict(c, "tls.cert", "tls.key", ret_error,
			     "tls.cert and tls.key are accepted only together");
	return r;
}

/* Fills in what depends on several keys. By the specification, OTLP over HTTP has a default port of its own,
 * and the profiles form of the endpoint variable is a complete URL. */
static int complete(struct config *c, char **ret_error)
{
	int r = apply_defaults(c, true, ret_error);
	const struct config_origin *origin = config_origin(c, "endpoint");
	char *endpoint;

	if (r < 0)
		return r;
	c->endpoint_is_signal_url = strcmp(origin->name, "OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT") == 0;
	if (c->protocol != CONFIG_PROTOCOL_HTTP || origin->source != CONFIG_FROM_DEFAULT)
		return check_together(c, ret_error);
	endpoint = strdup("http://localhost:4318");
	if (!endpoint)
		return -ENOMEM;
	free(c->endpoint);
	c->endpoint = endpoint;
	return check_together(c, ret_error);
}

int config_load(struct config **ret, int argc, char **argv, const struct config_extra_option *extra,
		size_t n_extra, int *ret_first_positional, char **ret_error)
{
	_cleanup_config_ struct config *c = NULL;
	struct config_options options;
	const char *file;
	int r = config_options_scan(argc, argv, extra, n_extra, ret_first_positional != NULL, &options,
				    ret_error);

	if (r < 0)
		return r;
	if (options.help)
		return CONFIG_HELP_ASKED;
	c = calloc(1, sizeof *c);
	if (!c)
		return -ENOMEM;
	file = options.file ? options.file : config_environment_file();
	r = apply_defaults(c, false, ret_error);
	if (r == 0 && file)
		r = config_file_apply(c, file, ret_error);
	if (r == 0)
		r = config_environment_apply(c, ret_error);
	if (r == 0)
		r = config_options_apply(c, argc, argv, extra, n_extra, ret_error);
	if (r == 0)
		r = complete(c, ret_error);
	if (r < 0)
		return r;
	if (ret_first_positional)
		*ret_first_positional = options.first_positional;
	*ret = TAKE_PTR(c);
	return 0;
}

void config_free(struct config *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < config_n_keys; i++)
		config_value_free(config_keys[i].spec.type, config_key_storage(c, &config_keys[i]));
	config_pairs_free(&c->otel.resource_attributes);
	free(c->file);
	free(c);
}

const struct config_origin *config_origin(const struct config *c, const char *key)
{
	int index = config_key_find(key);

	return index < 0 ? NULL : &c->origins[index];
}
