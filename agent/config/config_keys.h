// SPDX-License-Identifier: Apache-2.0
/*
 * The table of configuration keys, the only list of them. To add a key: add a member to struct config and a
 * line here, then run helm/generate for the chart and deploy/generate for the manual. Private to agent/config
 * and the tests.
 */
#ifndef PROFLET_CONFIG_KEYS_H
#define PROFLET_CONFIG_KEYS_H

#include "agent/config/config_value.h"

struct config_key {
	const char *name; /* dotted */
	struct config_spec spec;
	size_t offset;		  /* of the storage in struct config */
	const char *default_text; /* "$NAME": from the environment; NULL: unset */
	const char *otel;	  /* OTEL_EXPORTER_OTLP_[PROFILES_] + this; NULL: none */
	const char *group, *value_name, *help;
};

extern const struct config_key config_keys[];
extern const size_t config_n_keys;

/* The position of a key in the table, or -1. */
int config_key_find(const char *name);
/* The known name nearest to a mistyped one ("did you mean"), or NULL when none is near. `extra` may be NULL.
 * Borrowed from the tables. */
const char *config_key_suggest(const char *name, const struct config_extra_option *extra, size_t n_extra);
/* True when `name` is the first part of a dotted key, such as "sampling". */
bool config_key_is_section(const char *name);
/* Appends the names that a section may contain ("" for the top level), separated by ", ". 0 or -ENOMEM. */
int config_key_list_names(const char *section, struct buf *b);

/* Sets key number `index` from text. An option given again appends to a LIST or PAIRS; any other source
 * replaces what was there. 0, -ENOMEM, or -EINVAL with *ret_error as config_fail_at. */
int config_key_set(struct config *c, size_t index, const struct config_origin *origin, const char *text,
		   char **ret_error);

static inline void *config_key_storage(struct config *c, const struct config_key *key)
{
	return (char *)c + key->offset;
}

#endif
