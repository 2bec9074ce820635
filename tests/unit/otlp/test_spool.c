// SPDX-License-Identifier: Apache-2.0
/* Tests requests on disk: their order, the limit, and what remains after kills, full disks and damage. */
#include <errno.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "exporter_support.h"
#include "otlp/spool_file.h"
#include "otlp/spool_folder.h"
#include "spool_folder.h"

#define MIB (1u << 20)

static struct spool_folder folder;

static void setup(void)
{
	spool_folder_make(&folder);
}

static void teardown(void)
{
	spool_folder_remove(&folder);
}

TestSuite(spool, .init = setup, .fini = teardown);

static struct otlp_spool *opened(uint64_t max_bytes)
{
	struct otlp_spool *s;

	cr_assert_eq(otlp_spool_open(&s, folder.path, max_bytes, 0), 0);
	return s;
}

static int put(struct otlp_spool *s, char content, size_t len, uint64_t n_samples)
{
	_cleanup_request_ struct otlp_request *r = a_request(content, len, n_samples);

	return otlp_spool_put(s, r);
}

static struct otlp_spool_stats stats(const struct otlp_spool *s)
{
	struct otlp_spool_stats ret;
	const struct otlp_spool_count *c = &ret.samples;

	otlp_spool_stats(s, &ret);
	for (int i = 0; i < 2; i++, c = &ret.requests)
		cr_assert_eq(c->recovered + c->stored, c->removed + c->full + c->damaged + c->held);
	return ret;
}

/* Expects this request to be the oldest, and removes it. */
static void expect_oldest(struct otlp_spool *s, char content, size_t len, uint64_t n_samples)
{
	_cleanup_request_ struct otlp_request *r = NULL;

	cr_assert_eq(otlp_spool_oldest(s, &r), 0);
	cr_assert_eq(r->data.len, len);
	cr_assert_eq(r->data.data[0], content);
	cr_assert_eq(r->n_samples, n_samples);
	cr_assert_eq(otlp_spool_remove(s), 0);
}

static void expect_empty(struct otlp_spool *s)
{
	struct otlp_request *r;

	cr_expect_eq(otlp_spool_oldest(s, &r), -ENOENT);
	cr_expect_eq(otlp_spool_remove(s), -ENOENT);
	cr_expect_eq(stats(s).requests.held, 0);
	cr_expect_eq(stats(s).samples.held, 0);
	cr_expect_eq(stats(s).bytes, 0);
}

Test(spool, keeps_all_fields)
{
	_cleanup_request_ struct otlp_request *r = a_request('a', 1000, 5), *again = NULL;
	_cleanup_spool_ struct otlp_spool *s = opened(MIB);

	r->coding = OTLP_ZSTD;
	r->raw_bytes = 4321;
	r->start_unix_ns = 1111111111111;
	r->end_unix_ns = 2222222222222;
	cr_assert_eq(otlp_spool_put(s, r), 0);
	cr_assert_eq(otlp_spool_oldest(s, &again), 0);
	cr_expect_eq(again->coding, OTLP_ZSTD);
	cr_expect_eq(again->raw_bytes, 4321);
	cr_expect_eq(again->n_samples, 5);
	cr_expect_eq(again->n_profiles, 2);
	cr_expect_eq(again->start_unix_ns, 1111111111111);
	cr_expect_eq(again->end_unix_ns, 2222222222222);
	cr_expect_eq(again->data.len, 1000);
	cr_expect_arr_eq(again->data.data, r->data.data, 1000);
	cr_expect_eq(stats(s).bytes, OTLP_SPOOL_BLOCK);
}

