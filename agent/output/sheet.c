// SPDX-License-Identifier: Apache-2.0
#include "agent/output/sheet.h"

#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

struct sheet sheet_of(FILE *f, unsigned columns, const struct sheet_columns *limits,
		      enum output_colour colour)
{
	const int fd = fileno(f);
	const bool terminal = fd >= 0 && isatty(fd);
	struct winsize size;

	if (!columns)
		columns = terminal && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col
										       : limits->otherwise;
	return (struct sheet){
		.f = f,
		.columns = columns < limits->min   ? limits->min
			   : columns > limits->max ? limits->max
						   : columns,
		.colour = colour == OUTPUT_COLOUR_ALWAYS ||
			  (colour == OUTPUT_COLOUR_AUTO && terminal && !getenv("NO_COLOR")),
	};
}

const char *sheet_style(const struct sheet *s, const char *code)
{
	return s->colour ? code : "";
}
