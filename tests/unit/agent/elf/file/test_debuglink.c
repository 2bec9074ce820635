// SPDX-License-Identifier: Apache-2.0
/* .gnu_debuglink, the paths of debug files, and which file belongs to which. */
#include "tests/unit/agent/elf/elf_file.h"

#include <errno.h>

#include "agent/elf/file/debuglink.h"

#include "tests/unit/agent/elf/cfi_bytes.h"

#define ID "\x04\0\0\0\x05\0\0\0\x03\0\0\0GNU\0\x01\x02\x03\x04\xab\0\0\0"
#define OTHER_ID "\x04\0\0\0\x05\0\0\0\x03\0\0\0GNU\0\x01\x02\x03\x04\xac\0\0\0"
#define LONGER_ID "\x04\0\0\0\x06\0\0\0\x03\0\0\0GNU\0\x01\x02\x03\x04\xab\x01\0\0"

Test(debuglink, sections)
{
	static char long_name[300], longest[300];
	static const struct {
		const char *name;
		struct bytes bytes;
		int expected;
		const char *link;
	} cases[] = {
		{"one", BYTES("a.debug\0\x26\x39\xf4\xcb"), 0, "a.debug"},
		{"padded", BYTES("a.dbg\0\0\0\x26\x39\xf4\xcb"), 0, "a.dbg"},
		{"of 3 bytes", BYTES("abc\0\x26\x39\xf4\xcb"), 0, "abc"},
		{"more than that", BYTES("abc\0\x26\x39\xf4\xcbmore"), 0, "abc"},
		{"empty", BYTES(""), -EINVAL, NULL},
		{"no name", BYTES("\0\0\0\0\x26\x39\xf4\xcb"), -EINVAL, NULL},
		{"no end", BYTES("abcdefgh"), -EINVAL, NULL},
		{"no checksum", BYTES("abc\0"), -EINVAL, NULL},
		{"part of a checksum", BYTES("abc\0\x26\x39\xf4"), -EINVAL, NULL},
		{"padding cut", BYTES("abcd\0\0"), -EINVAL, NULL},
		{"path", BYTES("a/b\0\x26\x39\xf4\xcb"), -EINVAL, NULL},
		{"absolute", BYTES("/ab\0\x26\x39\xf4\xcb"), -EINVAL, NULL},
		{"dot", BYTES(".\0\0\0\x26\x39\xf4\xcb"), -EINVAL, NULL},
		{"up", BYTES("..\0\0\x26\x39\xf4\xcb"), -EINVAL, NULL},
		{"up and over", BYTES("../../etc/passwd\0\0\0\0\x26\x39\xf4\xcb"), -EINVAL, NULL},
		{"long", {long_name, 260}, 0, NULL},
		{"too long", {longest, 264}, -EINVAL, NULL},
	};

	memset(long_name, 'n', DEBUGLINK_NAME_MAX);
	memset(longest, 'n', DEBUGLINK_NAME_MAX + 1);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct elf_debuglink link = {.crc = 7};
		int r = elf_debuglink_parse((const uint8_t *)cases[i].bytes.data, cases[i].bytes.len, &link);

		cr_expect_eq(r, cases[i].expected, "%s: %d", cases[i].name, r);
		if (r < 0)
			cr_expect(!link.name[0] && link.crc == 7, "%s: written", cases[i].name);
		if (r == 0 && cases[i].link) {
			cr_expect_str_eq(link.name, cases[i].link);
			cr_expect_eq(link.crc, 0xcbf43926);
		}
	}
}

Test(debuglink, checksum)
{
	_cleanup_close_ int fd = file_fd("123456789", 9), empty = file_fd("", 0);
	uint32_t crc;

	cr_assert_eq(elf_debuglink_crc(fd, &crc), 0);
	cr_expect_eq(crc, 0xcbf43926, "the check value of CRC-32: %x", crc);
	cr_assert_eq(elf_debuglink_crc(empty, &crc), 0);
	cr_expect_eq(crc, 0);
	cr_assert_eq(ftruncate(fd, DEBUGLINK_CRC_MAX + 1), 0);
	cr_expect_eq(elf_debuglink_crc(fd, &crc), -EFBIG);
	cr_expect_eq(elf_debuglink_crc(-1, &crc), -EBADF);
}