Test(spool, keeps_order_over_lives)
{
	struct otlp_spool *s = opened(MIB);

	for (char c = 'a'; c <= 'z'; c++)
		cr_assert_eq(put(s, c, 100, (uint64_t)c), 0);
	expect_oldest(s, 'a', 100, 'a');
	otlp_spool_close(s);
	s = opened(MIB);
	cr_expect_eq(stats(s).requests.recovered, 25);
	for (char c = '0'; c <= '9'; c++)
		cr_assert_eq(put(s, c, 200, 1), 0);
	for (char c = 'b'; c <= 'z'; c++)
		expect_oldest(s, c, 100, (uint64_t)c);
	for (char c = '0'; c <= '9'; c++)
		expect_oldest(s, c, 200, 1);
	expect_empty(s);
	cr_expect_eq(spool_folder_count(&folder), 0);
	otlp_spool_close(s);
}

Test(spool, drops_exactly_the_oldest)
{
	_cleanup_spool_ struct otlp_spool *s = opened(10 * OTLP_SPOOL_BLOCK);

	for (uint64_t i = 0; i < 12; i++) {
		cr_assert_eq(put(s, (char)('a' + i), 100, i + 1), 0);
		cr_expect_leq(stats(s).bytes, 10 * OTLP_SPOOL_BLOCK);
	}
	cr_expect_eq(stats(s).requests.full, 2);
	cr_expect_eq(stats(s).samples.full, 1 + 2);
	cr_assert_eq(put(s, 'X', 2 * OTLP_SPOOL_BLOCK, 50), 0, "three blocks with the header");
	cr_expect_eq(stats(s).samples.full, 1 + 2 + 3 + 4 + 5);
	cr_expect_eq(put(s, 'Y', 10 * OTLP_SPOOL_BLOCK, 50), -EFBIG);
	for (uint64_t i = 5; i < 12; i++)
		expect_oldest(s, (char)('a' + i), 100, i + 1);
	expect_oldest(s, 'X', 2 * OTLP_SPOOL_BLOCK, 50);
	expect_empty(s);
}

Test(spool, shrinks_to_a_smaller_cap)
{
	struct otlp_spool *s = opened(MIB);

	for (uint64_t i = 0; i < 20; i++)
		cr_assert_eq(put(s, (char)('a' + i), 10, 1), 0);
	otlp_spool_close(s);
	s = opened(4 * OTLP_SPOOL_BLOCK);
	cr_expect_eq(stats(s).requests.recovered, 20);
	cr_expect_eq(stats(s).requests.full, 16);
	expect_oldest(s, 'q', 10, 1);
	otlp_spool_close(s);
}

Test(spool, has_one_owner)
{
	struct otlp_spool *s = opened(MIB), *second = NULL;

	cr_expect_eq(otlp_spool_open(&second, folder.path, MIB, 0), -EBUSY);
	cr_expect_null(second);
	otlp_spool_close(s);
	s = opened(MIB);
	otlp_spool_close(s);
}

/* What may happen to a file: a crash, a bad disk, a change by somebody else. */
enum damage {
	TORN_HEADER,
	TORN_DATA,
	EMPTY,
	FLIPPED_HEADER,
	FLIPPED_DATA,
	LONGER,
	GONE,
	RENAMED,
	LINK,
	FIFO,
	N_DAMAGE
};

static void damage_file(const char *path, enum damage how)
{
	char other[600], byte;
	int fd = open(path, O_RDWR | O_CLOEXEC);
	off_t at = how == FLIPPED_HEADER ? 8 : 100;

	cr_assert_geq(fd, 0);
	switch (how) {
	case TORN_HEADER:
		cr_assert_eq(ftruncate(fd, 30), 0);
		break;
	case TORN_DATA:
		cr_assert_eq(ftruncate(fd, 500), 0);
		break;
	case EMPTY:
		cr_assert_eq(ftruncate(fd, 0), 0);
		break;
	case FLIPPED_HEADER:
	case FLIPPED_DATA:
		cr_assert_eq(pread(fd, &byte, 1, at), 1);
		byte ^= 4;
		cr_assert_eq(pwrite(fd, &byte, 1, at), 1);
		break;
	case LONGER:
		cr_assert_eq(pwrite(fd, "x", 1, 5000), 1);
		break;
	case GONE:
		cr_assert_eq(unlink(path), 0);
		break;
	case RENAMED: /* another number of samples in the name */
		snprintf(other, sizeof other, "%s", path);
		strcpy(strrchr(other, '-'), "-77.otlp");
		cr_assert_eq(rename(path, other), 0);
		break;
	case LINK:
		cr_assert_eq(unlink(path), 0);
		cr_assert_eq(symlink("/etc/passwd", path), 0);
		break;
	case FIFO:
		cr_assert_eq(unlink(path), 0);
		cr_assert_eq(mkfifo(path, 0600), 0);
		break;
	case N_DAMAGE:
		break;
	}
	close(fd);
}

