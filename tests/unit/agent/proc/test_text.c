// SPDX-License-Identifier: Apache-2.0
/* Compares code in the memory of this process with a file, which needs no permission. */
#include "tests/unit/agent/proc/tree.h"

#include <sys/mman.h>

#include "agent/proc/text.h"

#define CODE_BYTES 65536
#define BEFORE 4096 /* bytes of the file before the code */

struct fixture {
	uint8_t *code;
	int fd, proc_fd;
};

static void fixture_make(struct fixture *f, unsigned seed)
{
	f->code = mmap(NULL, CODE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(f->code, MAP_FAILED);
	for (size_t i = 0; i < CODE_BYTES; i++)
		f->code[i] = (uint8_t)((seed = seed * 1103515245 + 12345) >> 16);
	f->fd = memfd_create("code", MFD_CLOEXEC);
	cr_assert_geq(f->fd, 0);
	cr_assert_eq(pwrite(f->fd, f->code, CODE_BYTES, BEFORE), CODE_BYTES);
	f->proc_fd = proc_root();
}

static void fixture_end(struct fixture *f)
{
	munmap(f->code, CODE_BYTES);
	close(f->fd);
	close(f->proc_fd);
}

static void expect(const struct fixture *f, uint64_t len, enum proc_text want, const char *what)
{
	enum proc_text got = proc_text_compare(f->proc_fd, (uint32_t)getpid(), (uint64_t)(uintptr_t)f->code,
					       len, f->fd, BEFORE);

	cr_expect_eq(got, want, "%s: %d", what, got);
}

Test(text, compared)
{
	struct fixture f;

	fixture_make(&f, 1);
	expect(&f, CODE_BYTES, PROC_TEXT_SAME, "the same");
	expect(&f, 64, PROC_TEXT_SAME, "one sample");
	expect(&f, 100, PROC_TEXT_SAME, "odd");
	expect(&f, 63, PROC_TEXT_UNKNOWN, "too little");
	/* Breakpoints or trampolines at the beginning of some functions. */
	for (size_t i = 0; i < CODE_BYTES; i += 8192)
		f.code[i] ^= 0xcc;
	expect(&f, CODE_BYTES, PROC_TEXT_SAME, "patched");
	memset(f.code + CODE_BYTES / 2, 0xcc, CODE_BYTES / 2);
	expect(&f, CODE_BYTES, PROC_TEXT_OTHER, "half of it");
	memset(f.code, 0, CODE_BYTES);
	expect(&f, CODE_BYTES, PROC_TEXT_OTHER, "not filled yet");
	fixture_end(&f);
}

Test(text, shifted_code_is_other_code)
{
	struct fixture f;

	fixture_make(&f, 2);
	memmove(f.code, f.code + 16, CODE_BYTES - 16);
	expect(&f, CODE_BYTES, PROC_TEXT_OTHER, "shifted");
	fixture_end(&f);
}

Test(text, nothing_to_tell_by)
{
	_cleanup_free_ char *padding = malloc(CODE_BYTES);
	struct fixture f;

	fixture_make(&f, 3);
	cr_expect_eq(proc_text_compare(f.proc_fd, 0x3fffffff, (uint64_t)(uintptr_t)f.code, CODE_BYTES, f.fd,
				       BEFORE),
		     PROC_TEXT_UNKNOWN, "no such process");
	cr_expect_eq(proc_text_compare(f.proc_fd, (uint32_t)getpid(), 4096, CODE_BYTES, f.fd, BEFORE),
		     PROC_TEXT_UNKNOWN, "not mapped");
	expect(&f, 2 * CODE_BYTES, PROC_TEXT_UNKNOWN, "longer than the file");
	memset(padding, 0x90, CODE_BYTES);
	memset(f.code, 0x90, CODE_BYTES);
	cr_assert_eq(pwrite(f.fd, padding, CODE_BYTES, BEFORE), CODE_BYTES);
	expect(&f, CODE_BYTES, PROC_TEXT_UNKNOWN, "padding alone");
	fixture_end(&f);
}
