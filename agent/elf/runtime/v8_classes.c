// SPDX-License-Identifier: Apache-2.0
/*
 * The one thing that makes ECMAScript's tokens depend on its grammar is the slash: a division, or the
 * beginning of a regular expression. The token before it decides, and the parenthesis that a closing one
 * belongs to; behind a brace, and behind words that may be names or operators, it is not decided.
 */
#include "agent/elf/runtime/v8_classes.h"

#include <stdio.h>
#include <string.h>

#include "agent/base/cleanup.h"

enum mode { CODE, SLASH, LINE_COMMENT, BLOCK_COMMENT, STRING, TEMPLATE, TEMPLATE_DOLLAR, REGEX };
enum kind { NOTHING, WORD, OPERAND, PUNCTUATION };
enum pending { NO_CLASS, CLASS_SEEN, CLASS_NAMED, EXTENDS_SEEN, HERITAGE };
enum member { MEMBER_BEGINS, MEMBER_NAMED, MEMBER_OTHER };

static struct v8_level *level(struct v8_classes *c)
{
	return &c->levels[c->depth];
}

void v8_classes_init(struct v8_classes *c)
{
	memset(c, 0, sizeof *c);
}

static bool is(const struct v8_token *t, const char *word)
{
	return t->kind == WORD && strcmp(t->text, word) == 0;
}

static bool is_among(const struct v8_token *t, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (is(t, words[i]))
			return true;
	return false;
}

static void begin_member(struct v8_level *l)
{
	l->member = MEMBER_BEGINS;
	l->accessor[0] = l->word[0] = '\0';
}

/* --- the tokens of a class's head and of its members */

/* A class begins: the word before the one before, if the class is assigned to it, is its name. */
static void class_begins(const struct v8_classes *c, struct v8_level *l)
{
	const bool assigned = c->last.kind == PUNCTUATION && c->last.character == '=' &&
			      c->before.kind == WORD && !c->before.after_dot;

	l->pending = CLASS_SEEN;
	(void)snprintf(l->pending_name, sizeof l->pending_name, "%s", assigned ? c->before.text : "");
}

static void head_word(const struct v8_classes *c, struct v8_level *l, const struct v8_token *t)
{
	static const char *const others[] = {"function", "new", "async", "await", "yield", "typeof"};

	if (is(t, "class") && !t->after_dot) {
		class_begins(c, l);
	} else if (l->pending == CLASS_SEEN && is(t, "extends")) {
		l->pending = EXTENDS_SEEN;
	} else if (l->pending == CLASS_SEEN) {
		l->pending = CLASS_NAMED;
		memcpy(l->pending_name, t->text, sizeof l->pending_name);
	} else if (l->pending == CLASS_NAMED) {
		l->pending = is(t, "extends") ? EXTENDS_SEEN : NO_CLASS;
	} else if (l->pending) {
		l->pending = is_among(t, others, ARRAY_SIZE(others)) ? NO_CLASS : HERITAGE;
	}
}

static void head_other(struct v8_level *l, uint32_t character)
{
	const bool may_follow = character == '.' || character == '(' || character == ')' ||
				character == '[' || character == ']';

	if (l->pending && (!may_follow || l->pending < EXTENDS_SEEN))
		l->pending = NO_CLASS;
	else if (l->pending)
		l->pending = HERITAGE;
}

static bool is_modifier(const char *word, bool before_star)
{
	return strcmp(word, "static") == 0 || strcmp(word, "async") == 0 ||
	       (!before_star && (strcmp(word, "get") == 0 || strcmp(word, "set") == 0));
}

static void member_word(struct v8_level *l, const struct v8_token *t)
{
	if (l->member == MEMBER_NAMED && (l->accessor[0] || !is_modifier(l->word, false))) {
		l->member = MEMBER_OTHER;
		return;
	}
	if (l->member == MEMBER_OTHER)
		return;
	if (strcmp(l->word, "get") == 0 || strcmp(l->word, "set") == 0)
		memcpy(l->accessor, l->word, sizeof l->accessor);
	memcpy(l->word, t->text, sizeof l->word);
	l->member = t->text[0] ? MEMBER_NAMED : MEMBER_OTHER;
}