/* The middle one of three requests is damaged, while the spool is open or between two runs. */
static void damaged_in_the_middle(enum damage how, bool while_open)
{
	struct otlp_spool *s = opened(MIB);
	char name[512];
	uint64_t held;

	for (char c = 'a'; c <= 'c'; c++)
		cr_assert_eq(put(s, c, 1000, 3), 0);
	if (!while_open)
		otlp_spool_close(s);
	cr_assert(spool_folder_name(&folder, 1, name));
	damage_file(name, how);
	if (!while_open)
		s = opened(MIB);
	held = stats(s).samples.held;
	expect_oldest(s, 'a', 1000, 3);
	expect_oldest(s, 'c', 1000, 3);
	cr_expect_eq(stats(s).samples.damaged, held - 6, "damage %d, open %d", how, while_open);
	expect_empty(s);
	otlp_spool_close(s);
}

Test(spool, passes_over_what_is_damaged)
{
	for (int how = 0; how < N_DAMAGE; how++) {
		for (int while_open = 0; while_open < 2; while_open++) {
			spool_folder_remove(&folder);
			spool_folder_make(&folder);
			damaged_in_the_middle((enum damage)how, while_open);
		}
	}
}

Test(spool, leaves_foreign_files_alone)
{
	static const char *const names[] = {"readme",
					    "0000000000000001-5.otlp.bak",
					    "1-5.otlp",
					    "ffffffffffffffff-1.otlp",
					    "0000000000000001-05.otlp",
					    "-5.otlp",
					    "0000000000000001.otlp"};
	struct otlp_spool *s = opened(MIB);
	char path[512];

	otlp_spool_close(s);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof path, "%s/%s", folder.path, names[i]);
		close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	}
	snprintf(path, sizeof path, "%s/new.part", folder.path);
	close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	s = opened(MIB);
	expect_empty(s);
	cr_expect_neq(access(path, F_OK), 0, "what was being written at the kill is removed");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof path, "%s/%s", folder.path, names[i]);
		cr_expect_eq(access(path, F_OK), 0, "%s", names[i]);
	}
	otlp_spool_close(s);
}

static void in_folder(const char *name, char ret[512])
{
	snprintf(ret, 512, "%s/%s", folder.path, name);
}

/*
 * Whoever can write to the folder puts there what looks like the oldest requests, but would block whoever
 * opens it, or take all the room.
 */
Test(spool, hostile_entries_are_ignored_and_counted, .timeout = 60)
{
	struct otlp_spool *s = opened(MIB);
	char path[512], other[512];
	int fd;

	cr_assert_eq(put(s, 'g', 1000, 7), 0);
	otlp_spool_close(s);
	in_folder("new.part", path);
	cr_assert_eq(mkfifo(path, 0600), 0);
	in_folder("0000000000000000-1.otlp", path);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	cr_assert_geq(fd, 0);
	cr_assert_eq(ftruncate(fd, 5ll << 30), 0);
	close(fd);
	in_folder("0000000000000000-2.otlp", path);
	cr_assert_eq(mkfifo(path, 0600), 0);
	in_folder("0000000000000000-3.otlp", path);
	cr_assert_eq(symlink("/dev/zero", path), 0);
	in_folder("0000000000000000-4.otlp", path);
	cr_assert_eq(mkdir(path, 0700), 0);
	in_folder("0000000000000000-5.otlp", path);
	in_folder("linked", other);
	close(open(other, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	cr_assert_eq(link(other, path), 0);
	in_folder("0000000000000000-99999999999.otlp", path);
	close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));

	s = opened(MIB);
	cr_expect_eq(stats(s).foreign, 7);
	cr_expect_eq(stats(s).requests.recovered, 1);
	cr_expect_eq(stats(s).requests.full, 0, "nothing is evicted for them");
	cr_expect_eq(stats(s).samples.held, 7);
	in_folder("new.part", path);
	cr_assert_eq(mkfifo(path, 0600), 0);
	cr_assert_eq(put(s, 'h', 2000, 8), 0);
	expect_oldest(s, 'g', 1000, 7);
	expect_oldest(s, 'h', 2000, 8);
	expect_empty(s);
	otlp_spool_close(s);
}

