// SPDX-License-Identifier: Apache-2.0
/*
 * The profile as one self-contained HTML page. It consists of flamegraph*.{html,css,js} of this folder, which
 * are compiled in, and the data as JSON. The page opens from disk. Its policy (CSP) forbids all requests and
 * all scripts but its own, and the scripts handle names as text only.
 */
#ifndef PROFLET_OUTPUT_HTML_H
#define PROFLET_OUTPUT_HTML_H

#include <stdio.h>

struct output_profile;

/* 0, -ENOMEM, -EIO when `f` failed. */
int output_html_write(const struct output_profile *p, FILE *f);

#endif
