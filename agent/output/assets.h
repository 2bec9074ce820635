// SPDX-License-Identifier: Apache-2.0
/* The page's files, compiled in. Private. */
#ifndef PROFLET_OUTPUT_ASSETS_H
#define PROFLET_OUTPUT_ASSETS_H

#include <stddef.h>

/* Everything the page consists of, in the order in which the program's parts run: name in C, file. */
#define OUTPUT_SCRIPTS(X)                            \
	X(model, "agent/output/flamegraph_model.js") \
	X(chart, "agent/output/flamegraph_chart.js") \
	X(input, "agent/output/flamegraph_input.js") \
	X(paint, "agent/output/flamegraph_paint.js") \
	X(table, "agent/output/flamegraph_table.js") \
	X(info, "agent/output/flamegraph_info.js")   \
	X(app, "agent/output/flamegraph_app.js")
#define OUTPUT_ASSETS(X)                        \
	X(page, "agent/output/flamegraph.html") \
	X(style, "agent/output/flamegraph.css") \
	OUTPUT_SCRIPTS(X)

#define OUTPUT_ASSET_ENUM(name, file) ASSET_##name,
enum output_asset { OUTPUT_ASSETS(OUTPUT_ASSET_ENUM) OUTPUT_N_ASSETS };

/* The bytes of the file, static, and their number. */
const char *output_asset(enum output_asset asset, size_t *ret_len);

#endif
