// SPDX-License-Identifier: Apache-2.0
/* Whether a file has the content that it had: what its times say, and what its bytes say. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/lib-names.h>
#include <link.h>
#include <sys/stat.h>
#include <time.h>

#include "agent/base/clock.h"
#include "agent/elf/file/version.h"

#include "tests/unit/agent/elf/elf_file.h"

#define CODE_VA 0x201000ull
#define NOW_S 1000
#define AT(ms) (NOW_S * NS_PER_SEC + (ms) * NS_PER_MS)

DEFINE_CLEANUP(struct elf_image *, elf_image_free)

static struct timespec time_at(uint64_t ns)
{
	return (struct timespec){(time_t)(ns / NS_PER_SEC), (long)(ns % NS_PER_SEC)};
}

static struct stat stat_at(uint64_t mtime_ns, uint64_t ctime_ns)
{
	return (struct stat){.st_size = 100,
			     .st_nlink = 2,
			     .st_mode = S_IFREG | 0755,
			     .st_mtim = time_at(mtime_ns),
			     .st_ctim = time_at(ctime_ns)};
}

static struct elf_version version_at(uint64_t mtime_ns, uint64_t ctime_ns, uint64_t seen_ns)
{
	struct stat st = stat_at(mtime_ns, ctime_ns);
	struct elf_version v;

	elf_version_of_stat(&v, &st, seen_ns);
	return v;
}

/* A change soon after the one that was seen may leave the same time; how soon depends on the clock's tick. */
Test(version, recent)
{
	cr_expect(version_at(AT(1), AT(1), AT(1)).recent);
	cr_expect(version_at(AT(1), AT(1), AT(20)).recent);
	cr_expect_not(version_at(AT(1), AT(1), AT(22)).recent);
	cr_expect(version_at(AT(0), AT(0), AT(1900)).recent, "the file system stores seconds");
	cr_expect_not(version_at(AT(0), AT(0), AT(2100)).recent);
	cr_expect(version_at(AT(1), AT(9000), AT(1)).recent, "a server's clock is ahead");
}

Test(version, compare)
{
	struct elf_version old = version_at(AT(1), AT(2), AT(5000)), marked = old, recent = old;
	struct stat same = stat_at(AT(1), AT(2)), linked = stat_at(AT(1), AT(3)),
		    written = stat_at(AT(3), AT(3)), forced = stat_at(AT(0), AT(2)), longer = same;

	marked.kind = ELF_MARK_WHOLE;
	recent.kind = ELF_MARK_WHOLE;
	recent.recent = true;
	longer.st_size++;
	cr_expect_eq(elf_version_compare(&old, &same), ELF_VERSION_SAME);
	cr_expect_eq(elf_version_compare(&marked, &same), ELF_VERSION_SAME);
	cr_expect_eq(elf_version_compare(&recent, &same), ELF_VERSION_MAYBE);
	cr_expect_eq(elf_version_compare(&old, &linked), ELF_VERSION_OTHER, "nothing else can tell");
	cr_expect_eq(elf_version_compare(&marked, &linked), ELF_VERSION_MAYBE);
	cr_expect_eq(elf_version_compare(&marked, &written), ELF_VERSION_MAYBE);
	cr_expect_eq(elf_version_compare(&old, &forced), ELF_VERSION_OTHER);
	cr_expect_eq(elf_version_compare(&marked, &longer), ELF_VERSION_OTHER);
}

/* A ctime that changed for a reason that is seen, or for one that may be a write. */
Test(version, only_touched)
{
	struct elf_version v = version_at(AT(1), AT(2), AT(5000));
	struct stat st = stat_at(AT(1), AT(2));

	cr_expect(elf_version_only_touched(&v, &st));
	st.st_ctim = time_at(AT(3));
	cr_expect_not(elf_version_only_touched(&v, &st));
	st.st_nlink = 0;
	cr_expect(elf_version_only_touched(&v, &st), "deleted");
	st.st_nlink = 2;
	st.st_mode = S_IFREG | 0700;
	cr_expect(elf_version_only_touched(&v, &st), "chmod");
	st.st_mtim = time_at(AT(3));
	cr_expect_not(elf_version_only_touched(&v, &st), "written");
}

