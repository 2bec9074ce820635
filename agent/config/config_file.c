// SPDX-License-Identifier: Apache-2.0
/*
 * The configuration file: one YAML document, whose keys may be nested ("sampling: {frequency: 97}") or dotted
 * ("sampling.frequency: 97"). The walk over the document goes no deeper than the table of keys does, so that
 * neither the document's depth nor its aliases decide how long it takes.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <yaml.h>

#include "agent/base/fs.h"
#include "agent/config/config_error.h"
#include "agent/config/config_keys.h"
#include "agent/config/config_source.h"

#define MAX_KEY 128 /* bytes of a dotted key */

DEFINE_CLEANUP(yaml_document_t *, yaml_document_delete)

struct walk {
	struct config *config;
	yaml_document_t *document;
	char **ret_error;
};

static struct config_origin origin_of(const yaml_node_t *node)
{
	return (struct config_origin){.source = CONFIG_FROM_FILE,
				      .line = (unsigned)node->start_mark.line + 1,
				      .column = (unsigned)node->start_mark.column + 1};
}

/* The node's text, or NULL when it is no scalar or contains a NUL byte. */
static const char *text_of(const yaml_node_t *node)
{
	if (node->type != YAML_SCALAR_NODE ||
	    strlen((const char *)node->data.scalar.value) != node->data.scalar.length)
		return NULL;
	return (const char *)node->data.scalar.value;
}

static bool is_null(const yaml_node_t *node)
{
	const char *text = text_of(node);

	return text && node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
	       (!*text || strcmp(text, "~") == 0 || strcmp(text, "null") == 0);
}

static const char *kind_of(const yaml_node_t *node)
{
	return node->type == YAML_SEQUENCE_NODE	 ? "a list"
	       : node->type == YAML_MAPPING_NODE ? "a section"
						 : "text with a NUL byte";
}

static int wrong_type(const struct walk *w, const yaml_node_t *node, const char *name,
		      const struct config_spec *spec)
{
	_cleanup_buf_ struct buf accepted = {0};
	struct config_origin origin = origin_of(node);
	int r = config_value_describe(spec, &accepted);

	return r < 0 ? r
		     : config_fail_at(w->config, &origin, name, w->ret_error, "found %s; accepted is %s",
				      kind_of(node), buf_str(&accepted));
}

static int apply_list(const struct walk *w, const struct config_key *key, const yaml_node_t *node)
{
	_cleanup_list_ struct config_list list = {0};
	struct config_list *target = config_key_storage(w->config, key), old;

	for (yaml_node_item_t *i = node->data.sequence.items.start; i < node->data.sequence.items.top; i++) {
		yaml_node_t *item = yaml_document_get_node(w->document, *i);
		_cleanup_buf_ struct buf problem = {0};
		struct config_origin origin = origin_of(item);
		const char *text = text_of(item);
		int r = text ? config_list_add(&key->spec, &list, text, &problem)
			     : wrong_type(w, item, key->name, &key->spec);

		if (r < 0)
			return r != -EINVAL || !text ? r
						     : config_fail_at(w->config, &origin, key->name,
								      w->ret_error, "%s", buf_str(&problem));
	}
	old = *target;
	*target = list;
	list = old;
	return 0;
}

static int apply_pairs(const struct walk *w, const struct config_key *key, const yaml_node_t *node)
{
	_cleanup_pairs_ struct config_pairs pairs = {0};
	struct config_pairs *target = config_key_storage(w->config, key), old;

	for (yaml_node_pair_t *i = node->data.mapping.pairs.start; i < node->data.mapping.pairs.top; i++) {
		yaml_node_t *name = yaml_document_get_node(w->document, i->key);
		yaml_node_t *value = yaml_document_get_node(w->document, i->value);
		_cleanup_buf_ struct buf problem = {0};
		struct config_origin origin = origin_of(name);
		size_t n = pairs.n;
		int r;

		if (!text_of(name) || !text_of(value))
			return wrong_type(w, text_of(name) ? value : name, key->name, &key->spec);
		r = config_pairs_add(&key->spec, &pairs, text_of(name), text_of(value), &problem);
		if (r == 0 && pairs.n == n)
			r = buf_puts(&problem, "the same name is given twice") < 0 ? -ENOMEM : -EINVAL;
		if (r == -EINVAL)
			return config_fail_at(w->config, &origin, key->name, w->ret_error, "%s",
					      buf_str(&problem));
		if (r < 0)
			return r;
	}
	old = *target;
	*target = pairs;
	pairs = old;
	return 0;
}