static void member_other(struct v8_level *l, uint32_t character)
{
	if (character == ';')
		begin_member(l);
	else if (character == '*' && l->member == MEMBER_NAMED && is_modifier(l->word, true))
		begin_member(l);
	else if (character != '*' || l->member != MEMBER_BEGINS)
		l->member = MEMBER_OTHER;
}

/* --- tokens */

static void take(struct v8_classes *c, const struct v8_token *t)
{
	c->before = c->last;
	c->last = *t;
	c->n_on_line++;
}

static void end_word(struct v8_classes *c)
{
	struct v8_token *t = &c->word;

	if (!c->has_word)
		return;
	c->has_word = false;
	if (c->word_len >= V8_CLASS_BYTES)
		t->text[0] = '\0';
	else
		t->text[c->word_len] = '\0';
	t->after_dot = c->last.kind == PUNCTUATION && c->last.character == '.';
	t->kind = t->text[0] >= '0' && t->text[0] <= '9' ? OPERAND : WORD;
	if (level(c)->is_class && t->kind == WORD)
		member_word(level(c), t);
	else if (level(c)->is_class)
		level(c)->member = MEMBER_OTHER;
	head_word(c, level(c), t);
	take(c, t);
}

static void take_operand(struct v8_classes *c)
{
	const struct v8_token t = {.kind = OPERAND};

	head_other(level(c), 0);
	if (level(c)->is_class)
		level(c)->member = MEMBER_OTHER;
	take(c, &t);
}

static bool is_head(const struct v8_classes *c)
{
	static const char *const words[] = {"if", "while", "for", "with"};
	const struct v8_token *t = is(&c->last, "await") && is(&c->before, "for") ? &c->before : &c->last;

	return !t->after_dot && is_among(t, words, ARRAY_SIZE(words));
}

/* Whether what has been read of a class says that its body begins. */
static bool body_begins(const struct v8_level *l)
{
	return l->pending == CLASS_SEEN || l->pending == CLASS_NAMED || l->pending == HERITAGE;
}

static void open_level(struct v8_classes *c, uint32_t character)
{
	struct v8_level *outer = level(c), *inner;

	if (c->depth + 1 == V8_CLASS_LEVELS) {
		c->lost = true;
		return;
	}
	inner = &c->levels[++c->depth];
	memset(inner, 0, sizeof *inner);
	inner->open = character;
	inner->is_head = character == '(' && is_head(c);
	if (character == '{' && body_begins(outer)) {
		inner->is_class = true;
		memcpy(inner->name, outer->pending_name, sizeof inner->name);
	}
	if (character == '{')
		outer->pending = NO_CLASS;
	else
		head_other(outer, character);
	if (outer->is_class)
		outer->member = MEMBER_OTHER;
}

static void close_level(struct v8_classes *c, uint32_t character)
{
	const uint32_t open = character == ')' ? '(' : character == ']' ? '[' : '{';
	struct v8_level *inner = level(c);

	if (!c->depth || (inner->open != open && !(open == '{' && inner->open == '$'))) {
		c->lost = true;
		return;
	}
	c->depth--;
	if (inner->open == '$')
		c->mode = TEMPLATE;
	else if (open == '{' && level(c)->is_class)
		begin_member(level(c));
}

/* Whether it ends "<!--", or "-->" at the beginning of a line: they may be comments. */
static bool is_html(struct v8_classes *c, uint32_t character)
{
	static const char comment[] = "<!--";
	const bool dashes = c->last.character == '-' && c->before.character == '-' && c->previous == '-';

	if (c->html && c->previous != (uint32_t)comment[c->html - 1])
		c->html = 0;
	c->html = character == (uint32_t)comment[c->html] ? c->html + 1 : character == '<';
	return c->html == strlen(comment) || (character == '>' && dashes && c->n_on_line == 2);
}

