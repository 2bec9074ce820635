// SPDX-License-Identifier: Apache-2.0
#include "otlp/spool.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "agent/base/clock.h"
#include "agent/base/fs.h"
#include "otlp/spool_file.h"
#include "otlp/spool_folder.h"

#define NAME_MAX_BYTES 64
#define LOCK_STEP_US 10000u
#define PART "new.part"		       /* the file that is being written */
#define SCAN_MAX (1u << 20)	       /* entries of the folder that are looked at */
#define ENTRY_SAMPLES_MAX (1ull << 32) /* no window has so many */
/* No spool ever writes so many files, so the next number is always larger. */
#define SEQUENCE_MAX (1ull << 62)

struct entry {
	uint64_t sequence, n_samples;
	uint64_t bytes; /* in blocks */
};

struct otlp_spool {
	int dir_fd, lock_fd;
	uint64_t next_sequence;
	struct entry *entries; /* a ring with room for `cap`, a power of two; the oldest is `first` */
	size_t first, n, cap;
	struct otlp_spool_stats stats;
};

static struct entry *entry_at(const struct otlp_spool *s, size_t i)
{
	return &s->entries[(s->first + i) & (s->cap - 1)];
}

static uint64_t blocks(uint64_t bytes)
{
	return (bytes + OTLP_SPOOL_BLOCK - 1) & ~(uint64_t)(OTLP_SPOOL_BLOCK - 1);
}

static void name_of(const struct entry *e, char ret[NAME_MAX_BYTES])
{
	snprintf(ret, NAME_MAX_BYTES, "%016" PRIx64 "-%" PRIu64 ".otlp", e->sequence, e->n_samples);
}

/* Whether the name is one that name_of makes. */
static bool name_parse(const char *name, struct entry *ret)
{
	char again[NAME_MAX_BYTES];
	char *end;

	if (strlen(name) >= sizeof again || !isxdigit((unsigned char)name[0]))
		return false;
	ret->sequence = strtoull(name, &end, 16);
	if (*end != '-')
		return false;
	ret->n_samples = strtoull(end + 1, &end, 10);
	name_of(ret, again);
	return ret->sequence <= SEQUENCE_MAX && ret->n_samples <= ENTRY_SAMPLES_MAX && !strcmp(name, again);
}

static void count_in(struct otlp_spool *s, const struct entry *e)
{
	s->stats.samples.held += e->n_samples;
	s->stats.requests.held++;
	s->stats.bytes += e->bytes;
}

static int push(struct otlp_spool *s, const struct entry *e)
{
	if (s->n == s->cap) {
		size_t cap = s->cap ? s->cap * 2 : 64;
		struct entry *entries = calloc(cap, sizeof *entries);

		if (!entries)
			return -ENOMEM;
		for (size_t i = 0; i < s->n; i++)
			entries[i] = *entry_at(s, i);
		free(s->entries);
		s->entries = entries;
		s->cap = cap;
		s->first = 0;
	}
	s->n++;
	*entry_at(s, s->n - 1) = *e;
	count_in(s, e);
	return 0;
}

/* Removes the oldest entry and adds it to the given counters. */
static int pop(struct otlp_spool *s, uint64_t *samples, uint64_t *requests)
{
	struct entry e = *entry_at(s, 0);
	char name[NAME_MAX_BYTES];

	s->first = (s->first + 1) & (s->cap - 1);
	s->n--;
	*samples += e.n_samples;
	*requests += 1;
	s->stats.samples.held -= e.n_samples;
	s->stats.requests.held--;
	s->stats.bytes -= e.bytes;
	name_of(&e, name);
	if (unlinkat(s->dir_fd, name, 0) < 0 && errno != ENOENT) {
		s->stats.failures++;
		return -errno;
	}
	return 0;
}

static void drop_oldest(struct otlp_spool *s)
{
	(void)pop(s, &s->stats.samples.full, &s->stats.requests.full);
}

static void make_room(struct otlp_spool *s, uint64_t bytes)
{
	while (s->n && (s->stats.bytes + bytes > s->stats.max_bytes || s->n >= OTLP_SPOOL_FILES_MAX))
		drop_oldest(s);
}

static int by_sequence(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return x->sequence < y->sequence ? -1 : x->sequence > y->sequence;
}

/* Whether an entry of the folder is a request that an agent has stored. */
static bool is_request(const struct otlp_spool *s, const char *name, struct entry *ret)
{
	struct stat st;

	if (!name_parse(name, ret) || fstatat(s->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !spool_file_is_own(&st) || (uint64_t)st.st_size > SPOOL_HEADER_BYTES + SPOOL_DATA_MAX)
		return false;
	ret->bytes = blocks((uint64_t)st.st_size);
	return true;
}

/* The lock, which is open, and the folder itself and its parent are entries, too. */
static bool is_expected(const char *name)
{
	return !strcmp(name, ".") || !strcmp(name, "..") || !strcmp(name, "lock") || !strcmp(name, PART);
}

/* Lists the files that previous runs left, in order, and removes unfinished ones. */
static int scan(struct otlp_spool *s)
{
	int fd = openat(s->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_closedir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *d;

	if (!dir) {
		int error = -errno;

		if (fd >= 0)
			close(fd);
		return error;
	}
	(void)unlinkat(s->dir_fd, PART, 0);
	for (size_t i = 0; i < SCAN_MAX && s->n < OTLP_SPOOL_FILES_MAX && (d = readdir(dir)); i++) {
		struct entry e = {0};
		int r = 0;

		if (is_request(s, d->d_name, &e))
			r = push(s, &e);
		else if (!is_expected(d->d_name))
			s->stats.foreign++;
		if (r < 0)
			return r;
	}
	s->stats.samples.recovered = s->stats.samples.held;
	s->stats.requests.recovered = s->stats.requests.held;
	if (s->n)
		qsort(s->entries, s->n, sizeof *s->entries, by_sequence); /* `first` is 0 here */
	s->next_sequence = s->n ? entry_at(s, s->n - 1)->sequence + 1 : 1;
	make_room(s, 0);
	return 0;
}

/* -EBUSY: another agent has it. */
static int lock(int fd, uint64_t wait_ns)
{
	const uint64_t until = clock_mono_ns() + wait_ns;

	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK)
			return -errno;
		if (clock_mono_ns() >= until)
			return -EBUSY;
		(void)usleep(LOCK_STEP_US);
	}
	return 0;
}