static int apply_key(const struct walk *w, size_t index, const yaml_node_t *name, const yaml_node_t *value)
{
	const struct config_key *key = &config_keys[index];
	struct config_origin *origin = &w->config->origins[index], here = origin_of(value),
			     there = origin_of(name);
	const char *text = text_of(value);
	int r;

	if (origin->source == CONFIG_FROM_FILE)
		return config_fail_at(w->config, &there, key->name, w->ret_error,
				      "duplicate key; first at line %u", origin->line);
	if (is_null(value)) /* "key:" without a value, as templates leave it: not set */
		return 0;
	if (text)
		return config_key_set(w->config, index, &here, text, w->ret_error);
	if (key->spec.type == CONFIG_LIST && value->type == YAML_SEQUENCE_NODE)
		r = apply_list(w, key, value);
	else if (key->spec.type == CONFIG_PAIRS && value->type == YAML_MAPPING_NODE)
		r = apply_pairs(w, key, value);
	else
		r = wrong_type(w, value, key->name, &key->spec);
	if (r == 0)
		*origin = here;
	return r;
}

/* A name with a blank or the like is not shown: it may be a token in the wrong place. */
static const char *key_shown(const char *name)
{
	for (const char *p = name; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr("._-/", *p))
			return "(not shown)";
	return name;
}

static int unknown_key(const struct walk *w, const yaml_node_t *node, const char *section, const char *name)
{
	_cleanup_buf_ struct buf names = {0};
	const char *near = config_key_suggest(name, NULL, 0);
	struct config_origin origin = origin_of(node);
	int r;

	if (near)
		return config_fail_at(w->config, &origin, name, w->ret_error, "unknown key; did you mean %s?",
				      near);
	r = config_key_list_names(section, &names);
	return r < 0 ? r
		     : config_fail_at(w->config, &origin, key_shown(name), w->ret_error,
				      "unknown key; accepted %s%s are %s", *section ? "in " : "keys", section,
				      buf_str(&names));
}

static int not_a_section(const struct walk *w, const yaml_node_t *node, const char *name)
{
	_cleanup_buf_ struct buf names = {0};
	struct config_origin origin = origin_of(node);
	int r = config_key_list_names(name, &names);

	return r < 0 ? r
		     : config_fail_at(w->config, &origin, *name ? name : "document", w->ret_error,
				      "found %s; accepted is a section with the keys %s",
				      node->type == YAML_SCALAR_NODE ? "a single value" : kind_of(node),
				      buf_str(&names));
}

/* The line of an earlier pair with the same key in this mapping, or 0. The mapping is short: the walk ends at
 * the first unknown key. */
static unsigned line_of_twin(const struct walk *w, const yaml_node_t *mapping, const yaml_node_pair_t *pair,
			     const char *text)
{
	for (yaml_node_pair_t *i = mapping->data.mapping.pairs.start; i < pair; i++) {
		const yaml_node_t *node = yaml_document_get_node(w->document, i->key);
		const char *other = text_of(node);

		if (other && strcmp(other, text) == 0)
			return origin_of(node).line;
	}
	return 0;
}

static int walk_section(const struct walk *w, const yaml_node_t *mapping, const char *section,
			unsigned depth);

static int walk_pair(const struct walk *w, const yaml_node_t *mapping, const yaml_node_pair_t *pair,
		     const char *section, unsigned depth)
{
	const yaml_node_t *name_node = yaml_document_get_node(w->document, pair->key);
	const yaml_node_t *value = yaml_document_get_node(w->document, pair->value);
	struct config_origin origin = origin_of(name_node);
	const char *text = text_of(name_node);
	char name[MAX_KEY];
	unsigned twin;
	int index;

	if (!text || !*text ||
	    snprintf(name, sizeof name, "%s%s%s", section, *section ? "." : "", text) >= MAX_KEY)
		return config_fail_at(w->config, &origin, *section ? section : "document", w->ret_error,
				      "found a key that is no name");
	twin = line_of_twin(w, mapping, pair, text);
	if (twin)
		return config_fail_at(w->config, &origin, name, w->ret_error,
				      "duplicate key; first at line %u", twin);
	index = config_key_find(name);
	if (index >= 0)
		return apply_key(w, (size_t)index, name_node, value);
	if (!config_key_is_section(name))
		return unknown_key(w, name_node, section, name);
	return is_null(value) ? 0 : walk_section(w, value, name, depth + 1);
}

static int walk_section(const struct walk *w, const yaml_node_t *mapping, const char *section, unsigned depth)
{
	int r = 0;

	if (mapping->type != YAML_MAPPING_NODE || depth > 4)
		return not_a_section(w, mapping, section);
	for (yaml_node_pair_t *i = mapping->data.mapping.pairs.start;
	     i < mapping->data.mapping.pairs.top && r == 0; i++)
		r = walk_pair(w, mapping, i, section, depth);
	return r;
}

static int apply_document(struct config *c, yaml_document_t *document, char **ret_error)
{
	struct walk w = {.config = c, .document = document, .ret_error = ret_error};
	const yaml_node_t *root = yaml_document_get_root_node(document);

	return root && !is_null(root) ? walk_section(&w, root, "", 0) : 0;
}

/* --- bytes to one document */

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
	r = apply_document(c, loaded, ret_error);
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
