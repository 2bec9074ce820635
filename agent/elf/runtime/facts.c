// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/runtime/facts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/file/arch.h"
#include "agent/elf/file/elf_image.h"

/* Virtual machines that compile. The frames of most of them are known for some architectures only. */
static int read_vm(struct runtime_facts *ret, struct elf_image *img)
{
	const struct elf_arch *arch = elf_arch(elf_image_machine(img));
	int r;

	if (!arch)
		return -ENOENT;
	r = hotspot_facts_read(&ret->hotspot, img);
	ret->kind = r == 0 ? RUNTIME_FILE_HOTSPOT : RUNTIME_FILE_NONE;
	if (r == -ENOENT) {
		r = v8_facts_read(&ret->v8, img);
		ret->kind = r == 0 ? RUNTIME_FILE_V8 : RUNTIME_FILE_NONE;
	}
	if (!arch->has_vm_code)
		return r;
	if (r == -ENOENT) {
		r = beam_facts_read(&ret->beam, img);
		ret->kind = r == 0 ? RUNTIME_FILE_BEAM : RUNTIME_FILE_NONE;
	}
	if (r == -ENOENT) {
		r = dotnet_facts_read(&ret->dotnet, img);
		ret->kind = r == 0 ? RUNTIME_FILE_DOTNET : RUNTIME_FILE_NONE;
	}
	return r;
}

int runtime_facts_read(struct runtime_facts *ret, struct elf_image *img)
{
	int r;

	memset(ret, 0, sizeof *ret);
	r = cpython_facts_read(&ret->cpython, img);
	ret->kind = r == 0 ? RUNTIME_FILE_CPYTHON : RUNTIME_FILE_NONE;
	if (r == -ENOENT) {
		r = php_facts_read(&ret->php, img);
		ret->kind = r == 0 ? RUNTIME_FILE_PHP : RUNTIME_FILE_NONE;
	}
	if (r == -ENOENT) {
		r = perl_facts_read(&ret->perl, img);
		ret->kind = r == 0 ? RUNTIME_FILE_PERL : RUNTIME_FILE_NONE;
	}
	if (r == -ENOENT) {
		r = lua_facts_read(&ret->lua, img);
		ret->kind = r == 0 ? RUNTIME_FILE_LUA : RUNTIME_FILE_NONE;
	}
	if (r == -ENOENT) {
		r = luajit_facts_read(&ret->luajit, img);
		ret->kind = r == 0 ? RUNTIME_FILE_LUAJIT : RUNTIME_FILE_NONE;
	}
	if (r == -ENOENT) {
		r = ruby_facts_read(&ret->ruby, img);
		ret->kind = r == 0 ? RUNTIME_FILE_RUBY : RUNTIME_FILE_NONE;
	}
	return r == -ENOENT ? read_vm(ret, img) : r;
}

bool runtime_facts_likely(const char *name)
{
	static const char *const languages[] = {"python", "ruby", "php", "perl", "lua", "node"};

	if (strncmp(name, "lib", 3) == 0)
		name += 3;
	for (size_t i = 0; i < ARRAY_SIZE(languages); i++)
		if (strncmp(name, languages[i], strlen(languages[i])) == 0)
			return true;
	return false;
}

bool runtime_facts_valid(const struct runtime_facts *f)
{
	static const struct runtime_facts none;

	if (f->zero)
		return false;
	switch (f->kind) {
	case RUNTIME_FILE_NONE:
		return memcmp(f, &none, sizeof none) == 0;
	case RUNTIME_FILE_CPYTHON:
		return f->cpython.version && cpython_facts_valid(&f->cpython);
	case RUNTIME_FILE_PHP:
		return f->php.version && php_facts_valid(&f->php);
	case RUNTIME_FILE_RUBY:
		return f->ruby.version && ruby_facts_valid(&f->ruby);
	case RUNTIME_FILE_PERL:
		return f->perl.version && perl_facts_valid(&f->perl);
	case RUNTIME_FILE_LUA:
		return f->lua.version && lua_facts_valid(&f->lua);
	case RUNTIME_FILE_LUAJIT:
		return f->luajit.version && luajit_facts_valid(&f->luajit);
	case RUNTIME_FILE_HOTSPOT:
		return hotspot_facts_valid(&f->hotspot);
	case RUNTIME_FILE_V8:
		return f->v8.version && v8_facts_valid(&f->v8);
	case RUNTIME_FILE_BEAM:
		return beam_facts_valid(&f->beam);
	case RUNTIME_FILE_DOTNET:
		return dotnet_facts_valid(&f->dotnet);
	default:
		return false;
	}
}

static bool is_in(const uint64_t *starts, const uint64_t *ends, uint32_t n, uint64_t va)
{
	for (uint32_t i = 0; i < n; i++)
		if (va >= starts[i] && va < ends[i])
			return true;
	return false;
}

