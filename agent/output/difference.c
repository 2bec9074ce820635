// SPDX-License-Identifier: Apache-2.0
#include "agent/output/difference.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/output/display_text.h"
#include "agent/output/sheet.h"

#define NUMBERS_WIDTH 46

static const struct sheet_columns limits = {.min = 80, .max = 160, .otherwise = 120};

struct table {
	const struct difference *d;
	struct sheet sheet;
};

static void put_name(const struct table *t, const struct difference_row *row)
{
	const size_t room = t->sheet.columns - NUMBERS_WIDTH, n = output_text_columns(row->name);

	if (n > room) {
		fwrite(row->name, 1, output_text_bytes(row->name, room - 1), t->sheet.f);
		fputs("\xe2\x80\xa6", t->sheet.f);
	} else {
		fputs(row->name, t->sheet.f);
	}
	if (*row->origin && n + 2 + output_text_columns(row->origin) <= room)
		fprintf(t->sheet.f, "  %s%s%s", sheet_style(&t->sheet, SHEET_DIM), row->origin,
			sheet_style(&t->sheet, SHEET_PLAIN));
	fputc('\n', t->sheet.f);
}

static void put_row(const struct table *t, const struct difference_row *row)
{
	fprintf(t->sheet.f, "%7.2f %7.2f  %+7.2f   %+7.2f \xe2\x80\xa6 %+7.2f  ", 100 * row->a, 100 * row->b,
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
			fprintf(t->sheet.f, "\n%s%s%s\n", sheet_style(&t->sheet, SHEET_BOLD), title,
				sheet_style(&t->sheet, SHEET_PLAIN));
		if (n <= t->d->n_shown)
			put_row(t, &t->d->rows[i]);
	}
	if (n > t->d->n_shown)
		fprintf(t->sheet.f, "%*sand %zu more\n", NUMBERS_WIDTH, "", n - t->d->n_shown);
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
	fprintf(t->sheet.f, "\n%s%s", sheet_style(&t->sheet, SHEET_DIM), n_certain ? "" : "no difference: ");
	if (largest)
		fprintf(t->sheet.f, "%zu %s%s by no more than noise, at most by %+.2f %% (%s)", n,
			n_certain ? "other " : "", n == 1 ? "function differs" : "functions differ",
			100 * (largest->b - largest->a), largest->name);
	else if (!n_certain)
		fputs("there is no function in both", t->sheet.f);
	fprintf(t->sheet.f, "%s\n", sheet_style(&t->sheet, SHEET_PLAIN));
}

int output_difference_write(const struct difference *d, FILE *f)
{
	struct table t = {.d = d, .sheet = sheet_of(f, d->columns, &limits, d->colour)};
	size_t n;

	fprintf(f, "\n%sshares of all samples, %s%s\n", sheet_style(&t.sheet, SHEET_DIM),
		d->total ? "with what a function calls" : "of a function's own code",
		sheet_style(&t.sheet, SHEET_PLAIN));
	fprintf(f, "%s     A%%      B%%   CHANGE       95 %% INTERVAL  FUNCTION%s\n",
		sheet_style(&t.sheet, SHEET_BOLD), sheet_style(&t.sheet, SHEET_PLAIN));
	n = put_table(&t, 1, "takes more in B");
	n += put_table(&t, -1, "takes less in B");
	put_noise(&t, n);
	return fflush(f) != 0 || ferror(f) ? -EIO : 0;
}
