// SPDX-License-Identifier: Apache-2.0
/* Files of lines beside assemblies that this process has mapped: which are opened, and which are not. */
#include "agent/unwind/pdb_search.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"

#define BYTES 4096u
#define NAME "Demo.pdb"
#define CONTENT "lines"

static char folder[] = "/tmp/proflet-pdb-XXXXXX";
static uint8_t *mapped;
static struct pdb_absent absent;
static int mem = -1;

static const char *path_of(const char *name)
{
	static char path[128];

	snprintf(path, sizeof path, "%s/%s", folder, name);
	return path;
}

static void write_file(const char *name, const char *content, mode_t mode)
{
	int fd = open(path_of(name), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, content, strlen(content)), (ssize_t)strlen(content));
	cr_assert_eq(fchmod(fd, mode), 0);
	close(fd);
}

static void init(void)
{
	int fd;

	cr_assert_not_null(mkdtemp(folder));
	write_file("Demo.dll", "MZ", 0644);
	fd = open(path_of("Demo.dll"), O_RDONLY | O_CLOEXEC);
	mapped = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);
	cr_assert_neq(mapped, MAP_FAILED);
	close(fd);
	mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	cr_assert_geq(mem, 0);
}

static void fini(void)
{
	munmap(mapped, BYTES);
	close(mem);
	(void)unlink(path_of("Demo.dll"));
	(void)unlink(path_of(NAME));
	(void)rmdir(folder);
}

TestSuite(pdb_search, .init = init, .fini = fini);

/* A descriptor for reading, or -errno. */
static int search(const void *base, const char *name)
{
	struct pdb_search s = {.pid = (uint32_t)getpid(), .mem = mem, .absent = &absent};
	const struct pdb_query q = {.base = (uintptr_t)base};
	_cleanup_buf_ struct buf query = {0};
	int socket, fd;

	cr_assert_eq(buf_append(&query, &q, sizeof q), 0);
	cr_assert_eq(buf_append(&query, name, strlen(name)), 0);
	socket = pdb_search_answer(query.data, query.len, &s);
	if (socket < 0) {
		pdb_search_fini(&s);
		return socket;
	}
	fd = parser_fd_receive(socket);
	close(socket);
	cr_expect_eq(s.opened, 1);
	pdb_search_fini(&s);
	return fd;
}

Test(pdb_search, file_beside_the_assembly)
{
	char content[16] = "";
	int fd;

	write_file(NAME, CONTENT, 0644);
	fd = search(mapped, NAME);
	cr_assert_geq(fd, 0, "%d", fd);
	cr_expect_eq(read(fd, content, sizeof content - 1), (ssize_t)strlen(CONTENT));
	cr_expect_str_eq(content, CONTENT);
	cr_expect_eq(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	close(fd);
	cr_expect_eq(absent.n, 0);
}

Test(pdb_search, what_is_absent_is_not_looked_for_again)
{
	cr_expect_eq(search(mapped, NAME), -ENOENT);
	cr_expect_eq(absent.n, 1);
	write_file(NAME, CONTENT, 0644);
	cr_expect_eq(search(mapped, NAME), -ENOENT);
	absent.n = 0;
	cr_expect_geq(search(mapped, NAME), 0);
	absent.n = PDB_ABSENT_MAX; /* as many as there may be */
	memset(absent.base, 0, sizeof absent.base);
	cr_expect_eq(search(mapped, NAME), -ENOENT);
}

Test(pdb_search, addresses_where_no_assembly_begins)
{
	write_file(NAME, CONTENT, 0644);
	cr_expect_eq(search(mapped + 1, NAME), -ENOENT);
	cr_expect_eq(search(NULL, NAME), -ENOENT);
	cr_expect_eq(search(&absent, NAME), -ENOENT);
}

Test(pdb_search, names_are_not_paths)
{
	cr_expect_eq(search(mapped, "../Demo.pdb"), -EINVAL);
	cr_expect_eq(search(mapped, ""), -EINVAL);
	absent.n = 0;
	cr_expect_eq(search(mapped, ".."), -EPERM); /* a folder */
	cr_expect_eq(pdb_search_answer("short", 5, &(struct pdb_search){.absent = &absent}), -EINVAL);
}

Test(pdb_search, files_that_others_could_have_written)
{
	write_file(NAME, CONTENT, 0646);
	cr_expect_eq(search(mapped, NAME), -EPERM);
}

/* Who may read the assembly may read the file of its lines. */
Test(pdb_search, files_that_fewer_may_read)
{
	write_file(NAME, CONTENT, 0600);
	cr_expect_eq(search(mapped, NAME), -EPERM);
	absent.n = 0;
	cr_assert_eq(chmod(path_of("Demo.dll"), 0600), 0);
	cr_expect_geq(search(mapped, NAME), 0);
}

Test(pdb_search, what_is_no_file)
{
	cr_assert_eq(mkfifo(path_of(NAME), 0644), 0);
	cr_expect_eq(search(mapped, NAME), -EPERM);
}

/* The file with the assembly's name is not the one that is mapped. */
Test(pdb_search, an_assembly_that_was_replaced)
{
	char other[128];

	write_file(NAME, CONTENT, 0644);
	write_file("other", "MZ", 0644);
	snprintf(other, sizeof other, "%s", path_of("other"));
	cr_assert_eq(rename(other, path_of("Demo.dll")), 0);
	cr_expect_lt(search(mapped, NAME), 0);
}

/* The process is gone, and its pid may be another's. */
Test(pdb_search, memory_of_no_process)
{
	int real = mem;

	write_file(NAME, CONTENT, 0644);
	mem = open("/dev/null", O_RDONLY | O_CLOEXEC); /* reads nothing, like the memory of what has ended */
	cr_expect_eq(search(mapped, NAME), -ESRCH);
	close(mem);
	mem = real;
}
