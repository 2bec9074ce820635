// SPDX-License-Identifier: Apache-2.0
/* Which file is which binary: nothing that a file's owner chooses makes it another's. */
#include <errno.h>
#include <sys/resource.h>

#include "tests/unit/agent/binary/binary_files.h"

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

Test(identity, same_inode)
{
	_cleanup_files_ struct files f;
	uint32_t first, second = 0;
	struct stat st;
	int fd;

	files_init(&f, 16);
	files_write_libc(&f, "a", false);
	first = files_add(&f, "a");
	fd = files_open(&f, "a", &st);
	cr_assert_eq(binary_registry_add(f.registry, fd, &st, "/elsewhere", &second), 0);
	cr_expect_eq(first, second);
	cr_expect_not(is_open(fd), "the descriptor was taken");
	cr_expect(is_open(files_get(&f, first)->fd));
	cr_expect_str_eq(files_get(&f, first)->module.path, files_path(&f, "a"));
	cr_expect_str_eq(files_get(&f, first)->module.name, "a");
	cr_expect_eq(files_get(&f, first)->module.id, first);
	cr_expect_eq(strlen(files_get(&f, first)->module.build_id_gnu), 40);
	cr_expect_eq(files_stats(&f).known, 1);
}

/* An inode whose content was replaced is another binary, also when its mtime was set back. */
Test(identity, same_inode_other_time)
{
	_cleanup_files_ struct files f;
	struct timespec times[2];
	uint32_t first, second, third;
	struct stat before, after;

	files_init(&f, 16);
	first = files_add_text(&f, "a");
	close(files_open(&f, "a", &before));
	do { /* the file system's clock has to tick */
		int fd = open(files_path(&f, "a"), O_WRONLY | O_CLOEXEC);

		cr_assert_eq(write(fd, "b", 1), 1);
		close(fd);
		close(files_open(&f, "a", &after));
	} while (after.st_ctim.tv_sec == before.st_ctim.tv_sec &&
		 after.st_ctim.tv_nsec == before.st_ctim.tv_nsec);
	second = files_add(&f, "a");
	cr_expect_neq(second, first);
	times[0] = before.st_atim;
	times[1] = before.st_mtim;
	cr_assert_eq(utimensat(AT_FDCWD, files_path(&f, "a"), times, 0), 0);
	close(files_open(&f, "a", &after));
	cr_assert_eq(after.st_ino, before.st_ino);
	cr_assert_eq(after.st_size, before.st_size);
	cr_assert_eq(after.st_mtim.tv_sec, before.st_mtim.tv_sec);
	cr_assert_eq(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
	third = files_add(&f, "a");
	cr_expect_neq(third, first);
}

/*
 * Somebody's file has the build id, the size, and the times of another's, and other content. It must get an
 * index of its own, or its table and names would be those of the other's mappings.
 */
Test(identity, same_build_id_and_size)
{
	_cleanup_files_ struct files f;
	struct timespec times[2];
	uint32_t tenants, victims;
	struct stat st;

	files_init(&f, 16);
	files_write_libc(&f, "victim", false);
	files_write_libc(&f, "tenant", true);
	close(files_open(&f, "victim", &st));
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	cr_assert_eq(utimensat(AT_FDCWD, files_path(&f, "tenant"), times, 0), 0);
	tenants = files_add(&f, "tenant");
	victims = files_add(&f, "victim");
	cr_expect_str_eq(files_get(&f, tenants)->module.build_id_gnu,
			 files_get(&f, victims)->module.build_id_gnu);
	cr_expect_eq(files_get(&f, tenants)->version.size, files_get(&f, victims)->version.size);
	cr_expect_neq(tenants, victims, "the tenant's file stands for the victim's");
}

/* The module spans the executable segments; the file offset is that of its start. */
Test(identity, module_range)
{
	_cleanup_files_ struct files f;
	const struct binary *b;

	files_init(&f, 16);
	files_write_libc(&f, "a", false);
	b = files_get(&f, files_add(&f, "a"));
	cr_assert_geq(b->n_segments, 2);
	for (size_t i = 0; i < b->n_segments; i++) {
		const struct elf_segment *s = &b->segments[i];

		if (!s->executable)
			continue;
		cr_expect(b->module.start <= s->va && b->module.limit >= s->va + s->mem_bytes);
		if (b->module.start == s->va)
			cr_expect_eq(b->module.file_offset, s->offset);
	}
}

/* ---- what the kernel said about the file of a process that is gone */

static struct binary_evidence evidence_of(const struct files *f, const char *name)
{
	struct stat st;

	close(files_open(f, name, &st));
	return (struct binary_evidence){.dev = st.st_dev, .inode = st.st_ino, .time_ns = clock_mono_ns()};
}

/* A generation that was there when the file was is one, whatever the file system of /tmp says. */
static void set_generation(struct files *f, uint32_t index, uint32_t generation)
{
	files_get(f, index)->has_generation = true;
	files_get(f, index)->generation = generation;
}

Test(identity, file_of_an_ended_process_by_generation)
{
	_cleanup_files_ struct files f;
	struct binary_evidence e;
	uint32_t index;

	files_init(&f, 16);
	index = files_add_text(&f, "a");
	e = evidence_of(&f, "a");
	set_generation(&f, index, 7);
	e.has_generation = true;
	e.generation = 7;
	cr_expect_eq(binary_registry_find_gone(f.registry, &e), index);
	e.time_ns = 1; /* before the event that reports it */
	cr_expect_eq(binary_registry_find_gone(f.registry, &e), index);
	e.generation = 8; /* the inode number was given to another file */
	cr_expect_eq(binary_registry_find_gone(f.registry, &e), 0);
	e.generation = 7;
	e.inode++;
	cr_expect_eq(binary_registry_find_gone(f.registry, &e), 0);
	e.inode--;
	e.dev++;
	cr_expect_eq(binary_registry_find_gone(f.registry, &e), 0);
}

/* Without a generation, the inode is the same as long as we have kept it. */
Test(identity, file_of_an_ended_process_by_descriptor)
{
	_cleanup_files_ struct files f;
	struct binary_evidence e;
	uint32_t index;

	files_init(&f, 16);
	index = files_add_text(&f, "a");
	files_get(&f, index)->has_generation = false;
	e = evidence_of(&f, "a");
	cr_expect_eq(binary_registry_find_gone(f.registry, &e), index);
	e.time_ns = files_get(&f, index)->opened_ns - 1;
	cr_expect_eq(binary_registry_find_gone(f.registry, &e), 0,
		     "another file may have had the number then");
	e.time_ns = UINT64_MAX;
	close(TAKE_FD(files_get(&f, index)->fd));
	cr_expect_eq(binary_registry_find_gone(f.registry, &e), 0);
	e.has_generation = true; /* but the file's is not known */
	cr_expect_eq(binary_registry_find_gone(f.registry, &e), 0);
}

/*
 * A file is deleted, and another one gets its inode number: an event of the second is not taken for the
 * first.
 */
Test(identity, inode_is_reused)
{
	_cleanup_files_ struct files f;
	struct binary_evidence e, later;
	uint32_t index;

	files_init(&f, 16);
	index = files_add_text(&f, "a");
	e = later = evidence_of(&f, "a");
	e.has_generation = later.has_generation = true;
	e.generation = 1;
	later.generation = 2;
	files_get(&f, index)->has_generation = false;
	cr_expect(binary_accept_evidence(files_get(&f, index), &e), "learned from the event");
	cr_expect_eq(files_get(&f, index)->generation, 1);
	cr_expect_eq(binary_registry_find_gone(f.registry, &e), index);
	cr_expect_eq(binary_registry_find_gone(f.registry, &later), 0);
	cr_expect_not(binary_accept_evidence(files_get(&f, index), &later));
	later.inode++; /* overlayfs: the kernel speaks of the layer's file, stat(2) of its own */
	cr_expect(binary_accept_evidence(files_get(&f, index), &later));
}

/* Of two contents under one inode number the later one is found. */
Test(identity, gone_after_a_change)
{
	_cleanup_files_ struct files f;
	struct binary_evidence e;
	uint32_t first, second = 0;
	struct stat st;
	int fd;

	files_init(&f, 16);
	first = files_add_text(&f, "a");
	fd = files_open(&f, "a", &st);
	st.st_ctim.tv_nsec ^= 1;
	cr_assert_eq(binary_registry_add(f.registry, fd, &st, "a", &second), 0);
	cr_assert_neq(second, first);
	e = evidence_of(&f, "a");
	cr_expect_eq(binary_registry_find_gone(f.registry, &e), second);
}

/* A file without a build id has one in OTLP from the beginning: its table may come late. */
Test(identity, without_a_build_id)
{
	static const uint8_t header[64] = {
		ELFMAG0,     ELFMAG1,	 ELFMAG2,	ELFMAG3,	   ELFCLASS64,
		ELFDATA2LSB, EV_CURRENT, [16] = ET_DYN, [20] = EV_CURRENT, [52] = 64};
	_cleanup_files_ struct files f;
	uint32_t bare, libc;
	int fd;

	files_init(&f, 16);
	fd = open(files_path(&f, "bare"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	cr_assert_eq(write(fd, header, sizeof header), (ssize_t)sizeof header);
	close(fd);
	bare = files_add(&f, "bare");
	cr_expect_null(files_get(&f, bare)->module.build_id_gnu);
	cr_assert_not_null(files_get(&f, bare)->module.htlhash);
	cr_expect_str_eq(files_get(&f, bare)->module.htlhash, "15c40682cb6cd7373032c55df34528f3");
	files_write_libc(&f, "libc", false);
	libc = files_add(&f, "libc");
	cr_expect_null(files_get(&f, libc)->module.htlhash, "which costs more, and it has another");
}

/* The same of one that is no ELF file: an assembly of .NET, whose code is mapped from it. */
Test(identity, without_elf_headers)
{
	_cleanup_files_ struct files f;
	uint32_t assembly;
	int fd;

	files_init(&f, 16);
	fd = open(files_path(&f, "assembly"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	cr_assert_eq(write(fd, "MZ and more", 11), 11);
	close(fd);
	assembly = files_add(&f, "assembly");
	cr_assert_not_null(files_get(&f, assembly)->module.htlhash);
	cr_expect_str_eq(files_get(&f, assembly)->module.htlhash, "51690fd1bfdd4e733ec5a4f496aec2fb");
}

/* What is found out later: the content is still there, perhaps with other times, or it is not. */
Test(identity, content_is_confirmed_or_changed)
{
	_cleanup_files_ struct files f;
	struct elf_version version;
	struct binary *b;
	uint32_t index;

	files_init(&f, 16);
	files_write_libc(&f, "a", false);
	index = files_add(&f, "a");
	b = files_get(&f, index);
	b->version.recent = false;
	cr_expect(binary_registry_unchanged(f.registry, index));
	cr_assert_eq(chmod(files_path(&f, "a"), 0700), 0);
	cr_expect_not(binary_registry_unchanged(f.registry, index));
	version = b->version;
	{
		struct stat st;
		int fd = files_open(&f, "a", &st);

		version.ctime = st.st_ctim;
		close(fd);
	}
	binary_registry_confirmed(f.registry, index, &version, false, 100);
	cr_expect(binary_registry_unchanged(f.registry, index));
	cr_expect_eq(files_add(&f, "a"), index, "found by its new times");
	cr_expect_eq(b->unchanged_ns, 100);
	cr_expect_eq(b->doubt_to_ns, 0);
	binary_registry_confirmed(f.registry, index, NULL, true, 200);
	cr_expect_eq(b->doubt_from_ns, 100);
	cr_expect_eq(b->doubt_to_ns, 200);
	cr_expect(binary_registry_changed(f.registry, index));
	cr_expect_not(binary_registry_changed(f.registry, index), "known");
	cr_expect_eq(files_stats(&f).changed, 1);
	cr_expect_eq(b->doubt_from_ns, 200);
	cr_expect_eq(b->doubt_to_ns, UINT64_MAX);
	binary_registry_confirmed(f.registry, index, NULL, false, 300);
	cr_expect_eq(b->doubt_from_ns, 200, "it stays changed");
	cr_expect_not(binary_registry_unchanged(f.registry, index));
}

/* A file that could not be read for want of a descriptor is not one that is not ELF. */
Test(identity, short_of_descriptors)
{
	_cleanup_files_ struct files f;
	struct rlimit all, few;
	struct binary *b = NULL;
	struct stat st;
	int fd;

	files_init(&f, 16);
	files_write_libc(&f, "a", false);
	fd = files_open(&f, "a", &st);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &all), 0);
	few = (struct rlimit){(rlim_t)fd + 1, all.rlim_max};
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	cr_expect_eq(binary_new(&b, fd, &st, "a"), -EMFILE);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &all), 0);
	cr_assert_eq(binary_new(&b, fd, &st, "a"), 0);
	cr_expect_gt(b->n_segments, 0);
	binary_free(b);
}

/* Two contents with the same times, as within one tick of the clock: the later one is found. */
Test(identity, equal_times)
{
	_cleanup_files_ struct files f;
	uint32_t first, second = 0;
	struct binary *b = NULL;
	struct stat st;
	int fd;

	files_init(&f, 16);
	first = files_add_text(&f, "a");
	fd = files_open(&f, "a", &st);
	cr_assert_eq(binary_new(&b, fd, &st, "a"), 0);
	cr_assert_eq(binary_registry_enter(f.registry, b, 0, &second), 0);
	cr_expect_neq(second, first);
	cr_expect_eq(binary_registry_known(f.registry, &st), second);
	files_get(&f, first)->unused_ns = 0;
	binary_registry_confirmed(f.registry, first, &files_get(&f, first)->version, false, 1);
	cr_expect_eq(binary_registry_known(f.registry, &st), second);
}
