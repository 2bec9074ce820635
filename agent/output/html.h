// SPDX-License-Identifier: Apache-2.0
/*
 * The profile as one self-contained HTML page: template, style and program from
 * flamegraph*.{html,css,js} of this folder, compiled in, and the data as JSON. It opens from disk; its policy
 * (CSP) forbids every request and any script but its own, and the program handles names as text only.
 */
#ifndef PROFLET_OUTPUT_HTML_H
#define PROFLET_OUTPUT_HTML_H

#include <stdio.h>

struct output_profile;

/* 0, -ENOMEM, -EIO when `f` failed. */
int output_html_write(const struct output_profile *p, FILE *f);

#endif