/* What was a request when the folder was listed may be something else when it is read. */
Test(spool, an_entry_that_is_replaced_is_damaged, .timeout = 60)
{
	struct otlp_spool *s = opened(MIB);
	char path[512];

	cr_assert_eq(put(s, 'a', 100, 1), 0);
	cr_assert_eq(put(s, 'b', 100, 2), 0);
	cr_assert(spool_folder_name(&folder, 0, path));
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(mkfifo(path, 0600), 0);
	expect_oldest(s, 'b', 100, 2);
	cr_expect_eq(stats(s).requests.damaged, 1);
	otlp_spool_close(s);
}

Test(spool, a_folder_under_the_next_name_is_passed)
{
	struct otlp_spool *s = opened(MIB);
	char path[512];

	in_folder("0000000000000001-1.otlp", path);
	cr_assert_eq(mkdir(path, 0700), 0);
	cr_expect_lt(put(s, 'a', 100, 1), 0);
	cr_expect_eq(put(s, 'a', 100, 1), 0);
	expect_oldest(s, 'a', 100, 1);
	otlp_spool_close(s);
}

Test(spool, a_linked_folder_is_refused)
{
	struct otlp_spool *s;
	char real[512], below[512];

	snprintf(real, sizeof real, "%s/real", folder.parent);
	cr_assert_eq(mkdir(real, 0700), 0);
	cr_assert_eq(symlink("real", folder.path), 0);
	cr_expect_eq(otlp_spool_open(&s, folder.path, MIB, 0), -ELOOP);
	cr_expect_eq(spool_folder_walk(folder.path), -ELOOP);
	in_folder("below", below);
	cr_expect_eq(otlp_spool_open(&s, below, MIB, 0), -ELOOP);
	cr_expect_eq(spool_folder_walk(below), -ELOOP);
	cr_expect_eq(spool_folder_walk("/dev/null"), -ENOTDIR);
	cr_expect_eq(spool_folder_walk("/nonexistent"), -ENOENT);
	cr_expect(strstr(spool_folder_error(-ELOOP), "symbolic link"));
}

Test(spool, a_folder_is_ours_alone)
{
	struct otlp_spool *s;
	struct stat st;
	int fd;

	cr_assert_eq(mkdir(folder.path, 0700), 0);
	cr_assert_eq(chmod(folder.path, 0777), 0);
	s = opened(MIB);
	otlp_spool_close(s);
	cr_assert_eq(stat(folder.path, &st), 0);
	cr_expect_eq(st.st_mode & 07777, 0700);
	fd = spool_folder_walk(folder.path);
	cr_expect_geq(fd, 0);
	close(fd);
	if (geteuid() != 0)
		cr_skip_test("only root gives folders away");
	cr_assert_eq(chown(folder.path, 65534, 65534), 0);
	cr_expect_eq(otlp_spool_open(&s, folder.path, MIB, 0), -EPERM);
	cr_expect(strstr(spool_folder_error(-EPERM), "another user"));
}

