// SPDX-License-Identifier: Apache-2.0
/* The command line: long options by dotted key, the options of a command, --config and --help. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/config/config_error.h"
#include "agent/config/config_keys.h"
#include "agent/config/config_source.h"

#define MAX_OPTION 128 /* bytes of a name */

/* One parsed option of argv. */
struct option {
	char name[MAX_OPTION];			 /* with its dashes */
	const char *value;			 /* NULL: none there, or the option takes none */
	int key;				 /* position in config_keys, or -1 */
	const struct config_extra_option *extra; /* or NULL */
	bool help, config;
};

struct walk {
	int argc;
	char **argv;
	const struct config_extra_option *extra;
	size_t n_extra;
	int next; /* index in argv of the next argument */
	bool secret_seen;
	char **ret_error;
};

static const struct config_extra_option *find_long(const struct walk *w, const char *name)
{
	for (size_t i = 0; i < w->n_extra; i++)
		if (w->extra[i].name && strcmp(w->extra[i].name, name) == 0)
			return &w->extra[i];
	return NULL;
}

static const struct config_extra_option *find_short(const struct walk *w, char name)
{
	for (size_t i = 0; i < w->n_extra; i++)
		if (w->extra[i].short_name == name)
			return &w->extra[i];
	return NULL;
}

static bool takes_value(const struct option *o)
{
	return o->config || o->key >= 0 || (o->extra && o->extra->type != CONFIG_FLAG);
}

static int unknown(const struct walk *w, const struct option *o)
{
	const char *near = o->name[1] == '-' ? config_key_suggest(o->name + 2, w->extra, w->n_extra) : NULL;

	if (near)
		return config_fail(w->ret_error, "option %s: unknown option; did you mean --%s?", o->name,
				   near);
	return config_fail(w->ret_error, "option %s: unknown option; \"proflet help %s\" lists the options",
			   o->name, w->argv[0]);
}

static struct config_spec spec_of(const struct config_extra_option *e)
{
	return (struct config_spec){.type = e->type,
				    .min = e->min,
				    .max = e->max,
				    .accepted = e->accepted,
				    .check = e->check,
				    .form = e->form};
}

static int missing_value(const struct walk *w, const struct option *o)
{
	_cleanup_buf_ struct buf accepted = {0};
	struct config_spec spec = {.type = CONFIG_STRING, .form = "the name of a file"};
	int r;

	if (o->key >= 0)
		spec = config_keys[o->key].spec;
	else if (o->extra)
		spec = spec_of(o->extra);
	r = config_value_describe(&spec, &accepted);
	return r < 0 ? r
		     : config_fail(w->ret_error, "option %s: has no value; accepted is %s", o->name,
				   buf_str(&accepted));
}

/* Resolves an alias to its key. */
static void resolve(struct option *o)
{
	if (o->extra && o->extra->type == CONFIG_ALIAS) {
		o->key = config_key_find(o->extra->alias);
		o->extra = NULL;
	}
}

static int take_long(struct walk *w, const char *arg, struct option *o)
{
	size_t len = strcspn(arg, "=");

	if (len >= sizeof o->name)
		return config_fail(w->ret_error, "option %.40s...: unknown option", arg);
	memcpy(o->name, arg, len);
	o->name[len] = '\0';
	o->value = arg[len] ? arg + len + 1 : NULL;
	o->extra = find_long(w, o->name + 2);
	o->config = strcmp(o->name, "--config") == 0;
	o->help = strcmp(o->name, "--help") == 0;
	o->key = o->extra ? -1 : config_key_find(o->name + 2);
	if (!o->extra && !o->config && !o->help && o->key < 0)
		return unknown(w, o);
	resolve(o);
	if (!takes_value(o) && o->value)
		return config_fail(w->ret_error, "option %s: takes no value", o->name);
	return 0;
}

