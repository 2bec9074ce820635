// SPDX-License-Identifier: Apache-2.0
#include "agent/recording/selection.h"

#include <errno.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/pool.h"

struct pattern {
	regex_t regex;
	bool used;
};

struct stack_selection {
	struct pattern focus, ignore;
	bool lines;
	struct frame *frames; /* owned */
	struct frame_line *sources;
	size_t n, cap, sources_cap;
	struct pool names;
};

static int compile(struct pattern *p, const char *text, const char *option, char **ret_why)
{
	char why[128];
	int e;

	if (!text)
		return 0;
	e = regcomp(&p->regex, text, REG_EXTENDED | REG_NOSUB);
	if (e == 0) {
		p->used = true;
		return 0;
	}
	(void)regerror(e, &p->regex, why, sizeof why);
	if (e == REG_ESPACE ||
	    asprintf(ret_why, "%s: \"%s\" is no regular expression: %s", option, text, why) < 0)
		return -ENOMEM;
	return -EINVAL;
}

int stack_selection_new(struct stack_selection **ret, const struct stack_selection_options *options,
			char **ret_why)
{
	struct stack_selection *s = calloc(1, sizeof *s);
	int e;

	*ret_why = NULL;
	if (!s)
		return -ENOMEM;
	s->lines = options->lines;
	e = compile(&s->focus, options->focus, "--focus", ret_why);
	if (e == 0)
		e = compile(&s->ignore, options->ignore, "--ignore", ret_why);
	if (e < 0)
		stack_selection_free(s);
	else
		*ret = s;
	return e;
}

void stack_selection_free(struct stack_selection *s)
{
	if (!s)
		return;
	if (s->focus.used)
		regfree(&s->focus.regex);
	if (s->ignore.used)
		regfree(&s->ignore.regex);
	pool_fini(&s->names);
	free(s->frames);
	free(s->sources);
	free(s);
}

/* "function FILE:LINE", in the pool. NULL: no memory. */
static const char *name_with_line(struct stack_selection *s, const char *function, const struct frame_line *l)
{
	const char *slash = strrchr(l->file, '/');
	const size_t size = strlen(function) + strlen(l->file) + 16;
	char *name = pool_take(&s->names, size);

	if (name)
		snprintf(name, size, "%s %s:%u", function, slash && slash[1] ? slash + 1 : l->file, l->line);
	return name;
}

/* Adds a frame with one of its calls, the last of which is the frame's own function. */
static int add_call(struct stack_selection *s, const struct frame *f, size_t i)
{
	struct frame_line *source = &s->sources[s->n];
	struct frame *to = &s->frames[s->n];

	*to = *f;
	*source = f->lines[i];
	to->lines = source;
	to->n_lines = 1;
	if (i + 1 < f->n_lines) {
		to->function = source->function;
		to->system_name = NULL;
		to->inlined = true;
		to->start_line = source->start_line;
	}
	if (s->lines && source->line && to->function) {
		to->function = name_with_line(s, to->function, source);
		to->start_line = source->line;
		if (!to->function)
			return -ENOMEM;
	}
	s->n++;
	return 0;
}

static int expand(struct stack_selection *s, const struct output_stack *stack)
{
	size_t n = 0;
	int e = 0;

	for (size_t i = 0; i < stack->n_frames; i++)
		n += stack->frames[i].n_lines ?: 1;
	if (array_reserve(&s->frames, &s->cap, n + 1, sizeof *s->frames) < 0 ||
	    array_reserve(&s->sources, &s->sources_cap, n + 1, sizeof *s->sources) < 0)
		return -ENOMEM;
	s->n = 0;
	for (size_t i = 0; i < stack->n_frames; i++) {
		const struct frame *f = &stack->frames[i];

		if (!f->n_lines)
			s->frames[s->n++] = *f;
		for (size_t k = 0; k < f->n_lines && e == 0; k++)
			e = add_call(s, f, k);
	}
	return e;
}

static bool matches(const struct stack_selection *s, const struct pattern *p)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->frames[i].function && regexec(&p->regex, s->frames[i].function, 0, NULL, 0) == 0)
			return true;
	return false;
}

int stack_selection_apply(struct stack_selection *s, const struct output_stack *stack,
			  struct output_stack *ret)
{
	int e;

	pool_fini(&s->names);
	e = expand(s, stack);
	if (e < 0)
		return e;
	if ((s->focus.used && !matches(s, &s->focus)) || (s->ignore.used && matches(s, &s->ignore)))
		return 0;
	*ret = *stack;
	ret->frames = s->frames;
	ret->n_frames = s->n;
	return 1;
}
