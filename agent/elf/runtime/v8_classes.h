// SPDX-License-Identifier: Apache-2.0
/*
 * Which class a method is of, from the text of its script: V8 has no class in the objects of a function. A
 * scanner of ECMAScript's tokens goes through the text; it knows no grammar but which brackets are bodies of
 * classes, and what names their members. Where the text may be read in two ways, it gives up, so that it
 * says nothing from there on. Pure. Rank 1.
 */
#ifndef PROFLET_ELF_RUNTIME_V8_CLASSES_H
#define PROFLET_ELF_RUNTIME_V8_CLASSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define V8_CLASS_BYTES 40u /* of a name, with its NUL; longer ones are not known */
#define V8_CLASS_LEVELS 256u

/* A word, or the character of another token. */
struct v8_token {
	uint32_t kind;	    /* enum in the .c file; 0: none */
	uint32_t character; /* of punctuation */
	bool after_dot;	    /* the name of a property */
	char text[V8_CLASS_BYTES];
};

/* What is open: a bracket, or the text itself. */
struct v8_level {
	uint32_t open;
	bool is_head;	 /* of if, while, for, with */
	bool is_class;	 /* the body of a class */
	uint8_t pending; /* a class whose body comes here */
	uint8_t member;	 /* what was read of a member of the class */
	char name[V8_CLASS_BYTES], pending_name[V8_CLASS_BYTES];
	char accessor[4]; /* "get", "set", or "" */
	char word[V8_CLASS_BYTES];
};

struct v8_classes {
	bool lost; /* it has given up */
	uint8_t mode;
	bool escaped, in_set; /* in a string or template; in a regular expression */
	uint32_t quote, previous;
	uint8_t html; /* characters of "<!--" that were just read */
	uint64_t at;
	uint32_t n_on_line; /* tokens since the last end of a line */
	bool has_word;
	size_t word_len;
	struct v8_token word, last, before;
	size_t depth;
	struct v8_level levels[V8_CLASS_LEVELS];
};

/* The member of a class. */
struct v8_member {
	uint64_t hash;			 /* v8_member_hash of its name as V8 has it, "get x" of an accessor */
	char class_name[V8_CLASS_BYTES]; /* "": it is none, or that is not certain */
};

void v8_classes_init(struct v8_classes *c);
/* Takes the next character of the text: a unit of UTF-16. */
void v8_classes_put(struct v8_classes *c, uint32_t character);
/*
 * Whose member the function is whose parameters begin at the next character; *ret is always written. Call it
 * before the character is put.
 */
void v8_classes_member(struct v8_classes *c, uint32_t next, struct v8_member *ret);
uint64_t v8_member_hash(const char *name, size_t len);
/* Whether a member, which a parser process has sent, is such as v8_classes_member gives. */
bool v8_member_valid(const struct v8_member *m);

#endif
