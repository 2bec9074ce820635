// SPDX-License-Identifier: Apache-2.0
/* Whether text has styles. */
#ifndef PROFLET_OUTPUT_COLOUR_H
#define PROFLET_OUTPUT_COLOUR_H

enum output_colour {
	OUTPUT_COLOUR_AUTO,
	OUTPUT_COLOUR_NEVER,
	OUTPUT_COLOUR_ALWAYS
}; /* auto: terminal, NO_COLOR unset */

#endif