bool runtime_facts_is_loop(const struct runtime_facts *f, uint64_t va)
{
	switch (f->kind) {
	case RUNTIME_FILE_CPYTHON:
		return is_in(f->cpython.loop_start, f->cpython.loop_end, f->cpython.n_loops, va);
	case RUNTIME_FILE_PHP:
		return is_in(f->php.loop_start, f->php.loop_end, f->php.n_loops, va);
	case RUNTIME_FILE_RUBY:
		return is_in(f->ruby.loop_start, f->ruby.loop_end, f->ruby.n_loops, va);
	case RUNTIME_FILE_PERL:
		return perl_function_at(&f->perl, va) <= PERL_RUNOPS_DEBUG;
	case RUNTIME_FILE_LUA:
		return va >= f->lua.loop_start && va < f->lua.loop_end;
	case RUNTIME_FILE_LUAJIT:
		return va >= f->luajit.loop_start && va < f->luajit.loop_end;
	default:
		return false;
	}
}

/*
 * A loop of CPython has some 50 KiB. What has its name may be a small part that compilers have left, or a
 * function that calls others.
 */
#define CPYTHON_LOOP_BYTES_MIN (16u << 10)

bool runtime_facts_loop_is_elsewhere(const struct runtime_facts *f)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; f->kind == RUNTIME_FILE_CPYTHON && i < f->cpython.n_loops; i++)
		bytes += f->cpython.loop_end[i] - f->cpython.loop_start[i];
	return f->kind == RUNTIME_FILE_CPYTHON && bytes < CPYTHON_LOOP_BYTES_MIN;
}

bool runtime_facts_is_inner_loop(const struct runtime_facts *f, uint64_t va)
{
	return f->kind == RUNTIME_FILE_RUBY && va >= f->ruby.inner_start && va < f->ruby.inner_end;
}

bool runtime_facts_calls_inner_loop(const struct runtime_facts *f)
{
	return f->kind == RUNTIME_FILE_CPYTHON && f->cpython.has_instructions;
}

bool runtime_facts_known(const struct runtime_facts *f)
{
	switch (f->kind) {
	case RUNTIME_FILE_PHP:
		return f->php.known;
	case RUNTIME_FILE_RUBY:
		return f->ruby.known;
	case RUNTIME_FILE_PERL:
		return f->perl.known;
	case RUNTIME_FILE_LUA:
		return f->lua.known;
	case RUNTIME_FILE_LUAJIT:
		return f->luajit.known;
	case RUNTIME_FILE_HOTSPOT:
		return true; /* its layout is read in each process */
	case RUNTIME_FILE_V8:
		return f->v8.known;
	case RUNTIME_FILE_BEAM:
		return f->beam.known;
	case RUNTIME_FILE_DOTNET:
		return f->dotnet.known;
	default:
		return f->cpython.known;
	}
}

const char *runtime_facts_version(const struct runtime_facts *f, char text[RUNTIME_VERSION_TEXT])
{
	static const char *const names[RUNTIME_FILE_KINDS] = {
		[RUNTIME_FILE_NONE] = "",	    [RUNTIME_FILE_CPYTHON] = "Python",
		[RUNTIME_FILE_PHP] = "PHP",	    [RUNTIME_FILE_RUBY] = "Ruby",
		[RUNTIME_FILE_PERL] = "Perl",	    [RUNTIME_FILE_LUA] = "Lua",
		[RUNTIME_FILE_HOTSPOT] = "HotSpot", [RUNTIME_FILE_V8] = "V8",
		[RUNTIME_FILE_BEAM] = "Erlang/OTP", [RUNTIME_FILE_DOTNET] = ".NET",
		[RUNTIME_FILE_LUAJIT] = "LuaJIT"};
	uint32_t v = f->kind == RUNTIME_FILE_PHP      ? f->php.version
		     : f->kind == RUNTIME_FILE_RUBY   ? f->ruby.version
		     : f->kind == RUNTIME_FILE_PERL   ? f->perl.version
		     : f->kind == RUNTIME_FILE_LUA    ? f->lua.version
		     : f->kind == RUNTIME_FILE_DOTNET ? f->dotnet.version
						      : f->cpython.version;

	if (f->kind == RUNTIME_FILE_HOTSPOT) { /* which version it is, a process says */
		(void)snprintf(text, RUNTIME_VERSION_TEXT, "%s", names[f->kind]);
		return text;
	}
	if (f->kind == RUNTIME_FILE_LUAJIT) { /* releases have the time of their last change */
		v = f->luajit.version;
		(void)snprintf(text, RUNTIME_VERSION_TEXT, "%s %u.%u", names[f->kind], v >> 24,
			       v >> 16 & 255);
		return text;
	}
	if (f->kind == RUNTIME_FILE_BEAM) {
		(void)snprintf(text, RUNTIME_VERSION_TEXT, "%s %u", names[f->kind], f->beam.release);
		return text;
	}
	if (f->kind == RUNTIME_FILE_V8) {
		v = f->v8.version;
		(void)snprintf(text, RUNTIME_VERSION_TEXT, "%s %u.%u.%u", names[f->kind], v >> 24,
			       v >> 16 & 255, f->v8.build);
		return text;
	}
	(void)snprintf(text, RUNTIME_VERSION_TEXT, "%s %u.%u.%u", names[f->kind], v >> 24, v >> 16 & 255,
		       v >> 8 & 255);
	return text;
}