static struct elf_image *image_of(const struct bytes *note, uint64_t text_va, uint64_t text_bytes,
				  const struct bytes *link)
{
	static const char code[0x200];
	const struct file_section s[] = {
		{".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, text_va, code, text_bytes, 0, 0},
		{".note.gnu.build-id", note->len ? SHT_NOTE : SHT_PROGBITS, 0, 0x2000, note->data, note->len,
		 0, 0},
		{link ? ".gnu_debuglink" : ".nothing", SHT_PROGBITS, 0, 0, link ? link->data : "",
		 link ? link->len : 0, 0, 0},
	};

	return file_image(EM_X86_64, s, ARRAY_SIZE(s), 0);
}

Test(debuglink, paths)
{
	static const struct {
		const char *path, *name;
		struct bytes note;
		const char *expected[5];
	} cases[] = {
		{"/usr/bin/app",
		 "app.debug",
		 BYTES(ID),
		 {"/usr/lib/debug/.build-id/01/020304ab.debug", "/usr/bin/app.debug",
		  "/usr/bin/.debug/app.debug", "/usr/lib/debug/usr/bin/app.debug",
		  "/usr/lib/debug/bin/app.debug"}},
		{"/app", "d", BYTES(""), {NULL, "/d", "/.debug/d", "/usr/lib/debug/d", NULL}},
		{"/opt/x/app", "", BYTES(ID), {"/usr/lib/debug/.build-id/01/020304ab.debug"}},
		{"relative", "d", BYTES(""), {NULL}},
		{"", "d", BYTES(""), {NULL}},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct elf_image *img = image_of(&cases[i].note, TEXT_VA, 16, NULL);
		struct elf_debuglink link = {0};
		_cleanup_buf_ struct buf path = {0};

		strcpy(link.name, cases[i].name);
		for (unsigned k = 0; k < 5; k++) {
			int r = elf_debug_path(img, &link, cases[i].path, k, &path);

			cr_expect_eq(r, cases[i].expected[k] ? 0 : -ENOENT, "%s %u: %d", cases[i].path, k, r);
			if (r == 0 && cases[i].expected[k])
				cr_expect_str_eq(buf_str(&path), cases[i].expected[k]);
		}
		cr_expect_eq(elf_debug_path(img, &link, cases[i].path, 5, &path), -ERANGE);
		elf_image_free(img);
	}
}

Test(debuglink, matching_files)
{
	static const struct {
		const char *name;
		struct bytes note, debug_note;
		uint64_t debug_va, debug_bytes;
		uint32_t crc; /* checksum in the link; that of the file is 0xcbf43926 */
		int expected;
	} cases[] = {
		{"same id", BYTES(ID), BYTES(ID), TEXT_VA, 0x100, 0, 0},
		{"same id, prelinked since", BYTES(ID), BYTES(ID), 0x5000, 0x100, 0, 0},
		{"other id", BYTES(ID), BYTES(OTHER_ID), TEXT_VA, 0x100, 0xcbf43926, -ESTALE},
		{"longer id", BYTES(ID), BYTES(LONGER_ID), TEXT_VA, 0x100, 0xcbf43926, -ESTALE},
		{"same id, other code", BYTES(ID), BYTES(ID), TEXT_VA, 0x110, 0, -ESTALE},
		{"no id, checksum", BYTES(""), BYTES(""), TEXT_VA, 0x100, 0xcbf43926, 0},
		{"no id, other checksum", BYTES(""), BYTES(""), TEXT_VA, 0x100, 0xcbf43927, -ESTALE},
		{"one id, checksum", BYTES(ID), BYTES(""), TEXT_VA, 0x100, 0xcbf43926, 0},
		{"the other id, checksum", BYTES(""), BYTES(ID), TEXT_VA, 0x100, 0xcbf43926, 0},
		{"checksum, other code", BYTES(""), BYTES(""), TEXT_VA, 0x80, 0xcbf43926, -ESTALE},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct elf_image *img = image_of(&cases[i].note, TEXT_VA, 0x100, NULL);
		struct elf_image *debug =
			image_of(&cases[i].debug_note, cases[i].debug_va, cases[i].debug_bytes, NULL);
		const struct elf_debuglink link = {.name = "x", .crc = cases[i].crc}, none = {.name = ""};
		/*
		 * the checksum is computed over the bytes of the descriptor, whatever file the image was
		 * opened from
		 */
		_cleanup_close_ int fd = file_fd("123456789", 9);
		uint64_t delta = 1;
		int r = elf_debug_match(img, debug, fd, &link, &delta);

		cr_expect_eq(r, cases[i].expected, "%s: %d", cases[i].name, r);
		cr_expect_eq(delta, r == 0 ? TEXT_VA - cases[i].debug_va : 1, "%s", cases[i].name);
		if (!cases[i].note.len)
			cr_expect_eq(elf_debug_match(img, debug, fd, &none, &delta), -ESTALE);
		elf_image_free(img);
		elf_image_free(debug);
	}
}

Test(debuglink, other_machine)
{
	static const char code[16];
	const struct file_section s = {
		".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, TEXT_VA, code, sizeof(code), 0, 0};
	struct elf_image *img = file_image(EM_X86_64, &s, 1, 0), *debug = file_image(EM_AARCH64, &s, 1, 0);
	_cleanup_close_ int fd = file_fd("", 0);
	uint64_t delta;

	cr_expect_eq(elf_debug_match(img, debug, fd, &(struct elf_debuglink){.name = "x"}, &delta), -ESTALE);
	elf_image_free(img);
	elf_image_free(debug);
}

Test(debuglink, of_an_image)
{
	const struct bytes note = BYTES(ID), bytes = BYTES("abc\0\x26\x39\xf4\xcb");
	struct elf_image *with = image_of(&note, TEXT_VA, 16, &bytes);
	struct elf_image *without = image_of(&note, TEXT_VA, 16, NULL);
	struct elf_debuglink link;

	cr_assert_eq(elf_debuglink_read(with, &link), 0);
	cr_expect_str_eq(link.name, "abc");
	cr_expect_eq(elf_debuglink_read(without, &link), -ENOENT);
	elf_image_free(with);
	elf_image_free(without);
}
