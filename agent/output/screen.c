// SPDX-License-Identifier: Apache-2.0
#include "agent/output/screen.h"

#include <string.h>

#include "agent/output/keys.h"

static enum output_screen_effect view_set(struct output_screen *s, unsigned view)
{
	s->view = (enum output_live_view)(view % OUTPUT_LIVE_VIEWS_N);
	s->scroll = 0;
	return OUTPUT_SCREEN_CHANGED;
}

/* Drawing corrects what goes too far down. */
static enum output_screen_effect scroll(struct output_screen *s, size_t up, size_t down)
{
	s->scroll = up > s->scroll ? 0 : s->scroll - up;
	s->scroll += down;
	return OUTPUT_SCREEN_CHANGED;
}

static void filter_shorten(struct output_screen *s)
{
	size_t n = strlen(s->filter);

	while (n && ((unsigned char)s->filter[--n] & 0xc0) == 0x80)
		;
	s->filter[n] = '\0';
}

static enum output_screen_effect edit(struct output_screen *s, const struct output_key *key)
{
	switch (key->code) {
	case OUTPUT_KEY_TEXT:
		if (strlen(s->filter) + strlen(key->text) >= sizeof s->filter)
			return OUTPUT_SCREEN_NOTHING;
		strcat(s->filter, key->text);
		break;
	case OUTPUT_KEY_BACKSPACE:
		filter_shorten(s);
		break;
	case OUTPUT_KEY_CLEAR:
		s->filter[0] = '\0';
		break;
	case OUTPUT_KEY_ESCAPE:
		s->filter[0] = '\0';
		s->editing = false;
		break;
	case OUTPUT_KEY_ENTER:
		s->editing = false;
		break;
	default:
		return OUTPUT_SCREEN_NOTHING;
	}
	s->scroll = 0;
	return OUTPUT_SCREEN_CHANGED;
}

static enum output_screen_effect toggle(bool *what)
{
	*what = !*what;
	return OUTPUT_SCREEN_CHANGED;
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
		s->scroll = 0;
		return toggle(&s->by_total);
	case 'c':
		return toggle(&s->since_start);
	case 'p':
	case ' ':
		return toggle(&s->paused);
	case 'h':
	case '?':
		return toggle(&s->help);
	case '/':
		return toggle(&s->editing);
	case 'k':
		return scroll(s, 1, 0);
	case 'j':
		return scroll(s, 0, 1);
	default:
		return OUTPUT_SCREEN_NOTHING;
	}
}

enum output_screen_effect output_screen_key(struct output_screen *s, const struct output_key *key)
{
	size_t page = s->page > 1 ? s->page - 1 : 1; /* one row is seen on both pages */

	if (key->code == OUTPUT_KEY_INTERRUPT)
		return OUTPUT_SCREEN_QUIT;
	if (key->code == OUTPUT_KEY_REDRAW)
		return OUTPUT_SCREEN_CLEARED;
	if (s->help && (key->code != OUTPUT_KEY_TEXT || key->text[0] != 'q'))
		return toggle(&s->help); /* any key ends it */
	switch (key->code) {
	case OUTPUT_KEY_UP:
		return scroll(s, 1, 0);
	case OUTPUT_KEY_DOWN:
		return scroll(s, 0, 1);
	case OUTPUT_KEY_PAGE_UP:
		return scroll(s, page, 0);
	case OUTPUT_KEY_PAGE_DOWN:
		return scroll(s, 0, page);
	case OUTPUT_KEY_HOME:
		return scroll(s, s->scroll, 0);
	case OUTPUT_KEY_END:
		return scroll(s, s->scroll, SIZE_MAX / 2);
	case OUTPUT_KEY_TAB:
		return view_set(s, s->view + 1);
	case OUTPUT_KEY_BACK_TAB:
		return view_set(s, s->view + OUTPUT_LIVE_VIEWS_N - 1);
	default:
		break;
	}
	if (s->editing)
		return edit(s, key);
	if (key->code == OUTPUT_KEY_ESCAPE && !s->filter[0])
		return OUTPUT_SCREEN_QUIT;
	if (key->code == OUTPUT_KEY_ESCAPE)
		return edit(s, key);
	return key->code == OUTPUT_KEY_TEXT ? letter(s, key->text[0]) : OUTPUT_SCREEN_NOTHING;
}
