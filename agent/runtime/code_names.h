// SPDX-License-Identifier: Apache-2.0
/*
 * Functions of language runtimes by the number of their code object (bpf/abi.h): name, file and lines, as the
 * BPF program has read them in the process. Everything in a report was written by a tenant: it is bounded,
 * text becomes valid UTF-8 without control characters, and a report that is not what it should be is counted
 * and dropped. Bounded in bytes: the tenant that has most gives way, with the functions that were unused for
 * longest. Main loop only.
 */
#ifndef PROFLET_RUNTIME_CODE_NAMES_H
#define PROFLET_RUNTIME_CODE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CODE_NAME_UNKNOWN "<unknown>" /* in the form of "<module>" and "<lambda>" */
#define CODE_NAME_MAIN "<main>"	      /* PHP code outside of functions, as phpspy has it */
#define CODE_NAME_PERL_MAIN "(main)"  /* Perl code outside of functions; the next ones as caller() has them */
#define CODE_NAME_PERL_EVAL "(eval)"
#define CODE_NAME_PERL_UNKNOWN "(unknown)"

struct code_names;
struct cpython_layout;
struct runtime_code;
struct v8_member;

/* A place in a function. The strings are owned by the names, valid until the next code_names_add. */
struct code_place {
	const void *function; /* equal for places in one function, while the strings are valid */
	const char *name;     /* qualified, "Class.method"; CODE_NAME_UNKNOWN if it could not be read */
	const char *file;     /* "" if unknown */
	uint32_t first_line;  /* 0: unknown */
	uint32_t line;	      /* 0: unknown, or no line's: code that the compiler added */
};

struct code_names_stats {
	uint64_t added, bad, evicted; /* reports taken, refused or without memory; functions dropped */
	uint64_t missed;	      /* code_names_find without an answer */
	size_t functions, bytes;      /* bytes with what the allocator and the map need for them */
};

/* 0 or -ENOMEM. */
int code_names_new(struct code_names **ret, size_t max_bytes);
void code_names_free(struct code_names *n); /* NULL is fine */
/*
 * Takes a report about a CPython code object of a process of that tenant (struct proc_context), of `len`
 * bytes, whose objects have that layout. `code_type` and
 * `text_type` are the process addresses of PyCode_Type and PyUnicode_Type, 0: not known. 0; -EBADMSG: the
 * bytes are no report; -ENOTSUP: the object is no code object, so the layout is wrong, or its name is no
 * string; -ENOMEM.
 * A name, file or line table that could not be read is unknown until a later report about the same number has
 * it: of each, the names keep the more complete one.
 */
int code_names_add(struct code_names *n, uint64_t tenant, const struct runtime_code *report, size_t len,
		   const struct cpython_layout *layout, uint64_t code_type, uint64_t text_type);
/*
 * Takes a report about a PHP function. Its name is "function" or "Class::method", as debug_backtrace() gives
 * them. Functions of PHP itself have no file and no line. Errors as above but -ENOTSUP.
 */
int code_names_add_php(struct code_names *n, uint64_t tenant, const struct runtime_code *report, size_t len);
/*
 * Takes a report about an iseq of Ruby, or a function of native code, which has no file and no line.
 * `version`: of the runtime (RUBY_VERSION). Its name is as ruby_name_append gives it. Errors as above but
 * -ENOTSUP.
 */
int code_names_add_ruby(struct code_names *n, uint64_t tenant, const struct runtime_code *report, size_t len,
			uint32_t version);
/*
 * Takes a report about a function of Perl in one of its files. Its name is "Package::function", and the other
 * ones that caller() gives. The first line is not known. Errors as above but -ENOTSUP.
 */
int code_names_add_perl(struct code_names *n, uint64_t tenant, const struct runtime_code *report, size_t len);
/*
 * Takes a report about a function of Lua, which has no name of its own: it gets the one that Lua's tracebacks
 * have, "function <FILE:LINE>" or "main chunk". `runtime`: RUNTIME_LUA or RUNTIME_LUAJIT. Errors as above but
 * -ENOTSUP.
 */
int code_names_add_lua(struct code_names *n, uint64_t tenant, const struct runtime_code *report, size_t len,
		       uint32_t runtime);
/*
 * Takes a report about a function of V8. Its name is its own, or if V8 has guessed one that ends in it, or
 * it has none, that: "object.method". Errors as above but -ENOTSUP.
 */
int code_names_add_v8(struct code_names *n, uint64_t tenant, const struct runtime_code *report, size_t len);
/*
 * Takes the name and the file of a method of a Java virtual machine, "package.Class.method", both as
 * agent/runtime/vm_code.h has read them. Its lines are those of its frames. 0 or -ENOMEM.
 */
int code_names_add_method(struct code_names *n, uint64_t tenant, uint64_t number, const char *name,
			  const char *file);
/*
 * Says at which line a function of V8 begins, which its report does not have. Nothing changes if it is known
 * already, or nothing is known of the function.
 */
void code_names_set_line(struct code_names *n, uint64_t number, uint32_t line);
/*
 * Says which class a function of V8 is a member of, as its script's text has it: its name becomes
 * "Class.name". Nothing changes if the text names another function. 0 or -ENOMEM.
 */
int code_names_set_class(struct code_names *n, uint64_t number, const struct v8_member *member);
/* Whether a function is known whose first line is not. */
bool code_names_lacks_line(const struct code_names *n, uint64_t number);
bool code_names_has(const struct code_names *n, uint64_t number);
/* From now on, nothing is known of it. */
void code_names_forget(struct code_names *n, uint64_t number);
/*
 * The place of a frame: `number` is the payload of its head, `offset` its second word. False: nothing was
 * reported about this code object, or it is forgotten. An offset before the first instruction (the frame is
 * not entered yet), or one that no function has, gives the first line. With PHP, Ruby, Perl, Lua and Java,
 * the second word is the line. Frames of V8 have none.
 */
bool code_names_find(struct code_names *n, uint64_t number, int64_t offset, struct code_place *ret);
void code_names_stats(const struct code_names *n, struct code_names_stats *ret);

#endif
