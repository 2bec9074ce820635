// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/equality/binary.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"

DEFINE_CLEANUP(Elf *, elf_end)

void binary_fini(struct binary *b)
{
	free(b->sections);
	*b = (struct binary){0};
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && strcmp(s + n - m, end) == 0;
}

/* .plt .plt.got .plt.sec .iplt */
static bool is_plt(const char *name)
{
	return strncmp(name, ".plt", 4) == 0 || strcmp(name, ".iplt") == 0;
}

int binary_read(struct binary *b, const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_(elf_end_p) Elf *elf = NULL;
	Elf_Scn *scn = NULL;
	size_t names, n;
	GElf_Ehdr header;
	GElf_Shdr h;

	*b = (struct binary){0};
	if (fd < 0)
		return -errno;
	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	if (!elf || elf_getshdrnum(elf, &n) < 0 || !gelf_getehdr(elf, &header))
		return -ENOEXEC;
	b->analysed = header.e_machine == EM_X86_64 || header.e_machine == EM_AARCH64;
	if (n == 0)
		return 0;
	b->sections = calloc(n, sizeof *b->sections);
	if (!b->sections)
		return -ENOMEM;
	if (elf_getshdrstrndx(elf, &names) < 0)
		return -ENOEXEC;
	while ((scn = elf_nextscn(elf, scn))) {
		const char *name = gelf_getshdr(scn, &h) ? elf_strptr(elf, names, h.sh_name) : NULL;

		if (!name)
			continue;
		b->go |= ends_with(name, ".gopclntab") || strcmp(name, ".note.go.buildid") == 0 ||
			 strcmp(name, ".go.buildinfo") == 0;
		if ((h.sh_flags & (SHF_ALLOC | SHF_EXECINSTR)) == (SHF_ALLOC | SHF_EXECINSTR))
			b->sections[b->n++] =
				(struct binary_section){h.sh_addr, h.sh_addr + h.sh_size, is_plt(name)};
	}
	return 0;
}

bool binary_in_plt(const struct binary *b, uint64_t va)
{
	for (size_t i = 0; i < b->n; i++) {
		if (va >= b->sections[i].start && va < b->sections[i].end && b->sections[i].plt)
			return true;
	}
	return false;
}

/* The end of the section that contains the address, or 0. *ret_next: start of the next section. */
static uint64_t section_end(const struct binary *b, uint64_t va, uint64_t *ret_next)
{
	*ret_next = UINT64_MAX;
	for (size_t i = 0; i < b->n; i++) {
		const struct binary_section *s = &b->sections[i];

		if (va >= s->start && va < s->end)
			return s->end;
		if (s->start > va && s->start < *ret_next)
			*ret_next = s->start;
	}
	return 0;
}

bool binary_in_code(const struct binary *b, uint64_t start, uint64_t end, uint64_t gap)
{
	uint64_t next;

	while (start < end) {
		uint64_t to = section_end(b, start, &next);

		if (!to) {
			to = next < end ? next : end;
			if (to - start >= gap)
				return false;
		}
		start = to;
	}
	return true;
}
