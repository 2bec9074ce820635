// SPDX-License-Identifier: Apache-2.0
/*
 * One configuration value: text to storage and back. Keys of the table and options of a command share it.
 * Private to agent/config.
 */
#ifndef PROFLET_CONFIG_VALUE_H
#define PROFLET_CONFIG_VALUE_H

#include "agent/base/buf.h"
#include "agent/config/config_types.h"

enum {
	CONFIG_SECRET = 1 << 0,	     /* never shown */
	CONFIG_URL = 1 << 1,	     /* not shown when it may carry a password */
	CONFIG_OFF_IS_NULL = 1 << 2, /* STRING: "off" means none */
	CONFIG_HEADERS = 1 << 3,     /* PAIRS: names are HTTP field names, lower-cased */
	CONFIG_REQUIRED = 1 << 4,    /* STRING: must not be empty */
	CONFIG_FILE = 1 << 5, /* STRING: name of a file; not shown when refused, because users paste the
				 file's content by mistake */
};

struct config_spec {
	enum config_type type;
	uint64_t min, max;     /* U32, DURATION (ns), SIZE (bytes), FRACTION (10^-6 of a core); 0, 0: any */
	const char *accepted;  /* ENUM, LIST: names separated by commas; NULL: any text */
	const char *form;      /* STRING, LIST: what `check` accepts, for the error line */
	config_check_fn check; /* STRING, and each item of a LIST; may be NULL */
	unsigned flags;
};

/* Maximum number of items in a list or a set of headers. */
#define CONFIG_MAX_ITEMS 64

/*
 * Stores `text` in `target` (see enum config_type). `append`: add to a LIST or PAIRS instead of replacing it.
 * 0, -ENOMEM, or -EINVAL with what was found and what is accepted in `problem`; the target is then unchanged.
 */
int config_value_set(const struct config_spec *s, void *target, const char *text, bool append,
		     struct buf *problem);
/* Append one item of the two multi-valued types, which YAML gives already separated. As config_value_set. */
int config_list_add(const struct config_spec *s, struct config_list *list, const char *text,
		    struct buf *problem);
int config_pairs_add(const struct config_spec *s, struct config_pairs *pairs, const char *key,
		     const char *value, struct buf *problem);
/* Appends "a whole number from 1 to 10000" and the like. 0 or -ENOMEM. */
int config_value_describe(const struct config_spec *s, struct buf *b);
/* Appends the value as YAML, a secret masked. 0 or -ENOMEM. */
int config_value_format(const struct config_spec *s, const void *value, struct buf *b);
void config_value_free(enum config_type type, void *target);
/* Appends `text` in double quotes, cut to a length that fits a line. 0 or -ENOMEM. */
int config_quote(struct buf *b, const char *text);

/* Removes blanks at both ends, in place. */
char *config_trim(char *s);
/* Appends the pairs of "k=v,k2=v2" (W3C baggage without properties), percent-decoded. As config_value_set. */
int config_pairs_parse(const struct config_spec *s, struct config_pairs *ret, const char *text,
		       struct buf *problem);

#endif
