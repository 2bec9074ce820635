// SPDX-License-Identifier: Apache-2.0
/* Keys change the state of the screen. */
#include <stdint.h>
#include <string.h>

#include "agent/output/keyboard.h"
#include "agent/output/screen.h"

static enum output_screen_effect view_set(struct output_screen *s, unsigned view)
{
	s->view = (enum output_live_view)(view % OUTPUT_LIVE_VIEWS_N);
	s->cursor = s->scroll = s->n_levels = 0;
	return OUTPUT_SCREEN_CHANGED;
}

/* --- levels */

/* Looks into the selected row. */
static enum output_screen_effect enter(struct output_screen *s)
{
	struct output_screen_level *level = &s->levels[s->n_levels];

	if (!s->selected.subject || s->n_levels == OUTPUT_SCREEN_LEVELS_MAX)
		return OUTPUT_SCREEN_NOTHING;
	level->place = s->selected;
	level->cursor = s->cursor;
	level->scroll = s->scroll;
	memcpy(level->filter, s->filter, sizeof level->filter);
	s->n_levels++;
	s->filter[0] = '\0';
	s->cursor = s->scroll = 0;
	s->selected.subject = OUTPUT_SCREEN_NO_SUBJECT; /* until it is drawn */
	return OUTPUT_SCREEN_CHANGED;
}

static enum output_screen_effect back(struct output_screen *s)
{
	const struct output_screen_level *level;

	if (!s->n_levels)
		return OUTPUT_SCREEN_NOTHING;
	level = &s->levels[--s->n_levels];
	s->cursor = level->cursor;
	s->scroll = level->scroll;
	memcpy(s->filter, level->filter, sizeof s->filter);
	s->selected.subject = OUTPUT_SCREEN_NO_SUBJECT;
	return OUTPUT_SCREEN_CHANGED;
}

struct output_live_query output_screen_query(const struct output_screen *s, struct output_live_scope *scope)
{
	*scope = (struct output_live_scope){0};
	for (size_t i = 0; i < s->n_levels; i++) {
		const struct output_screen_place *p = &s->levels[i].place;

		scope->function = NULL;
		if (p->subject == OUTPUT_SCREEN_FUNCTION) {
			scope->function = p->name;
			scope->module = p->module;
			continue;
		}
		scope->container = p->container;
		if (p->subject != OUTPUT_SCREEN_PROCESS)
			continue;
		scope->process = p->name;
		scope->pid = p->pid;
	}
	return (struct output_live_query){.view = s->view,
					  .scope = s->n_levels ? scope : NULL,
					  .by_total = s->by_total,
					  .since_start = s->since_start && !s->n_levels,
					  .filter = s->filter};
}

/* --- texts that are typed */

static void shorten(char *text)
{
	size_t n = strlen(text);

	while (n && ((unsigned char)text[--n] & 0xc0) == 0x80)
		;
	text[n] = '\0';
}

static enum output_screen_effect edit_text(char *text, size_t size, const struct output_key *key)
{
	switch (key->code) {
	case OUTPUT_KEY_TEXT:
		if (strlen(text) + strlen(key->text) >= size)
			return OUTPUT_SCREEN_NOTHING;
		memcpy(text + strlen(text), key->text, strlen(key->text) + 1);
		break;
	case OUTPUT_KEY_BACKSPACE:
		shorten(text);
		break;
	case OUTPUT_KEY_CLEAR:
		text[0] = '\0';
		break;
	default:
		return OUTPUT_SCREEN_NOTHING;
	}
	return OUTPUT_SCREEN_CHANGED;
}

static enum output_screen_effect edit_filter(struct output_screen *s, const struct output_key *key)
{
	enum output_screen_effect effect = edit_text(s->filter, sizeof s->filter, key);

	if (key->code == OUTPUT_KEY_ESCAPE)
		s->filter[0] = '\0';
	if (key->code == OUTPUT_KEY_ESCAPE || key->code == OUTPUT_KEY_ENTER) {
		s->editing = false;
		effect = OUTPUT_SCREEN_CHANGED;
	}
	if (effect == OUTPUT_SCREEN_CHANGED)
		s->cursor = s->scroll = 0;
	return effect;
}

static enum output_screen_effect edit_path(struct output_screen *s, const struct output_key *key)
{
	if (key->code == OUTPUT_KEY_ESCAPE)
		s->naming = false;
	if (key->code == OUTPUT_KEY_ENTER)
		return s->path[0] ? OUTPUT_SCREEN_WRITE : OUTPUT_SCREEN_NOTHING;
	return key->code == OUTPUT_KEY_ESCAPE ? OUTPUT_SCREEN_CHANGED
					      : edit_text(s->path, sizeof s->path, key);
}

