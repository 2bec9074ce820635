// SPDX-License-Identifier: Apache-2.0
/*
 * Separate debug files: where the one of a binary may be, and whether a file is that one. The places are
 * those of GDB and elfutils (GDB manual, "Debugging Information in Separate Files"): by build id
 *
 *	/usr/lib/debug/.build-id/xx/yyyy.debug
 *
 * and, for a binary in DIR whose .gnu_debuglink names NAME,
 *
 *	DIR/NAME   DIR/.debug/NAME   /usr/lib/debug/DIR/NAME
 *
 * This module opens nothing: the caller looks up the paths in the file system that the binary is in. It
 * ignores .gnu_debugaltlink (names and types that dwz shares between files): that file has neither call-frame
 * information nor symbols.
 */
#ifndef PROFLET_ELF_DEBUGLINK_H
#define PROFLET_ELF_DEBUGLINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct elf_image;

#define DEBUGLINK_NAME_MAX 255
#define DEBUGLINK_CRC_MAX (512ull << 20) /* bytes; no CRC is computed of a larger file */

/* .gnu_debuglink: a file's name, NUL, padding to four bytes, CRC-32 of that file's bytes. */
struct elf_debuglink {
	char name[DEBUGLINK_NAME_MAX + 1]; /* "" when there is none */
	uint32_t crc;
};

/* 0; -EINVAL: truncated, or not the name of a file (empty, "." or "..", with a slash, too long). */
int elf_debuglink_parse(const uint8_t *bytes, size_t len, struct elf_debuglink *ret);
/* Reads the link of a file. 0, -ENOENT when it has none, -EINVAL, -ENOMEM, -errno. */
int elf_debuglink_read(struct elf_image *img, struct elf_debuglink *ret);
/* Computes the CRC that .gnu_debuglink has, over a whole file. 0, -EFBIG above DEBUGLINK_CRC_MAX, -errno. */
int elf_debuglink_crc(int fd, uint32_t *ret);

/*
 * Replaces the content of `ret` with the i-th path at which the debug file of `img` may be. `path` is the
 * binary's own absolute path. 0; -ENOENT: this place does not apply, try the next; -ERANGE: i is past the
 * last place; -ENOMEM.
 */
int elf_debug_path(struct elf_image *img, const struct elf_debuglink *link, const char *path, unsigned i,
		   struct buf *ret);
/*
 * Checks whether `debug`, open as `fd`, is the debug file of `img`. The code must have the same size in both
 * and the build ids must be equal; where one of them has no build id, the CRC of the link decides. *ret_delta
 * is to be added to the addresses of `debug`; it is not 0 if the binary was prelinked after the debug file
 * was split off. 0; -ESTALE: it is not; -EFBIG as above; -errno.
 */
int elf_debug_match(struct elf_image *img, struct elf_image *debug, int fd, const struct elf_debuglink *link,
		    uint64_t *ret_delta);

#endif