/* Kills a writer many times: the files that exist are complete and in order. */
Test(spool, outlives_kill_9)
{
	uint64_t last = 0, recovered;

	for (int life = 0; life < 10; life++) {
		pid_t pid = fork();

		cr_assert_geq(pid, 0);
		if (!pid) {
			struct otlp_spool *s;

			if (otlp_spool_open(&s, folder.path, 100 * MIB, 0))
				_exit(1);
			for (uint64_t i = 1;; i++) {
				struct otlp_request *r = a_request('a', 20000, last + i);

				if (otlp_spool_put(s, r))
					_exit(2);
				otlp_request_free(r);
			}
		}
		while (spool_folder_count(&folder) < 2 + (size_t)life)
			usleep(500 * (unsigned)life);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		struct otlp_spool *s = opened(100 * MIB);
		recovered = stats(s).requests.recovered;
		while (recovered--) {
			_cleanup_request_ struct otlp_request *r = NULL;

			cr_assert_eq(otlp_spool_oldest(s, &r), 0);
			cr_assert_eq(r->data.len, 20000);
			cr_assert_eq(r->n_samples, last + 1, "one after the other");
			last++;
			cr_assert_eq(otlp_spool_remove(s), 0);
		}
		cr_expect_eq(stats(s).requests.damaged, 0);
		expect_empty(s);
		otlp_spool_close(s);
	}
	cr_expect_gt(last, 10);
}

/* Uses a file system of its own, if this process may mount one. */
static void on_tmpfs(const char *options)
{
	if (mount("tmpfs", folder.parent, "tmpfs", MS_NOSUID, options) < 0)
		cr_skip("cannot mount: %s", strerror(errno));
}

Test(spool, full_disk)
{
	on_tmpfs("size=64k");
	struct otlp_spool *s = opened(MIB);
	int r = 0;
	uint64_t n;

	for (n = 0; n < 30 && !(r = put(s, 'a', 8000, 1)); n++)
		;
	cr_expect_eq(r, -ENOSPC);
	cr_expect_eq(stats(s).failures, 1);
	cr_expect_eq(stats(s).requests.held, n);
	expect_oldest(s, 'a', 8000, 1);
	expect_oldest(s, 'a', 8000, 1);
	cr_expect_eq(put(s, 'b', 8000, 1), 0, "there is room again");
	for (uint64_t i = 0; i < n - 2; i++)
		expect_oldest(s, 'a', 8000, 1);
	expect_oldest(s, 'b', 8000, 1);
	otlp_spool_close(s);
	umount(folder.parent);
}

Test(spool, read_only_disk)
{
	struct otlp_spool *s = NULL;

	on_tmpfs("");
	s = opened(MIB);
	cr_assert_eq(put(s, 'a', 100, 1), 0);
	otlp_spool_close(s); /* an open lock file would prevent the remount as read-only */
	cr_assert_eq(mount(NULL, folder.parent, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
	s = NULL;
	cr_expect_eq(otlp_spool_open(&s, folder.path, MIB, 0), -EROFS);
	cr_expect_null(s);
	umount(folder.parent);
}

Test(spool, no_such_parent)
{
	struct otlp_spool *s = NULL;

	cr_expect_eq(otlp_spool_open(&s, "/nonexistent/spool", MIB, 0), -ENOENT);
	cr_expect_eq(otlp_spool_open(&s, "/dev/null", MIB, 0), -ENOTDIR);
	cr_expect_null(s);
}

Test(spool, a_cut_header_is_no_request)
{
	struct otlp_request *r = a_request('a', 100, 1), *again;
	uint8_t file[SPOOL_HEADER_BYTES + 100];

	cr_assert_eq(spool_file_header(r, file), 0);
	memcpy(file + SPOOL_HEADER_BYTES, r->data.data, 100);
	for (size_t len = 0; len < sizeof file; len++)
		cr_expect_eq(spool_file_decode(file, len, &again), -EBADMSG, "%zu bytes", len);
	for (size_t bit = 0; bit < sizeof file * 8; bit++) {
		file[bit / 8] ^= (uint8_t)(1u << bit % 8);
		cr_expect_eq(spool_file_decode(file, sizeof file, &again), -EBADMSG, "bit %zu", bit);
		file[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	cr_assert_eq(spool_file_decode(file, sizeof file, &again), 0);
	otlp_request_free(again);
	otlp_request_free(r);
}
