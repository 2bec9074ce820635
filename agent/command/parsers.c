// SPDX-License-Identifier: Apache-2.0
#include "agent/command/parsers.h"

#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/log.h"
#include "agent/config/config.h"
#include "agent/parser/parser.h"
#include "agent/symbol/batch.h"
#include "agent/symbol/jitopen.h"
#include "agent/symbol/jitread.h"
#include "agent/unwind/beam_job.h"
#include "agent/unwind/code_job.h"
#include "agent/unwind/dotnet_job.h"
#include "agent/unwind/hotspot_job.h"
#include "agent/unwind/pdb_search.h"
#include "agent/unwind/rule_job.h"
#include "agent/unwind/table_job.h"
#include "agent/unwind/v8_code_job.h"
#include "agent/unwind/v8_job.h"
#include "agent/unwind/v8_rows_job.h"

/*
 * Of memory.total, a quarter is for unwind tables. With the remainder the tables of the largest programs can
 * be built: a browser, compilers; and of several programs at a time, where they fit into it together. Hostile
 * ones may exceed the control group's limit: then the kernel ends one of the processes that read them.
 */
#define MEMORY_SHARE 0.75

static const struct parser_operation *const operations[] = {
	&table_operation,    &symbol_operation,	 &rule_operation,   &code_operation, &jit_open_operation,
	&jit_read_operation, &hotspot_operation, &v8_operation,	    &beam_operation, &dotnet_operation,
	&pdb_open_operation, &v8_code_operation, &v8_rows_operation};

void parsers_start(void)
{
	int r = parser_start(operations, ARRAY_SIZE(operations));

	if (r < 0) /* they are read by the agent's own threads then */
		log_warn("binaries are read without a sandbox: %s", strerror(-r));
}

void parsers_stop(void)
{
	parser_stop();
}

void parsers_limit(const struct config *config)
{
	uint64_t bytes = (uint64_t)((double)config->memory.total_bytes * MEMORY_SHARE);

	parser_limit_memory(bytes, bytes);
}
