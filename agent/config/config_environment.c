// SPDX-License-Identifier: Apache-2.0
/*
 * The environment: PROFLET_<KEY>, then the OpenTelemetry variables, of which the profiles form overrides the
 * general one. Only the variable that takes effect is parsed, so that a general value meant for another
 * signal causes no error. An empty variable counts as unset. Specification: OpenTelemetry, "Protocol
 * Exporter" and "Environment Variables".
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/base/parse.h"
#include "agent/config/config_error.h"
#include "agent/config/config_keys.h"
#include "agent/config/config_source.h"

static const struct config_spec pairs_spec = {.type = CONFIG_PAIRS};

static const char *get(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

const char *config_environment_file(void)
{
	return get("PROFLET_CONFIG");
}

/* Looks up OTEL_EXPORTER_OTLP_PROFILES_<suffix>, then OTEL_EXPORTER_OTLP_<suffix>; returns in `name` the one
 * it found. */
static const char *get_otel(const char *suffix, char name[64])
{
	const char *value;

	snprintf(name, 64, "OTEL_EXPORTER_OTLP_PROFILES_%s", suffix);
	value = get(name);
	if (value)
		return value;
	snprintf(name, 64, "OTEL_EXPORTER_OTLP_%s", suffix);
	return get(name);
}

static const char *get_own(const char *key, char name[64])
{
	int n = snprintf(name, 64, "PROFLET_%s", key);

	for (int i = 0; i < n; i++)
		name[i] = name[i] == '.' ? '_' : (char)toupper((unsigned char)name[i]);
	return get(name);
}

/* Adds a scheme to an endpoint without one: http if …_INSECURE is true, else https. */
static int complete_endpoint(struct config *c, const char *text, char **ret_text, char **ret_error)
{
	struct config_origin origin = {.source = CONFIG_FROM_ENVIRONMENT};
	bool insecure = false;
	const char *value;

	if (strstr(text, "://")) {
		*ret_text = strdup(text);
		return *ret_text ? 0 : -ENOMEM;
	}
	value = get_otel("INSECURE", origin.name);
	if (value && strcasecmp(value, "true") == 0)
		insecure = true;
	else if (value && strcasecmp(value, "false") != 0)
		return config_fail_at(c, &origin, "endpoint", ret_error, "\"%.40s\" is not true or false",
				      value);
	if (asprintf(ret_text, "%s%s", insecure ? "http://" : "https://", text) < 0) {
		*ret_text = NULL;
		return -ENOMEM;
	}
	return 0;
}

/* OTEL_…_TIMEOUT is a number of milliseconds. */
static int set_timeout(struct config *c, size_t index, const struct config_origin *origin, const char *text,
		       char **ret_error)
{
	const struct config_spec *spec = &config_keys[index].spec;
	_cleanup_buf_ struct buf shown = {0};
	uint64_t ms;

	if (parse_u64(text, 10, &ms) < 0 || ms < spec->min / 1000000 || ms > spec->max / 1000000) {
		if (config_quote(&shown, text) < 0)
			return -ENOMEM;
		return config_fail_at(c, origin, "timeout", ret_error,
				      "%s is not a whole number of milliseconds from %" PRIu64 " to %" PRIu64,
				      buf_str(&shown), spec->min / 1000000, spec->max / 1000000);
	}
	c->timeout_ns = ms * 1000000;
	c->origins[index] = *origin;
	return 0;
}

static int apply_key(struct config *c, size_t index, char **ret_error)
{
	const struct config_key *key = &config_keys[index];
	struct config_origin origin = {.source = CONFIG_FROM_ENVIRONMENT};
	const char *value = get_own(key->name, origin.name);
	_cleanup_free_ char *url = NULL;
	int r;

	if (value || !key->otel)
		return value ? config_key_set(c, index, &origin, value, ret_error) : 0;
	value = get_otel(key->otel, origin.name);
	if (!value)
		return 0;
	if (key->spec.type == CONFIG_DURATION)
		return set_timeout(c, index, &origin, value, ret_error);
	if (!(key->spec.flags & CONFIG_URL))
		return config_key_set(c, index, &origin, value, ret_error);
	r = complete_endpoint(c, value, &url, ret_error);
	if (r == 0)
		r = config_key_set(c, index, &origin, url, ret_error);
	return r;
}

static int apply_resource(struct config *c, char **ret_error)
{
	static const char NAME[] = "OTEL_RESOURCE_ATTRIBUTES";
	const char *attributes = get(NAME);
	_cleanup_buf_ struct buf problem = {0};
	int r = 0;

	if (attributes)
		r = config_pairs_parse(&pairs_spec, &c->otel.resource_attributes, attributes, &problem);
	if (r == -EINVAL)
		return config_fail(ret_error, "environment variable %s: %s", NAME, buf_str(&problem));
	return r;
}

int config_environment_apply(struct config *c, char **ret_error)
{
	int r = apply_resource(c, ret_error);

	for (size_t i = 0; i < config_n_keys && r == 0; i++)
		r = apply_key(c, i, ret_error);
	return r;
}
