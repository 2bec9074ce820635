// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/file/version.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/flat.h"
#include "agent/base/map.h"
#include "agent/elf/file/elf_image_internal.h"

#define TICK_NS (20 * NS_PER_MS) /* no kernel's clock of file times is coarser: CONFIG_HZ is 100 or more */
#define WHOLE_TICK_NS (2 * NS_PER_SEC) /* that of a file system which stores seconds (FAT: two) */
#define BUILD_ID_MIN 8		       /* bytes; a shorter one was chosen by hand */
#define HEADERS_MAX (4u << 20)
#define CHUNK (16u << 10)

DEFINE_CLEANUP(struct elf_image *, elf_image_free)

static uint64_t ns_of(const struct timespec *t)
{
	return (uint64_t)t->tv_sec * NS_PER_SEC + (uint64_t)t->tv_nsec;
}

uint64_t elf_version_clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	return ns_of(&now);
}

/* How much later than its ctime a file may have been changed. */
static uint64_t tick_of(const struct elf_version *v)
{
	return v->ctime.tv_nsec == 0 ? WHOLE_TICK_NS : TICK_NS;
}

void elf_version_of_stat(struct elf_version *ret, const struct stat *st, uint64_t before_ns)
{
	*ret = (struct elf_version){
		.size = (uint64_t)st->st_size,
		.mtime = st->st_mtim,
		.ctime = st->st_ctim,
		.nlink = (uint32_t)st->st_nlink,
		.mode = st->st_mode,
		.uid = st->st_uid,
		.gid = st->st_gid,
	};
	ret->recent = ns_of(&ret->ctime) + tick_of(ret) >= before_ns;
}

bool elf_version_valid(const struct elf_version *v)
{
	return flat_is_bool(&v->recent) && (unsigned)v->kind <= ELF_MARK_WHOLE;
}

static bool time_is(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

enum elf_version_change elf_version_compare(const struct elf_version *v, const struct stat *now)
{
	if (v->size != (uint64_t)now->st_size)
		return ELF_VERSION_OTHER;
	if (!time_is(&v->ctime, &now->st_ctim) || !time_is(&v->mtime, &now->st_mtim))
		return v->kind ? ELF_VERSION_MAYBE : ELF_VERSION_OTHER;
	return v->recent && v->kind ? ELF_VERSION_MAYBE : ELF_VERSION_SAME;
}

bool elf_version_only_touched(const struct elf_version *v, const struct stat *now)
{
	if (!time_is(&v->mtime, &now->st_mtim))
		return false;
	return time_is(&v->ctime, &now->st_ctim) || v->nlink != now->st_nlink || v->mode != now->st_mode ||
	       v->uid != now->st_uid || v->gid != now->st_gid;
}

enum elf_version_change elf_version_look(const struct elf_version *v, int fd, struct stat *ret_now)
{
	struct statx x;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &x) < 0)
		return ELF_VERSION_OTHER;
	*ret_now = (struct stat){.st_dev = makedev(x.stx_dev_major, x.stx_dev_minor),
				 .st_ino = x.stx_ino,
				 .st_size = (off_t)x.stx_size,
				 .st_nlink = x.stx_nlink,
				 .st_mode = x.stx_mode,
				 .st_uid = x.stx_uid,
				 .st_gid = x.stx_gid,
				 .st_mtim = {x.stx_mtime.tv_sec, x.stx_mtime.tv_nsec},
				 .st_ctim = {x.stx_ctime.tv_sec, x.stx_ctime.tv_nsec}};
	return elf_version_compare(v, ret_now);
}

/* Adds bytes of the file to a hash. 0; -EINVAL: the file is shorter by now; -errno. */
static int hash_range(const struct elf_image *img, uint64_t offset, uint64_t len, uint64_t *hash)
{
	uint8_t chunk[CHUNK];

	while (len) {
		size_t n = len < sizeof chunk ? len : sizeof chunk;
		int r = elf_image_pread(img, offset, chunk, n);

		if (r < 0)
			return r;
		*hash = hash_u64(*hash ^ hash_bytes(chunk, n));
		offset += n;
		len -= n;
	}
	return 0;
}

/*
 * The headers: they describe how long each section is, so that most changes of names, too, show in them. A
 * header that lies outside of the file is damaged, and counts by its numbers.
 */
static int hash_headers(const struct elf_image *img, uint64_t *hash)
{
	Elf64_Ehdr e;
	uint64_t len;
	int r = elf_image_pread(img, 0, &e, sizeof e);

	if (r < 0)
		return r;
	*hash = hash_u64(*hash ^ hash_bytes(&e, sizeof e));
	len = (uint64_t)e.e_shnum * e.e_shentsize;
	if (len > HEADERS_MAX || e.e_shoff > img->file_bytes || len > img->file_bytes - e.e_shoff)
		return 0;
	return hash_range(img, e.e_shoff, len, hash);
}

