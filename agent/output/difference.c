// SPDX-License-Identifier: Apache-2.0
#include "agent/output/difference.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "agent/output/display_text.h"

#define MIN_COLUMNS 80
#define MAX_COLUMNS 160
#define NUMBERS_WIDTH 46
#define BOLD "\033[1m"
#define DIM "\033[2m"
#define PLAIN "\033[0m"

struct table {
	const struct difference *d;
	FILE *f;
	unsigned columns;
	bool colour;
};

static const char *style(const struct table *t, const char *code)
{
	return t->colour ? code : "";
}

static void put_name(const struct table *t, const struct difference_row *row)
{
	const size_t room = t->columns - NUMBERS_WIDTH, n = output_text_columns(row->name);

	if (n > room) {
		fwrite(row->name, 1, output_text_bytes(row->name, room - 1), t->f);
		fputs("\xe2\x80\xa6", t->f);
	} else {
		fputs(row->name, t->f);
	}
	if (*row->origin && n + 2 + output_text_columns(row->origin) <= room)
		fprintf(t->f, "  %s%s%s", style(t, DIM), row->origin, style(t, PLAIN));
	fputc('\n', t->f);
}

static void put_row(const struct table *t, const struct difference_row *row)
{
	fprintf(t->f, "%7.2f %7.2f  %+7.2f   %+7.2f \xe2\x80\xa6 %+7.2f  ", 100 * row->a, 100 * row->b,
		100 * (row->b - row->a), 100 * row->low, 100 * row->high);
	put_name(t, row);
}

/* Whether a row belongs into the table of those that grew (direction 1), shrank (-1), or are noise (0). */
static bool belongs(const struct difference_row *row, int direction)
{
	if (!row->certain || !direction)
		return !row->certain && !direction;
	return (row->b > row->a) == (direction > 0);
}

static size_t put_table(const struct table *t, int direction, const char *title)
{
	size_t n = 0;

	for (size_t i = 0; i < t->d->n; i++) {
		if (!belongs(&t->d->rows[i], direction))
			continue;
		if (!n++)
			fprintf(t->f, "\n%s%s%s\n", style(t, BOLD), title, style(t, PLAIN));
		if (n <= t->d->n_shown)
			put_row(t, &t->d->rows[i]);
	}
	if (n > t->d->n_shown)
		fprintf(t->f, "%*sand %zu more\n", NUMBERS_WIDTH, "", n - t->d->n_shown);
	return n;
}

static void put_noise(const struct table *t, size_t n_certain)
{
	const struct difference_row *largest = NULL;
	size_t n = 0;

	for (size_t i = 0; i < t->d->n; i++)
		if (belongs(&t->d->rows[i], 0)) {
			largest = largest ?: &t->d->rows[i];
			n++;
		}
	fprintf(t->f, "\n%s%s", style(t, DIM), n_certain ? "" : "no difference: ");
	if (largest)
		fprintf(t->f, "%zu %s%s by no more than noise, at most by %+.2f %% (%s)", n,
			n_certain ? "other " : "", n == 1 ? "function differs" : "functions differ",
			100 * (largest->b - largest->a), largest->name);
	else if (!n_certain)
		fputs("there is no function in both", t->f);
	fprintf(t->f, "%s\n", style(t, PLAIN));
}

static void set_options(struct table *t)
{
	const int fd = fileno(t->f);
	const bool terminal = fd >= 0 && isatty(fd);
	unsigned columns = t->d->columns;
	struct winsize size;

	if (!columns)
		columns = terminal && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 120;
	t->columns = columns < MIN_COLUMNS ? MIN_COLUMNS : columns > MAX_COLUMNS ? MAX_COLUMNS : columns;
	t->colour = t->d->colour == OUTPUT_COLOUR_ALWAYS ||
		    (t->d->colour == OUTPUT_COLOUR_AUTO && terminal && !getenv("NO_COLOR"));
}

int output_difference_write(const struct difference *d, FILE *f)
{
	struct table t = {.d = d, .f = f};
	size_t n;

	set_options(&t);
	fprintf(f, "\n%sshares of all samples, %s%s\n", style(&t, DIM),
		d->total ? "with what a function calls" : "of a function's own code", style(&t, PLAIN));
	fprintf(f, "%s     A%%      B%%   CHANGE       95 %% INTERVAL  FUNCTION%s\n", style(&t, BOLD),
		style(&t, PLAIN));
	n = put_table(&t, 1, "takes more in B");
	n += put_table(&t, -1, "takes less in B");
	put_noise(&t, n);
	return fflush(f) != 0 || ferror(f) ? -EIO : 0;
}
