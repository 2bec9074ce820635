// SPDX-License-Identifier: Apache-2.0
/*
 * The first byte selects a parser: the YAML file, one key as text, or the pairs of an environment variable.
 */
#include <errno.h>
#include <string.h>

#include "agent/config/config.h"
#include "agent/config/config_keys.h"
#include "agent/config/config_source.h"
#include "agent/config/config_value.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int r, const char *error)
{
	if (r != 0 && r != -EINVAL)
		abort();
	if (r == -EINVAL && (!error || strchr(error, '\n') || strncmp(error, "proflet: ", 9) != 0))
		abort();
}

static void fuzz_yaml(const uint8_t *data, size_t size)
{
	_cleanup_config_ struct config *c = calloc(1, sizeof *c);
	_cleanup_free_ char *error = NULL;
	_cleanup_buf_ struct buf dump = {0};

	if (!c)
		return;
	check(config_yaml_apply(c, "f", data, size, &error), error);
	if (config_dump(c, &dump) < 0)
		abort();
}

static void fuzz_key(uint8_t which, const char *text)
{
	_cleanup_config_ struct config *c = calloc(1, sizeof *c);
	struct config_origin origin = {.source = CONFIG_FROM_OPTION, .name = "--x"};
	_cleanup_free_ char *error = NULL;

	if (!c)
		return;
	for (int i = 0; i < 2; i++) /* the second pass appends to lists */
		check(config_key_set(c, which % config_n_keys, &origin, text, &error), error);
	config_key_suggest(text, NULL, 0);
}

static void fuzz_pairs(const char *text)
{
	static const struct config_spec spec = {.type = CONFIG_PAIRS};
	_cleanup_pairs_ struct config_pairs pairs = {0};
	_cleanup_buf_ struct buf problem = {0};
	int r = config_pairs_parse(&spec, &pairs, text, &problem);

	if (r != 0 && r != -EINVAL)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = NULL;

	if (size < 2 || size > 16384)
		return 0;
	text = strndup((const char *)data + 2, size - 2);
	if (!text)
		return 0;
	if (data[0] % 3 == 0)
		fuzz_yaml(data + 1, size - 1);
	else if (data[0] % 3 == 1)
		fuzz_key(data[1], text);
	else
		fuzz_pairs(text);
	return 0;
}