Test(version, was_mapped)
{
	static const struct {
		const char *what;
		uint64_t mtime_ms, ctime_ms, mapped_ms, seen_ms;
		bool mapping, deleted, was;
	} cases[] = {
		{"long before", 1, 1, 500, 501, true, false, true},
		{"just before", 499, 499, 500, 501, true, false, true},
		{"written after", 501, 501, 500, 502, true, false, false},
		{"written after, by a finer clock", 505, 505, 500, 502, true, false, false},
		{"written after, mtime set back", 1, 501, 500, 502, true, false, false},
		{"deleted after", 1, 501, 500, 502, true, true, true},
		{"written after, and deleted", 501, 502, 500, 503, true, true, false},
		{"the file system's clock is ahead", 900, 900, 500, 502, true, false, true},
		{"by name, long before", 1, 1, 500, 501, false, false, true},
		{"by name, just before: may have been written again", 490, 490, 500, 501, false, false,
		 false},
		{"by name, after", 501, 501, 500, 502, false, false, false},
		{"by name, the clock is ahead", 900, 900, 500, 502, false, false, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct elf_version v = version_at(AT(cases[i].mtime_ms), AT(cases[i].ctime_ms), 0);

		cr_expect_eq(elf_version_was_mapped(&v, AT(cases[i].mapped_ms), AT(cases[i].seen_ms),
						    cases[i].mapping, cases[i].deleted),
			     cases[i].was, "%s", cases[i].what);
	}
}

/* --- with files */

static int elf_with(const char *code)
{
	const struct file_section s = {
		".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, CODE_VA, code, strlen(code), 0, 0};
	_cleanup_buf_ struct buf b = {0};

	file_write(&b, EM_X86_64, &s, 1, 0);
	return file_fd(b.data, b.len);
}

static struct elf_version version_of(int fd)
{
	_cleanup_(elf_image_free_p) struct elf_image *img = NULL;
	struct elf_version v;

	cr_assert_eq(elf_version_open(&img, fd, NULL), 0);
	cr_assert_eq(elf_version_read(&v, img), 0);
	cr_assert_eq(elf_version_still(&v, img), 0);
	return v;
}

static int open_as(int fd, const struct elf_version *v)
{
	_cleanup_(elf_image_free_p) struct elf_image *img = NULL;
	int r = elf_version_open(&img, fd, v);

	return r == 0 ? elf_version_still(v, img) : r;
}

static void overwrite(int fd, const char *from, const char *to)
{
	char bytes[4096];
	ssize_t n = pread(fd, bytes, sizeof bytes, 0);
	char *at = n > 0 ? memmem(bytes, (size_t)n, from, strlen(from)) : NULL;

	cr_assert_not_null(at);
	cr_assert_eq(pwrite(fd, to, strlen(to), at - bytes), (ssize_t)strlen(to));
}

/* Other content of the same size, with the same mtime; and, as if it was in the same tick, the same ctime. */
Test(version, rewritten)
{
	_cleanup_close_ int fd = elf_with("amber");
	struct elf_version v = version_of(fd), same_tick;
	struct timespec times[2] = {v.mtime, v.mtime};
	struct stat st;

	cr_expect_eq(v.kind, ELF_MARK_WHOLE, "it is new");
	cr_expect_eq(open_as(fd, &v), 0);
	overwrite(fd, "amber", "birch");
	cr_assert_eq(futimens(fd, times), 0);
	cr_expect_eq(open_as(fd, &v), -ESTALE);
	cr_assert_eq(fstat(fd, &st), 0);
	same_tick = v;
	same_tick.ctime = st.st_ctim;
	same_tick.recent = true;
	cr_expect_eq(open_as(fd, &same_tick), -ESTALE);
	overwrite(fd, "birch", "amber");
	cr_expect_eq(open_as(fd, &v), 0, "its content is the same again");
	cr_assert_eq(ftruncate(fd, 10), 0);
	cr_expect_eq(open_as(fd, &v), -ESTALE, "it is no ELF file any more");
}

Test(version, written_while_it_is_read)
{
	_cleanup_(elf_image_free_p) struct elf_image *img = NULL;
	_cleanup_close_ int fd = elf_with("amber");
	struct elf_version v = version_of(fd);

	cr_assert_eq(elf_version_open(&img, fd, &v), 0);
	cr_expect_eq(elf_version_still(&v, img), 0);
	overwrite(fd, "amber", "birch");
	cr_expect_eq(elf_version_still(&v, img), -ESTALE);
}

/* What is changed from now on has another time: until Linux 6.13, files have the time of the last tick. */
static void next_tick(void)
{
	struct timespec tick;

	cr_assert_eq(clock_getres(CLOCK_REALTIME_COARSE, &tick), 0);
	tick.tv_nsec *= 2;
	(void)nanosleep(&tick, NULL);
}

Test(version, touched)
{
	_cleanup_close_ int fd = elf_with("amber");
	struct elf_version v = version_of(fd);
	struct timespec times[2] = {{5, 5}, {5, 5}};
	struct stat now;

	v.recent = false;
	cr_expect_eq(elf_version_look(&v, fd, &now), ELF_VERSION_SAME);
	next_tick();
	cr_assert_eq(fchmod(fd, 0700), 0);
	cr_expect_eq(elf_version_look(&v, fd, &now), ELF_VERSION_MAYBE);
	cr_expect(elf_version_only_touched(&v, &now));
	cr_expect_eq(open_as(fd, &v), 0);
	cr_assert_eq(futimens(fd, times), 0);
	cr_expect_eq(open_as(fd, &v), 0);
	cr_expect_eq(elf_version_look(&v, -1, &now), ELF_VERSION_OTHER);
}

static int find_libc(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	if (strstr(info->dlpi_name, LIBC_SO))
		*(int *)data = open(info->dlpi_name, O_RDONLY | O_CLOEXEC);
	return 0;
}

/* Files that are not new are not read as a whole, if their build id says what they are. */
Test(version, marks)
{
	_cleanup_close_ int libc = -1, large = elf_with("amber");
	struct elf_version v;
	struct stat st;

	(void)dl_iterate_phdr(find_libc, &libc);
	cr_assert_geq(libc, 0);
	cr_assert_eq(fstat(libc, &st), 0);
	v = version_of(libc);
	cr_expect_eq(v.kind, (uint64_t)st.st_ctim.tv_sec * NS_PER_SEC + ELF_VERSION_NEW_NS > clock_real_ns()
				     ? ELF_MARK_WHOLE
				     : ELF_MARK_BUILD_ID);
	cr_assert_eq(ftruncate(large, ELF_VERSION_WHOLE_MAX + 1), 0);
	v = version_of(large);
	cr_expect_eq(v.kind, ELF_MARK_NONE);
	cr_expect_eq(open_as(large, &v), 0);
	next_tick();
	cr_assert_eq(fchmod(large, 0700), 0);
	cr_expect_eq(open_as(large, &v), -ESTALE, "nothing tells");
}