static void take_punctuation(struct v8_classes *c, uint32_t character)
{
	const struct v8_token t = {.kind = PUNCTUATION, .character = character};

	c->lost |= character == '\\' || character == '@' || is_html(c, character);
	if (character == '(' || character == '[' || character == '{') {
		open_level(c, character);
	} else if (character == ')' || character == ']' || character == '}') {
		close_level(c, character);
	} else {
		head_other(level(c), character);
		if (level(c)->is_class)
			member_other(level(c), character);
	}
	take(c, &t);
	/* so that it is seen when the parenthesis has been closed */
	if (character == ')' && c->depth + 1 < V8_CLASS_LEVELS)
		c->last.after_dot = c->levels[c->depth + 1].is_head;
}

/* Whether a slash is the beginning of a regular expression; c->lost: that cannot be known. */
static bool is_regex(struct v8_classes *c)
{
	static const char *const operators[] = {"return",     "typeof", "case",	 "in", "delete", "void",
						"instanceof", "new",	"throw", "do", "else"};
	static const char *const doubtful[] = {"of",	 "yield", "await", "let",
					       "static", "async", "get",   "set"};
	const struct v8_token *t = &c->last;

	if (t->kind == OPERAND)
		return false;
	if (t->kind == WORD) {
		c->lost |= !t->after_dot && is_among(t, doubtful, ARRAY_SIZE(doubtful));
		return !t->after_dot && is_among(t, operators, ARRAY_SIZE(operators));
	}
	if (t->character == ')')
		return t->after_dot;
	c->lost |=
		t->character == '}' || ((t->character == '+' || t->character == '-') &&
					c->before.kind == PUNCTUATION && c->before.character == t->character);
	return t->kind == NOTHING || t->character != ']';
}

/* --- characters */

static bool is_end_of_line(uint32_t x)
{
	return x == '\n' || x == '\r' || x == 0x2028 || x == 0x2029;
}

static bool is_space(uint32_t x)
{
	return x == ' ' || (x >= '\t' && x <= '\r') || x == 0xa0 || x == 0x1680 ||
	       (x >= 0x2000 && x <= 0x200a) || x == 0x2028 || x == 0x2029 || x == 0x202f || x == 0x205f ||
	       x == 0x3000 || x == 0xfeff;
}

static bool is_letter(uint32_t x)
{
	return (x >= 'a' && x <= 'z') || (x >= 'A' && x <= 'Z') || (x >= '0' && x <= '9') || x == '_' ||
	       x == '$' || x == '#' || x >= 0x80;
}

static void put_letter(struct v8_classes *c, uint32_t x)
{
	if (!c->has_word) {
		memset(&c->word, 0, sizeof c->word);
		c->word_len = 0;
		c->has_word = true;
	}
	if (x >= 0x80) /* a name that is not known */
		c->word_len = V8_CLASS_BYTES;
	if (c->word_len < V8_CLASS_BYTES)
		c->word.text[c->word_len++] = (char)x;
}

static void put_code(struct v8_classes *c, uint32_t x)
{
	const bool number = c->has_word && c->word.text[0] >= '0' && c->word.text[0] <= '9';

	if (is_end_of_line(x) || is_space(x)) {
		end_word(c);
		if (is_end_of_line(x))
			c->n_on_line = 0;
	} else if (is_letter(x) || (x == '.' && number)) {
		put_letter(c, x);
	} else if (x == '!' && c->at == 1 && c->previous == '#') {
		c->has_word = false;
		c->mode = LINE_COMMENT;
	} else {
		end_word(c);
		if (x == '"' || x == '\'') {
			c->quote = x;
			c->escaped = false;
			c->mode = STRING;
		} else if (x == '`') {
			c->escaped = false;
			c->mode = TEMPLATE;
		} else if (x == '/') {
			c->mode = SLASH;
		} else {
			take_punctuation(c, x);
		}
	}
}

static void put_string(struct v8_classes *c, uint32_t x)
{
	if (c->escaped) {
		c->escaped = false;
	} else if (x == '\\') {
		c->escaped = true;
	} else if (x == c->quote) {
		c->mode = CODE;
		take_operand(c);
	} else { /* the end of a line may be CR LF, which is escaped as one */
		c->lost |= x == '\r' || (x == '\n' && c->previous != '\r');
	}
}

