// SPDX-License-Identifier: Apache-2.0
/*
 * The profile as one self-contained HTML page. It consists of flamegraph*.{html,css,js} of this folder, which
 * are compiled in, and the data as JSON. The page opens from disk. Its policy (CSP) forbids all requests and
 * all scripts but its own, and the scripts handle names as text only.
 */
#ifndef PROFLET_OUTPUT_HTML_H
#define PROFLET_OUTPUT_HTML_H

#include <stdint.h>
#include <stdio.h>

struct output_profile;

/* One of two recordings. Borrowed. */
struct output_html_side {
	const char *file;
	uint64_t start_unix_ns, duration_ns; /* 0: unknown */
	double samples;			     /* 0 < samples */
	/*
	 * How often each of n_blocks parts of its time is drawn in each of n_draws recordings that it might
	 * have been: from these the page tells noise. Samples in block K have the time K << 20. NULL: their
	 * times are not known, each sample is independent of the others.
	 */
	const uint8_t *weights;
};

/*
 * What a page shows that compares two recordings, whose stacks are in one profile, those of the second with
 * `after`. Functions of both are equal only if all that is known of them is.
 */
struct output_html_difference {
	struct output_html_side sides[2];
	unsigned n_draws, n_blocks;
	double least;			/* share of all samples: a smaller difference does not count */
	double limit_self, limit_total; /* of standard deviations: a smaller difference is noise */
};

/* `difference`: NULL for one recording. 0, -ENOMEM, -EIO when `f` failed. */
int output_html_write(const struct output_profile *p, const struct output_html_difference *difference,
		      FILE *f);

#endif
