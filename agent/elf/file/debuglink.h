// SPDX-License-Identifier: Apache-2.0
/*
 * Separate debug files: what names them and whether one belongs to a binary. The names are those of GDB and
 * elfutils (GDB manual, "Debugging Information in Separate Files"): by build id
 *
 *	/usr/lib/debug/.build-id/xx/yyyy.debug
 *
 * and, for a binary in DIR with a .gnu_debuglink that says NAME
 *
 *	DIR/NAME   DIR/.debug/NAME   /usr/lib/debug/DIR/NAME
 *
 * Opens nothing: the caller looks the paths up in the file system that the binary is in. Reads
 * .gnu_debugaltlink (names and types shared by dwz) never: there is no call-frame information and no symbol
 * in it. Rank 1; may include base.
 */
#ifndef PROFLET_ELF_DEBUGLINK_H
#define PROFLET_ELF_DEBUGLINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct elf_image;

#define DEBUGLINK_NAME_MAX 255
#define DEBUGLINK_CRC_MAX (512ull << 20) /* bytes of a file that are summed up */

/* .gnu_debuglink: a file's name, NUL, padding to four bytes, CRC-32 of that file's bytes. */
struct elf_debuglink {
	char name[DEBUGLINK_NAME_MAX + 1]; /* "" when there is none */
	uint32_t crc;
};

/* 0; -EINVAL: truncated, or the name is none (empty, "." or "..", holds a slash, too long). */
int elf_debuglink_parse(const uint8_t *bytes, size_t len, struct elf_debuglink *ret);
/* That of a file. 0, -ENOENT when it has none, -EINVAL, -ENOMEM, -errno of the read. */
int elf_debuglink_read(struct elf_image *img, struct elf_debuglink *ret);
/* The CRC of .gnu_debuglink over a whole file, read with pread. 0, -EFBIG above DEBUGLINK_CRC_MAX, -errno. */
int elf_debuglink_crc(int fd, uint32_t *ret);

/*
 * Writes into `ret` (its content is replaced) the i-th path at which the debug file of `img` may be; `path`
 * is the binary's own, absolute. 0; -ENOENT: there is no such path, try the next; -ERANGE: i is past the
 * last; -ENOMEM.
 */
int elf_debug_path(struct elf_image *img, const struct elf_debuglink *link, const char *path, unsigned i,
		   struct buf *ret);
/*
 * Does `debug`, open as `fd`, describe `img`? The code must have the same size in both and the build ids must
 * be equal; where one of them has no build id, the CRC of the link decides. *ret_delta is what to add to the
 * addresses of `debug`: not 0 where the binary was prelinked after the two were separated. 0; -ESTALE: no;
 * -EFBIG as above; -errno.
 */
int elf_debug_match(struct elf_image *img, struct elf_image *debug, int fd, const struct elf_debuglink *link,
		    uint64_t *ret_delta);

#endif