static void put_template(struct v8_classes *c, uint32_t x)
{
	const bool dollar = c->mode == TEMPLATE_DOLLAR;

	c->mode = TEMPLATE;
	if (c->escaped) {
		c->escaped = false;
	} else if (x == '\\') {
		c->escaped = true;
	} else if (x == '`') {
		c->mode = CODE;
		take_operand(c);
	} else if (x == '$') {
		c->mode = TEMPLATE_DOLLAR;
	} else if (x == '{' && dollar) {
		c->mode = CODE;
		take_operand(c);
		open_level(c, '$');
		c->last = (struct v8_token){.kind = PUNCTUATION, .character = '{'};
	}
}

static void put_regex(struct v8_classes *c, uint32_t x)
{
	c->lost |= is_end_of_line(x);
	if (c->escaped) {
		c->escaped = false;
	} else if (x == '\\') {
		c->escaped = true;
	} else if (x == '[' || x == ']') {
		c->in_set = x == '[';
	} else if (x == '/' && !c->in_set) {
		c->mode = CODE;
		take_operand(c); /* its flags are a word, which is an operand, too */
	}
}

/* Behind a slash. */
static void put_slash(struct v8_classes *c, uint32_t x)
{
	if (x == '/' || x == '*') {
		c->mode = x == '/' ? LINE_COMMENT : BLOCK_COMMENT;
		c->escaped = false;
	} else if (is_regex(c)) {
		c->mode = REGEX;
		c->escaped = c->in_set = false;
		put_regex(c, x);
	} else {
		c->mode = CODE;
		take_punctuation(c, '/');
		put_code(c, x);
	}
}

static void put_comment(struct v8_classes *c, uint32_t x)
{
	if (is_end_of_line(x))
		c->n_on_line = 0;
	if (c->mode == LINE_COMMENT ? is_end_of_line(x) : x == '/' && c->escaped)
		c->mode = CODE;
	c->escaped = x == '*';
}

void v8_classes_put(struct v8_classes *c, uint32_t character)
{
	static void (*const put[])(struct v8_classes *, uint32_t) = {[CODE] = put_code,
								     [SLASH] = put_slash,
								     [LINE_COMMENT] = put_comment,
								     [STRING] = put_string,
								     [TEMPLATE] = put_template,
								     [BLOCK_COMMENT] = put_comment,
								     [REGEX] = put_regex,
								     [TEMPLATE_DOLLAR] = put_template};

	if (c->lost)
		return;
	put[c->mode](c, character);
	c->previous = character;
	c->at++;
}

void v8_classes_member(struct v8_classes *c, uint32_t next, struct v8_member *ret)
{
	char name[2 * V8_CLASS_BYTES];
	const struct v8_level *l;
	int n;

	memset(ret, 0, sizeof *ret);
	if (c->lost || c->mode != CODE || next != '(')
		return;
	end_word(c);
	l = level(c);
	if (!l->is_class || !l->name[0] || l->member != MEMBER_NAMED || !l->word[0] || c->last.kind != WORD)
		return;
	n = snprintf(name, sizeof name, "%s%s%s", l->accessor, l->accessor[0] ? " " : "", l->word);
	ret->hash = v8_member_hash(name, (size_t)n);
	memcpy(ret->class_name, l->name, sizeof ret->class_name);
}

/* FNV-1a */
uint64_t v8_member_hash(const char *name, size_t len)
{
	uint64_t h = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (uint8_t)name[i]) * 0x100000001b3ull;
	return h;
}

bool v8_member_valid(const struct v8_member *m)
{
	const size_t n = strnlen(m->class_name, V8_CLASS_BYTES);

	for (size_t i = 0; i < n; i++)
		if (!is_letter((uint8_t)m->class_name[i]) || (uint8_t)m->class_name[i] >= 0x80)
			return false;
	return n < V8_CLASS_BYTES;
}