/* Whether there is a build id that the linker made of the content. */
static bool is_linkers(const struct elf_ids *ids)
{
	return ids->n_gnu >= BUILD_ID_MIN || ids->go[0];
}

/* Reads the mark of that kind; `ids` are those that the file has now. 0 or -errno. */
static int read_mark(const struct elf_image *img, enum elf_version_mark kind, const struct elf_ids *ids,
		     uint64_t *ret)
{
	uint64_t hash = 0;
	int r;

	if (kind == ELF_MARK_WHOLE) {
		r = hash_range(img, 0, img->file_bytes, &hash);
	} else {
		r = hash_headers(img, &hash);
		hash = hash_u64(hash ^ hash_bytes(ids->gnu, ids->n_gnu));
		hash = hash_u64(hash ^ hash_bytes(ids->go, strlen(ids->go)));
	}
	*ret = hash;
	return r;
}

static enum elf_version_mark mark_of(const struct elf_image *img, const struct elf_ids *ids, bool is_new)
{
	if (img->file_bytes <= ELF_VERSION_WHOLE_MAX && (is_new || !is_linkers(ids)))
		return ELF_MARK_WHOLE;
	return is_linkers(ids) ? ELF_MARK_BUILD_ID : ELF_MARK_NONE;
}

int elf_version_read(struct elf_version *ret, struct elf_image *img)
{
	uint64_t before_ns = elf_version_clock_ns();
	struct elf_version v;
	struct elf_ids ids;
	struct stat st;
	int r;

	if (fstat(img->fd, &st) < 0)
		return -errno;
	r = elf_image_ids(img, &ids);
	if (r < 0)
		return r;
	elf_version_of_stat(&v, &st, before_ns);
	v.kind = mark_of(img, &ids, ns_of(&v.ctime) + ELF_VERSION_NEW_NS > before_ns);
	if (v.kind != ELF_MARK_NONE)
		r = read_mark(img, v.kind, &ids, &v.mark);
	if (r < 0)
		return r;
	*ret = v;
	return 0;
}

static int mark_check(const struct elf_version *v, const struct elf_image *img)
{
	struct elf_ids ids;
	uint64_t mark;
	int r = v->kind == ELF_MARK_BUILD_ID ? elf_image_ids(img, &ids) : 0;

	if (r == 0)
		r = read_mark(img, v->kind, &ids, &mark);
	if (r < 0)
		return r == -EINVAL ? -ESTALE : r; /* it is shorter by now */
	return mark == v->mark ? 0 : -ESTALE;
}

int elf_version_open(struct elf_image **ret, int fd, const struct elf_version *v)
{
	_cleanup_(elf_image_free_p) struct elf_image *img = NULL;
	uint64_t before_ns = elf_version_clock_ns();
	int r = elf_image_open(&img, fd);

	if (r < 0)
		return r == -ENOEXEC && v ? -ESTALE : r;
	img->opened_before_ns = before_ns;
	switch (v ? elf_version_compare(v, &img->opened) : ELF_VERSION_SAME) {
	case ELF_VERSION_SAME:
		break;
	case ELF_VERSION_MAYBE:
		r = mark_check(v, img);
		break;
	case ELF_VERSION_OTHER:
		r = -ESTALE;
		break;
	}
	if (r < 0)
		return r;
	*ret = TAKE_PTR(img);
	return 0;
}

int elf_version_still(const struct elf_version *v, struct elf_image *img)
{
	struct elf_version opened;
	struct stat st;

	if (fstat(img->fd, &st) < 0)
		return -errno;
	elf_version_of_stat(&opened, &img->opened, img->opened_before_ns);
	if (elf_version_compare(&opened, &st) != ELF_VERSION_SAME)
		return -ESTALE;
	return opened.recent && v && v->kind != ELF_MARK_NONE ? mark_check(v, img) : 0;
}

bool elf_version_was_mapped(const struct elf_version *v, uint64_t mapped_ns, uint64_t seen_ns, bool mapping,
			    bool deleted)
{
	uint64_t ctime_ns = ns_of(&v->ctime);

	if (!mapping)
		return ctime_ns + tick_of(v) <= mapped_ns;
	/* The latter: of another clock, a server's. A ctime may be finer than the clock, and ahead of it. */
	if (ctime_ns <= mapped_ns || ctime_ns > seen_ns + tick_of(v))
		return true;
	return deleted && ns_of(&v->mtime) <= mapped_ns;
}