/* -d10s or -d 10s; several flags in one argument (-fn) are not supported. */
static int take_short(struct walk *w, const char *arg, struct option *o)
{
	snprintf(o->name, sizeof o->name, "-%c", arg[1]);
	o->value = arg[2] ? arg + 2 : NULL;
	o->extra = find_short(w, arg[1]);
	o->help = !o->extra && arg[1] == 'h';
	if (!o->extra && !o->help)
		return unknown(w, o);
	resolve(o);
	if (!takes_value(o) && o->value)
		return config_fail(w->ret_error, "option %s: takes no value", o->name);
	return 0;
}

/* Parses the next option. Returns 1, 0 at the end of the options, or an error. */
static int take(struct walk *w, struct option *ret)
{
	const char *arg = w->next < w->argc ? w->argv[w->next] : NULL;
	int r;

	*ret = (struct option){.key = -1};
	if (!arg || arg[0] != '-' || !arg[1])
		return 0;
	w->next++;
	if (strcmp(arg, "--") == 0)
		return 0;
	r = arg[1] == '-' ? take_long(w, arg, ret) : take_short(w, arg, ret);
	if (r < 0)
		return r;
	if (takes_value(ret) && !ret->value) {
		if (w->next >= w->argc)
			return missing_value(w, ret);
		ret->value = w->argv[w->next++];
	}
	if (ret->key >= 0 && config_keys[ret->key].spec.flags & CONFIG_SECRET)
		w->secret_seen = true;
	return 1;
}

int config_options_scan(int argc, char **argv, const struct config_extra_option *extra, size_t n_extra,
			bool positional_allowed, struct config_options *ret, char **ret_error)
{
	struct walk w = {argc, argv, extra, n_extra, 1, false, ret_error};
	struct config_options found = {0};
	struct option o;
	int r;

	while ((r = take(&w, &o)) > 0) {
		if (o.help) { /* help is printed even if other options are wrong */
			*ret = (struct config_options){.help = true, .first_positional = argc};
			return 0;
		}
		if (o.config)
			found.file = o.value;
	}
	if (r < 0)
		return r;
	if (w.next < argc && !positional_allowed) {
		_cleanup_buf_ struct buf shown = {0};

		/* Could be part of a secret: an unquoted blank in --headers, or a forgotten --headers. */
		r = w.secret_seen || strpbrk(argv[w.next], "=: ")
			    ? buf_printf(&shown, "number %d (not shown)", w.next)
			    : config_quote(&shown, argv[w.next]);
		return r < 0 ? r
			     : config_fail(ret_error, "unexpected argument %s; %s takes options only",
					   buf_str(&shown), argv[0]);
	}
	found.first_positional = w.next;
	*ret = found;
	return 0;
}

static int apply_extra(struct config *c, const struct option *o, char **ret_error)
{
	_cleanup_buf_ struct buf problem = {0};
	struct config_spec spec = spec_of(o->extra);
	struct config_origin origin = {.source = CONFIG_FROM_OPTION};
	int r = config_value_set(&spec, o->extra->target, o->value, true, &problem);

	if (r != -EINVAL)
		return r;
	snprintf(origin.name, sizeof origin.name, "%.63s", o->name);
	return config_fail_at(c, &origin, o->name, ret_error, "%s", buf_str(&problem));
}

int config_options_apply(struct config *c, int argc, char **argv, const struct config_extra_option *extra,
			 size_t n_extra, char **ret_error)
{
	struct walk w = {argc, argv, extra, n_extra, 1, false, ret_error};
	struct option o;
	int r;

	while ((r = take(&w, &o)) > 0) {
		struct config_origin origin = {.source = CONFIG_FROM_OPTION};

		snprintf(origin.name, sizeof origin.name, "%.63s", o.name);
		if (o.key >= 0)
			r = config_key_set(c, (size_t)o.key, &origin, o.value, ret_error);
		else if (o.extra)
			r = apply_extra(c, &o, ret_error);
		if (r < 0)
			return r;
	}
	return r;
}
