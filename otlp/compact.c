// SPDX-License-Identifier: Apache-2.0
/*
 * The tables refer to one another without cycles. So one walk over them, referring tables first, finds the
 * entries in use, and a second walk renumbers them.
 */
#include "otlp/compact.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"

enum table { MAPPINGS, LOCATIONS, FUNCTIONS, LINKS, STRINGS, ATTRIBUTES, STACKS, N_TABLES };

struct work {
	otlp_export_request *request;
	struct {
		void **items;
		size_t *n;
		int32_t *map; /* owned; by index of an entry: -1 unused, else its new number */
	} tables[N_TABLES];
	int (*on)(struct work *w, enum table table, int32_t *index);
};

static void work_fini(struct work *w)
{
	for (int t = 0; t < N_TABLES; t++)
		free(w->tables[t].map);
}

static int mark(struct work *w, enum table table, int32_t *index)
{
	if (*index < 0 || (size_t)*index >= *w->tables[table].n)
		return -EBADMSG;
	w->tables[table].map[*index] = 0;
	return 0;
}

static int renumber(struct work *w, enum table table, int32_t *index)
{
	*index = w->tables[table].map[*index];
	return 0;
}

static int visit_each(struct work *w, enum table table, int32_t *indices, size_t n)
{
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++)
		r = w->on(w, table, &indices[i]);
	return r;
}

static int visit_sample(struct work *w, otlp_sample *s)
{
	int r = w->on(w, STACKS, &s->stack_index);

	if (r == 0)
		r = w->on(w, LINKS, &s->link_index);
	return r < 0 ? r : visit_each(w, ATTRIBUTES, s->attribute_indices, s->n_attribute_indices);
}

static int visit_type(struct work *w, otlp_value_type *t)
{
	int r = t ? w->on(w, STRINGS, &t->type_strindex) : 0;

	return r < 0 || !t ? r : w->on(w, STRINGS, &t->unit_strindex);
}

static int visit_profile(struct work *w, otlp_profile *p)
{
	int r = visit_type(w, p->sample_type);

	if (r == 0)
		r = visit_type(w, p->period_type);
	if (r == 0)
		r = visit_each(w, ATTRIBUTES, p->attribute_indices, p->n_attribute_indices);
	for (size_t i = 0; i < p->n_samples && r == 0; i++)
		r = visit_sample(w, p->samples[i]);
	return r;
}

static int visit_profiles(struct work *w)
{
	int r = 0;

	for (size_t i = 0; i < w->request->n_resource_profiles; i++) {
		otlp_resource_profiles *rp = w->request->resource_profiles[i];

		for (size_t k = 0; k < rp->n_scope_profiles; k++)
			for (size_t m = 0; m < rp->scope_profiles[k]->n_profiles && r == 0; m++)
				r = visit_profile(w, rp->scope_profiles[k]->profiles[m]);
	}
	return r;
}

static int visit_stack(struct work *w, void *item)
{
	otlp_stack *s = item;

	return visit_each(w, LOCATIONS, s->location_indices, s->n_location_indices);
}

static int visit_location(struct work *w, void *item)
{
	otlp_location *l = item;
	int r = w->on(w, MAPPINGS, &l->mapping_index);

	for (size_t i = 0; i < l->n_lines && r == 0; i++)
		r = w->on(w, FUNCTIONS, &l->lines[i]->function_index);
	return r < 0 ? r : visit_each(w, ATTRIBUTES, l->attribute_indices, l->n_attribute_indices);
}

static int visit_mapping(struct work *w, void *item)
{
	otlp_mapping *m = item;
	int r = w->on(w, STRINGS, &m->filename_strindex);

	return r < 0 ? r : visit_each(w, ATTRIBUTES, m->attribute_indices, m->n_attribute_indices);
}

static int visit_function(struct work *w, void *item)
{
	otlp_function *f = item;
	int r = w->on(w, STRINGS, &f->name_strindex);

	if (r == 0)
		r = w->on(w, STRINGS, &f->system_name_strindex);
	return r < 0 ? r : w->on(w, STRINGS, &f->filename_strindex);
}

static int visit_attribute(struct work *w, void *item)
{
	otlp_key_value_and_unit *a = item;
	int r = w->on(w, STRINGS, &a->key_strindex);

	return r < 0 ? r : w->on(w, STRINGS, &a->unit_strindex);
}

/*
 * Visits every index in the profiles and in the entries in use; tables that refer come before those they
 * refer to.
 */
static int visit_all(struct work *w)
{
	static const struct {
		enum table table;
		int (*visit)(struct work *w, void *item);
	} order[] = {
		{STACKS, visit_stack},	     {LOCATIONS, visit_location},   {MAPPINGS, visit_mapping},
		{FUNCTIONS, visit_function}, {ATTRIBUTES, visit_attribute},
	};
	int r = visit_profiles(w);

	for (size_t i = 0; i < ARRAY_SIZE(order) && r == 0; i++) {
		enum table t = order[i].table;

		for (size_t k = 0; k < *w->tables[t].n && r == 0; k++)
			if (w->tables[t].map[k] >= 0)
				r = order[i].visit(w, w->tables[t].items[k]);
	}
	return r;
}

static int tables_init(struct work *w)
{
	otlp_dictionary *d = w->request->dictionary;

	if (!d)
		return -EBADMSG;
#define TABLE(t, field)                                 \
	w->tables[t].items = (void **)d->field##_table; \
	w->tables[t].n = &d->n_##field##_table
	TABLE(MAPPINGS, mapping);
	TABLE(LOCATIONS, location);
	TABLE(FUNCTIONS, function);
	TABLE(LINKS, link);
	TABLE(STRINGS, string);
	TABLE(ATTRIBUTES, attribute);
	TABLE(STACKS, stack);
#undef TABLE
	for (int t = 0; t < N_TABLES; t++) {
		if (!*w->tables[t].n)
			return -EBADMSG;
		w->tables[t].map = malloc(*w->tables[t].n * sizeof *w->tables[t].map);
		if (!w->tables[t].map)
			return -ENOMEM;
		memset(w->tables[t].map, 0xff, *w->tables[t].n * sizeof *w->tables[t].map);
		w->tables[t].map[0] = 0; /* the zero value is always in use */
	}
	return 0;
}

/* Numbers the entries in use. */
static void tables_number(struct work *w)
{
	for (int t = 0; t < N_TABLES; t++) {
		int32_t n = 0;

		for (size_t i = 0; i < *w->tables[t].n; i++)
			if (w->tables[t].map[i] >= 0)
				w->tables[t].map[i] = n++;
	}
}

static void tables_close_up(struct work *w)
{
	for (int t = 0; t < N_TABLES; t++) {
		size_t n = 0;

		for (size_t i = 0; i < *w->tables[t].n; i++)
			if (w->tables[t].map[i] >= 0)
				w->tables[t].items[n++] = w->tables[t].items[i];
		*w->tables[t].n = n;
	}
}

int otlp_compact(otlp_export_request *request)
{
	_cleanup_(work_fini) struct work w = {.request = request, .on = mark};
	int r = tables_init(&w);

	if (r == 0)
		r = visit_all(&w);
	if (r < 0)
		return r;
	tables_number(&w);
	w.on = renumber;
	(void)visit_all(&w);
	tables_close_up(&w);
	return 0;
}
