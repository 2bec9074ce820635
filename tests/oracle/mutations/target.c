// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/mutations/target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/cleanup.h"

static int write_at(int fd, const uint8_t *bytes, size_t len, uint64_t at)
{
	while (len > 0) {
		ssize_t n = pwrite(fd, bytes, len, (off_t)at);

		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		bytes += n;
		len -= (size_t)n;
		at += (uint64_t)n;
	}
	return 0;
}

static int read_all(struct target *t, const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	t->len = (size_t)st.st_size;
	t->bytes = malloc(t->len + 1);
	if (!t->bytes)
		return -ENOMEM;
	for (size_t done = 0; done < t->len;) {
		ssize_t n = read(fd, t->bytes + done, t->len - done);

		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		done += (size_t)n;
	}
	return t->len < sizeof(Elf64_Ehdr) || memcmp(t->bytes, ELFMAG, SELFMAG) != 0 ? -ENOEXEC : 0;
}

int target_open(struct target *t, const char *path)
{
	*t = (struct target){.path = path, .fd = -1};
	int r = read_all(t, path);
	if (r < 0)
		return r;
	t->cut = t->len;
	t->fd = memfd_create("mutation", MFD_CLOEXEC);
	if (t->fd < 0)
		return -errno;
	return write_at(t->fd, t->bytes, t->len, 0);
}

void target_close(struct target *t)
{
	if (t->fd >= 0)
		close(t->fd);
	free(t->bytes);
	*t = (struct target){.fd = -1};
}

struct range target_phdrs(const struct target *t)
{
	const Elf64_Ehdr *eh = (const Elf64_Ehdr *)t->bytes;

	return (struct range){eh->e_phoff, (uint64_t)eh->e_phnum * sizeof(Elf64_Phdr)};
}

struct range target_shdrs(const struct target *t)
{
	const Elf64_Ehdr *eh = (const Elf64_Ehdr *)t->bytes;

	return (struct range){eh->e_shoff, (uint64_t)eh->e_shnum * sizeof(Elf64_Shdr)};
}

bool target_section(const struct target *t, const char *name, struct range *ret, uint64_t *ret_va)
{
	const Elf64_Ehdr *eh = (const Elf64_Ehdr *)t->bytes;
	const Elf64_Shdr *sh = (const Elf64_Shdr *)(t->bytes + eh->e_shoff);

	for (size_t i = 1; i < eh->e_shnum; i++) {
		const char *s = (const char *)t->bytes + sh[eh->e_shstrndx].sh_offset + sh[i].sh_name;

		if (sh[i].sh_type == SHT_NOBITS || sh[i].sh_size == 0 || strcmp(s, name) != 0)
			continue;
		*ret = (struct range){sh[i].sh_offset, sh[i].sh_size};
		*ret_va = sh[i].sh_addr;
		return true;
	}
	return false;
}

void target_patch(struct target *t, uint64_t at, uint8_t byte)
{
	if (at < t->len && t->n_patches < PATCHES_MAX)
		t->patches[t->n_patches++] = (struct patch){.at = at, .byte = byte};
}

void target_cut(struct target *t, uint64_t len)
{
	t->cut = len < t->len ? len : t->len;
}

int target_apply(struct target *t)
{
	for (size_t i = 0; i < t->n_patches; i++) {
		int r = write_at(t->fd, &t->patches[i].byte, 1, t->patches[i].at);
		if (r < 0)
			return r;
	}
	return t->cut < t->len && ftruncate(t->fd, (off_t)t->cut) < 0 ? -errno : 0;
}

int target_repair(struct target *t)
{
	int r = t->cut < t->len ? write_at(t->fd, t->bytes + t->cut, t->len - t->cut, t->cut) : 0;

	for (size_t i = 0; i < t->n_patches && r == 0; i++)
		r = write_at(t->fd, t->bytes + t->patches[i].at, 1, t->patches[i].at);
	t->n_patches = 0;
	t->cut = t->len;
	return r;
}