int otlp_spool_open(struct otlp_spool **ret, const char *path, uint64_t max_bytes, uint64_t wait_ns)
{
	_cleanup_spool_ struct otlp_spool *s = calloc(1, sizeof *s);
	int r;

	if (!s)
		return -ENOMEM;
	s->dir_fd = s->lock_fd = -1;
	s->stats.max_bytes = max_bytes;
	r = spool_folder_open(path, true, &s->dir_fd);
	if (r < 0)
		return r;
	s->lock_fd = openat(s->dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	if (s->lock_fd < 0)
		return -errno;
	r = lock(s->lock_fd, wait_ns);
	if (r < 0)
		return r;
	r = scan(s);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(s);
	return 0;
}

void otlp_spool_close(struct otlp_spool *s)
{
	if (!s)
		return;
	if (s->lock_fd >= 0)
		close(s->lock_fd);
	if (s->dir_fd >= 0)
		close(s->dir_fd);
	free(s->entries);
	free(s);
}

/* A file gets its name only when it is complete and on the disk. */
static int write_file(struct otlp_spool *s, const char *name, const struct otlp_request *r)
{
	_cleanup_close_ int fd = -1;
	uint8_t header[SPOOL_HEADER_BYTES];
	int result = spool_file_header(r, header);

	if (result < 0)
		return result;
	fd = spool_file_create(s->dir_fd, PART);
	if (fd < 0)
		return fd;
	result = fs_write_fd(fd, header, sizeof header);
	if (result == 0)
		result = fs_write_fd(fd, r->data.data, r->data.len);
	if (result == 0 && fdatasync(fd) < 0)
		result = -errno;
	if (result == 0 && renameat(s->dir_fd, PART, s->dir_fd, name) < 0)
		result = -errno;
	if (result < 0)
		(void)unlinkat(s->dir_fd, PART, 0);
	else
		(void)fsync(s->dir_fd); /* if the name does not get to the disk, the file is lost, but nothing
					   else */
	return result;
}

int otlp_spool_put(struct otlp_spool *s, const struct otlp_request *r)
{
	struct entry e = {s->next_sequence, r->n_samples, blocks(SPOOL_HEADER_BYTES + r->data.len)};
	char name[NAME_MAX_BYTES];
	int result;

	if (e.bytes > s->stats.max_bytes)
		return -EFBIG;
	make_room(s, e.bytes);
	name_of(&e, name);
	result = write_file(s, name, r);
	if (result < 0) {
		s->stats.failures++;
		if (result == -EISDIR || result == -ENOTEMPTY || result == -EEXIST)
			s->next_sequence++; /* a folder may have the name; the next request gets another one */
		return result;
	}
	result = push(s, &e);
	if (result < 0) {
		(void)unlinkat(s->dir_fd, name, 0);
		return result;
	}
	s->next_sequence++;
	s->stats.samples.stored += r->n_samples;
	s->stats.requests.stored++;
	return 0;
}

static int read_file(struct otlp_spool *s, const struct entry *e, struct otlp_request **ret)
{
	_cleanup_request_ struct otlp_request *r = NULL;
	_cleanup_buf_ struct buf file = {0};
	_cleanup_close_ int fd = -1;
	char name[NAME_MAX_BYTES];
	int result;

	name_of(e, name);
	fd = spool_file_open(s->dir_fd, name, SPOOL_HEADER_BYTES + SPOOL_DATA_MAX);
	if (fd < 0)
		return fd;
	result = fs_read_fd(fd, SPOOL_HEADER_BYTES + SPOOL_DATA_MAX, &file);
	if (result == 0)
		result = spool_file_decode(file.data, file.len, &r);
	if (result == 0 && r->n_samples != e->n_samples)
		result = -EBADMSG;
	if (result < 0)
		return result;
	*ret = TAKE_PTR(r);
	return 0;
}

int otlp_spool_oldest(struct otlp_spool *s, struct otlp_request **ret)
{
	while (s->n) {
		int r = read_file(s, entry_at(s, 0), ret);

		if (r == 0 || r == -ENOMEM || r == -EMFILE || r == -ENFILE)
			return r;
		(void)pop(s, &s->stats.samples.damaged, &s->stats.requests.damaged);
	}
	return -ENOENT;
}

int otlp_spool_remove(struct otlp_spool *s)
{
	return s->n ? pop(s, &s->stats.samples.removed, &s->stats.requests.removed) : -ENOENT;
}

void otlp_spool_stats(const struct otlp_spool *s, struct otlp_spool_stats *ret)
{
	*ret = s->stats;
}
