// SPDX-License-Identifier: Apache-2.0
/* The configuration file: bytes to one YAML document. */
#include <errno.h>
#include <string.h>

#include "agent/base/fs.h"
#include "agent/config/config_document.h"

DEFINE_CLEANUP(yaml_document_t *, yaml_document_delete)

static int syntax_error(const yaml_parser_t *parser, const char *file, const uint8_t *data, char **ret_error)
{
	unsigned line = (unsigned)parser->problem_mark.line + 1,
		 column = (unsigned)parser->problem_mark.column + 1;
	const char *problem = parser->problem ? parser->problem : "unknown error";

	if (parser->error == YAML_MEMORY_ERROR)
		return -ENOMEM;
	if (parser->error == YAML_READER_ERROR) { /* has an offset instead of a mark */
		line = column = 1;
		for (size_t i = 0; i < parser->problem_offset; i++, column++) {
			if (data[i] == '\n') {
				line++;
				column = 0;
			}
		}
	}
	return config_fail(ret_error, "%s:%u:%u: not valid YAML: %s", file, line, column, problem);
}

static int refuse_second_document(const struct config *c, yaml_parser_t *parser, const uint8_t *data,
				  char **ret_error)
{
	yaml_document_t document;
	_cleanup_(yaml_document_delete_p) yaml_document_t *loaded = NULL;
	struct config_origin origin = {.source = CONFIG_FROM_FILE};
	yaml_node_t *root;

	if (!yaml_parser_load(parser, &document))
		return syntax_error(parser, c->file, data, ret_error);
	loaded = &document;
	root = yaml_document_get_root_node(loaded);
	if (!root)
		return 0;
	origin.line = (unsigned)root->start_mark.line + 1;
	origin.column = (unsigned)root->start_mark.column + 1;
	return config_fail_at(c, &origin, "document", ret_error, "found a second document; accepted is one");
}

int config_yaml_apply(struct config *c, const char *file, const void *data, size_t len, char **ret_error)
{
	_cleanup_(yaml_parser_delete) yaml_parser_t parser;
	yaml_document_t document;
	_cleanup_(yaml_document_delete_p) yaml_document_t *loaded = NULL;
	int r;

	if (!yaml_parser_initialize(&parser))
		return -ENOMEM;
	free(c->file);
	c->file = strdup(file);
	if (!c->file)
		return -ENOMEM;
	yaml_parser_set_input_string(&parser, data, len);
	if (!yaml_parser_load(&parser, &document))
		return syntax_error(&parser, file, data, ret_error);
	loaded = &document;
	r = config_document_apply(c, loaded, ret_error);
	if (r < 0 || !yaml_document_get_root_node(loaded)) /* no root: the input has ended */
		return r;
	return refuse_second_document(c, &parser, data, ret_error);
}

int config_file_apply(struct config *c, const char *file, char **ret_error)
{
	_cleanup_buf_ struct buf content = {0};
	int r = fs_read_file(file, CONFIG_MAX_FILE_BYTES, &content);

	if (r == -ENOMEM)
		return r;
	if (r == -EFBIG)
		return config_fail(ret_error, "%s: is larger than %u bytes", file, CONFIG_MAX_FILE_BYTES);
	if (r < 0)
		return config_fail(ret_error, "%s: cannot be read: %s", file, strerror(-r));
	return config_yaml_apply(c, file, content.data ? content.data : (uint8_t *)"", content.len,
				 ret_error);
}
