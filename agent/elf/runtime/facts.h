// SPDX-License-Identifier: Apache-2.0
/* What is known of the language runtime in an ELF file, of whichever language. Pure. */
#ifndef PROFLET_ELF_RUNTIME_FACTS_H
#define PROFLET_ELF_RUNTIME_FACTS_H

#include "agent/elf/runtime/beam.h"
#include "agent/elf/runtime/cpython.h"
#include "agent/elf/runtime/dotnet.h"
#include "agent/elf/runtime/lua.h"
#include "agent/elf/runtime/luajit.h"
#include "agent/elf/runtime/hotspot.h"
#include "agent/elf/runtime/perl.h"
#include "agent/elf/runtime/php.h"
#include "agent/elf/runtime/ruby.h"
#include "agent/elf/runtime/v8.h"

struct elf_image;

enum runtime_kind {
	RUNTIME_FILE_NONE,
	RUNTIME_FILE_CPYTHON,
	RUNTIME_FILE_PHP,
	RUNTIME_FILE_RUBY,
	RUNTIME_FILE_PERL,
	RUNTIME_FILE_LUA,
	RUNTIME_FILE_HOTSPOT,
	RUNTIME_FILE_V8,
	RUNTIME_FILE_BEAM,
	RUNTIME_FILE_DOTNET,
	RUNTIME_FILE_LUAJIT,
	RUNTIME_FILE_KINDS,
};
#define RUNTIME_WANT_TASKS (1u << 31) /* among bits of kinds that are wanted: names of asyncio's tasks, too */

struct runtime_facts {
	uint32_t kind; /* enum runtime_kind */
	uint32_t zero;
	union {
		struct cpython_facts cpython;
		struct php_facts php;
		struct ruby_facts ruby;
		struct perl_facts perl;
		struct lua_facts lua;
		struct luajit_facts luajit;
		struct hotspot_facts hotspot;
		struct v8_facts v8;
		struct beam_facts beam;
		struct dotnet_facts dotnet;
	};
};

/* 0: *ret describes the runtime in the file; -ENOENT: there is none; -ENOMEM. On failure, *ret is zeroed. */
int runtime_facts_read(struct runtime_facts *ret, struct elf_image *img);
/*
 * Whether a file of this name is mostly a runtime whose frames are read when a sample is taken: "python3.11",
 * "libperl.so.5.36". Says nothing about the file.
 */
bool runtime_facts_likely(const char *name);
/* Whether facts, which a parser process has sent, are such as runtime_facts_read gives, also on failure. */
bool runtime_facts_valid(const struct runtime_facts *f);
/* Whether the address, an ELF virtual one, is in the runtime's loop. */
bool runtime_facts_is_loop(const struct runtime_facts *f, uint64_t va);
/* Whether most of the loop is in code without a name: a frame that is_loop does not know may be one. */
bool runtime_facts_loop_is_elsewhere(const struct runtime_facts *f);
/* Whether it is in a function that the loop calls for each run, and which stands for nothing itself. */
bool runtime_facts_is_inner_loop(const struct runtime_facts *f, uint64_t va);
/* Whether what a frame of the loop that runs functions has called is such a part, too. */
bool runtime_facts_calls_inner_loop(const struct runtime_facts *f);
/* Whether the layout of the runtime's objects is known. */
bool runtime_facts_known(const struct runtime_facts *f);
/* "Python 3.11.2" */
#define RUNTIME_VERSION_TEXT 32u
const char *runtime_facts_version(const struct runtime_facts *f, char text[RUNTIME_VERSION_TEXT]);

#endif
