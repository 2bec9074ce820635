// SPDX-License-Identifier: Apache-2.0
/*
 * Which content a file had when it was looked at, to tell later whether it still has it. Anyone who may write
 * to a file can write another program over it, and a descriptor of the inode then reads that one. So whoever
 * reads a file of which something is known already compares before and after reading.
 *
 * Size and times of stat(2) tell nearly always: a process cannot set a ctime. But a ctime also changes when a
 * file is linked, renamed or deleted, as a package's files are while their programs run; and the kernel's
 * clock for it ticks every 1 to 10 ms (before Linux 6.13, or always on some file systems). In these cases the
 * `mark` decides, which is made of the bytes themselves.
 */
#ifndef PROFLET_ELF_VERSION_H
#define PROFLET_ELF_VERSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct elf_image;

/* What the mark is a hash of, beside the headers. */
enum elf_version_mark {
	ELF_MARK_NONE,	   /* there is none: not an ELF file, or it is large and has no build id */
	ELF_MARK_BUILD_ID, /* the build id, which linkers make of the content */
	ELF_MARK_WHOLE,	   /* all bytes */
};

struct elf_version {
	uint64_t size; /* bytes */
	struct timespec mtime, ctime;
	uint32_t nlink, mode, uid, gid; /* changes of these change the ctime, and no content */
	bool recent;			/* ctime is so young that another change may leave the same one */
	enum elf_version_mark kind;
	uint64_t mark;
};

enum elf_version_change {
	ELF_VERSION_SAME,
	ELF_VERSION_MAYBE, /* times differ or are too coarse: the marks decide */
	ELF_VERSION_OTHER,
};

/*
 * The largest file of which all bytes are read for its mark, where it has no build id or is new.
 * Of others, only headers and notes are.
 */
#define ELF_VERSION_WHOLE_MAX (4ull << 20)
/* A file that was changed within that time is new. */
#define ELF_VERSION_NEW_NS (60ull * 1000000000ull)

/*
 * The version that stat(2) shows, without a mark. `before_ns`: CLOCK_REALTIME_COARSE, read before stat(2) was
 * called.
 */
void elf_version_of_stat(struct elf_version *ret, const struct stat *st, uint64_t before_ns);
/* Whether bytes from another process can be used as a version. */
bool elf_version_valid(const struct elf_version *v);
/* What a later stat(2) of the same inode says, without reading the file. */
enum elf_version_change elf_version_compare(const struct elf_version *v, const struct stat *now);
/*
 * Whether something that is no content explains why `now` has another ctime. If not, the file may have been
 * written, even if its content is the same again.
 */
bool elf_version_only_touched(const struct elf_version *v, const struct stat *now);
/*
 * elf_version_compare for a descriptor, which may have O_PATH. Does not contact the server of a remote file
 * system and does not block. ELF_VERSION_OTHER if it cannot be looked at.
 */
enum elf_version_change elf_version_look(const struct elf_version *v, int fd, struct stat *ret_now);
/* The version that an image has now, with its mark. Reads up to ELF_VERSION_WHOLE_MAX bytes. 0 or -errno. */
int elf_version_read(struct elf_version *ret, struct elf_image *img);
/*
 * Opens a file as elf_image_open does, if it has the content that `v` stands for (NULL: any content). Also
 * -ESTALE: it has not, or nothing shows that it has.
 */
int elf_version_open(struct elf_image **ret, int fd, const struct elf_version *v);
/* After reading, with the same `v`: 0 if the file has not changed since elf_version_open; -ESTALE; -errno. */
int elf_version_still(const struct elf_version *v, struct elf_image *img);

/*
 * Whether a file that was mapped at `mapped_ns` had this version then. Times in ns of CLOCK_REALTIME.
 * `mapping`: the file was found through the mapping (/proc/PID/map_files) at `seen_ns`, so it is the inode
 * that is mapped, and its bytes are those in memory; otherwise it was found by its name. `deleted`: it has no
 * name any more, which changes a ctime.
 */
bool elf_version_was_mapped(const struct elf_version *v, uint64_t mapped_ns, uint64_t seen_ns, bool mapping,
			    bool deleted);
/* CLOCK_REALTIME_COARSE in ns: the clock of file times. */
uint64_t elf_version_clock_ns(void);

#endif