/* --- one key */

/* May move too far down; drawing corrects that. */
static bool move(size_t *at, size_t up, size_t down)
{
	*at = up > *at ? 0 : *at - up;
	*at += down;
	return true;
}

/* Keys that move in a list. */
static bool moves(size_t *at, size_t page, const struct output_key *key)
{
	bool letter = key->code == OUTPUT_KEY_TEXT;

	if (key->code == OUTPUT_KEY_UP || (letter && key->text[0] == 'k'))
		return move(at, 1, 0);
	if (key->code == OUTPUT_KEY_DOWN || (letter && key->text[0] == 'j'))
		return move(at, 0, 1);
	if (key->code == OUTPUT_KEY_PAGE_UP)
		return move(at, page, 0);
	if (key->code == OUTPUT_KEY_PAGE_DOWN)
		return move(at, 0, page);
	if (key->code == OUTPUT_KEY_HOME)
		return move(at, *at, 0);
	if (key->code == OUTPUT_KEY_END)
		return move(at, *at, SIZE_MAX / 2);
	return false;
}

static enum output_screen_effect toggle(bool *what)
{
	*what = !*what;
	return OUTPUT_SCREEN_CHANGED;
}

static enum output_screen_effect name_file(struct output_screen *s)
{
	s->naming = true;
	return OUTPUT_SCREEN_NAME;
}

static enum output_screen_effect letter(struct output_screen *s, char c)
{
	switch (c) {
	case 'q':
	case 'Q':
		return OUTPUT_SCREEN_QUIT;
	case '1':
	case '2':
	case '3':
		return view_set(s, (unsigned)(c - '1'));
	case 's':
		s->cursor = s->scroll = 0;
		return toggle(&s->by_total);
	case 'c': /* stacks are kept for the last seconds only */
		return s->n_levels ? OUTPUT_SCREEN_NOTHING : toggle(&s->since_start);
	case 'p':
	case ' ':
		return toggle(&s->paused);
	case 'h':
	case '?':
		s->help_scroll = 0;
		return toggle(&s->help);
	case '/':
		return toggle(&s->editing);
	case 'w':
		return name_file(s);
	default:
		return OUTPUT_SCREEN_NOTHING;
	}
}

static enum output_screen_effect command(struct output_screen *s, const struct output_key *key)
{
	switch (key->code) {
	case OUTPUT_KEY_TAB:
		return view_set(s, s->view + 1);
	case OUTPUT_KEY_BACK_TAB:
		return view_set(s, s->view + OUTPUT_LIVE_VIEWS_N - 1);
	case OUTPUT_KEY_ENTER:
	case OUTPUT_KEY_RIGHT:
		return enter(s);
	case OUTPUT_KEY_BACKSPACE:
	case OUTPUT_KEY_LEFT:
		return back(s);
	case OUTPUT_KEY_ESCAPE:
		return s->filter[0] ? edit_filter(s, key) : s->n_levels ? back(s) : OUTPUT_SCREEN_QUIT;
	case OUTPUT_KEY_TEXT:
		return letter(s, key->text[0]);
	default:
		return OUTPUT_SCREEN_NOTHING;
	}
}

static enum output_screen_effect key_of_list(struct output_screen *s, const struct output_key *key)
{
	size_t page = s->page > 1 ? s->page - 1 : 1; /* pages overlap by one row */
	bool typing = s->naming || s->editing;

	if (!(typing && key->code == OUTPUT_KEY_TEXT) && moves(&s->cursor, page, key))
		return OUTPUT_SCREEN_CHANGED;
	if (s->naming)
		return edit_path(s, key);
	return s->editing ? edit_filter(s, key) : command(s, key);
}

enum output_screen_effect output_screen_key(struct output_screen *s, const struct output_key *key)
{
	bool noticed = s->notice[0];
	enum output_screen_effect effect;

	s->notice[0] = '\0';
	if (key->code == OUTPUT_KEY_INTERRUPT)
		return OUTPUT_SCREEN_QUIT;
	if (key->code == OUTPUT_KEY_REDRAW)
		return OUTPUT_SCREEN_CLEARED;
	if (s->help && moves(&s->help_scroll, s->page > 1 ? s->page : 1, key))
		return OUTPUT_SCREEN_CHANGED;
	if (s->help && (key->code != OUTPUT_KEY_TEXT || key->text[0] != 'q'))
		return toggle(&s->help); /* any other key ends it */
	effect = key_of_list(s, key);
	return effect == OUTPUT_SCREEN_NOTHING && noticed ? OUTPUT_SCREEN_CHANGED : effect;
}
