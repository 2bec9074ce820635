// SPDX-License-Identifier: Apache-2.0
/*
 * header_equality: opens each ELF file below some folders with agent/elf/file and with libelf, and lists
 * where they differ: segments, section headers and names, build ids, and whether it is a Go program.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <gelf.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/file/elf_image.h"

#define NT_GO_BUILD_ID 4
#define NAMES_MAX 1000u /* of a file's sections, that are looked for */

DEFINE_CLEANUP(Elf *, elf_end)
DEFINE_CLEANUP(struct elf_image *, elf_image_free)

static struct {
	unsigned files, segments, sections, gnu, go_ids, go, refused, differences;
} n;

static const char *path_now;

__attribute__((format(printf, 1, 2))) static void differ(const char *format, ...)
{
	va_list arguments;

	n.differences++;
	printf("%s: ", path_now);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf("\n");
}

static bool is_segment(const GElf_Phdr *p, const struct elf_segment *s)
{
	return p->p_vaddr == s->va && p->p_memsz == s->mem_bytes && p->p_offset == s->offset &&
	       p->p_filesz == s->file_bytes && (p->p_flags & PF_X ? true : false) == s->executable &&
	       (p->p_flags & PF_W ? true : false) == s->writable;
}

static void compare_segments(const struct elf_image *img, Elf *elf)
{
	size_t n_segments, n_headers = 0, at = 0;
	const struct elf_segment *segments = elf_image_segments(img, &n_segments);
	struct elf_segment first;
	GElf_Phdr p, q;

	if (elf_getphdrnum(elf, &n_headers) < 0)
		differ("libelf refuses the program headers");
	for (size_t i = 0; i < n_headers; i++) {
		size_t k = 0;

		if (!gelf_getphdr(elf, (int)i, &p))
			differ("libelf refuses program header %zu", i);
		while (gelf_getphdr(elf, (int)k, &q) && q.p_type != p.p_type)
			k++;
		if (elf_image_program_header(img, p.p_type, &first) < 0 || !is_segment(&q, &first))
			differ("first program header of type %#x", p.p_type);
		if (p.p_type != PT_LOAD)
			continue;
		if (at >= n_segments || !is_segment(&p, &segments[at]))
			differ("segment %zu", at);
		at++;
	}
	if (at != n_segments)
		differ("%zu segments, libelf has %zu", n_segments, at);
	n.segments += (unsigned)at;
}

static bool is_section(const GElf_Shdr *h, const struct elf_section *s)
{
	return h->sh_type == s->type && h->sh_link == s->link && h->sh_flags == s->flags &&
	       h->sh_addr == s->va && h->sh_offset == s->offset && h->sh_size == s->bytes &&
	       h->sh_entsize == s->entry_bytes;
}

/* The name of section `index`; NULL: it has none. */
static const char *name_of(Elf *elf, size_t index, GElf_Shdr *ret)
{
	Elf_Scn *scn = elf_getscn(elf, index);
	size_t names;

	if (!scn || !gelf_getshdr(scn, ret) || elf_getshdrstrndx(elf, &names) < 0)
		return NULL;
	return elf_strptr(elf, names, ret->sh_name);
}

static size_t first_of(Elf *elf, size_t n_sections, const char *name)
{
	GElf_Shdr h;

	for (size_t i = 1; i < n_sections; i++) {
		const char *other = name_of(elf, i, &h);

		if (other && strcmp(other, name) == 0)
			return i;
	}
	return 0;
}

static void compare_sections(const struct elf_image *img, Elf *elf, bool *ret_go)
{
	size_t n_sections = 0;

	if (elf_getshdrnum(elf, &n_sections) < 0)
		differ("libelf refuses the section headers");
	if (n_sections != elf_image_n_sections(img))
		differ("%zu sections, libelf has %zu", elf_image_n_sections(img), n_sections);
	for (size_t i = 0; i < n_sections; i++) {
		struct elf_section s, found;
		GElf_Shdr h = {0};
		const char *name = name_of(elf, i, &h);

		if (!elf_image_section_header(img, i, &s) || s.index != i || !is_section(&h, &s))
			differ("section header %zu", i);
		if (!name || i == 0)
			continue;
		if (i < NAMES_MAX && (elf_image_find_section(img, name, &found) < 0 ||
				      found.index != first_of(elf, n_sections, name)))
			differ("section \"%s\" (%zu)", name, i);
		*ret_go |= (strcmp(name, ".gopclntab") == 0 || strcmp(name, ".data.rel.ro.gopclntab") == 0) &&
			   h.sh_type != SHT_NOBITS && h.sh_size > 0;
	}
	n.sections += (unsigned)n_sections;
}

/* The first note of that type and name in some bytes of the file. */
static bool find_note(Elf_Data *data, uint32_t type, const char *name, struct elf_data *ret)
{
	size_t at = 0, name_at, desc_at;
	GElf_Nhdr note;

	while (data && data->d_buf && (at = gelf_getnote(data, at, &note, &name_at, &desc_at)) > 0) {
		const uint8_t *bytes = data->d_buf;

		if (note.n_type == type && note.n_namesz == 4 && memcmp(bytes + name_at, name, 4) == 0) {
			*ret = (struct elf_data){.bytes = bytes + desc_at, .len = note.n_descsz};
			return true;
		}
	}
	return false;
}

static struct elf_data note_of(Elf *elf, uint32_t type, const char *name)
{
	struct elf_data found = {.len = 0};
	size_t n_headers = 0;
	Elf_Scn *scn = NULL;
	GElf_Phdr p;
	GElf_Shdr h;

	(void)elf_getphdrnum(elf, &n_headers);
	for (size_t i = 0; i < n_headers; i++) {
		if (gelf_getphdr(elf, (int)i, &p) && p.p_type == PT_NOTE &&
		    find_note(elf_getdata_rawchunk(elf, (int64_t)p.p_offset, p.p_filesz,
						   p.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR),
			      type, name, &found))
			return found;
	}
	while ((scn = elf_nextscn(elf, scn)))
		if (gelf_getshdr(scn, &h) && h.sh_type == SHT_NOTE &&
		    find_note(elf_getdata(scn, NULL), type, name, &found))
			return found;
	return found;
}

static void compare_ids(const struct elf_image *img, Elf *elf, bool *ret_go)
{
	const struct elf_data gnu = note_of(elf, NT_GNU_BUILD_ID, "GNU"),
			      go = note_of(elf, NT_GO_BUILD_ID, "Go\0");
	const size_t go_len = strnlen((const char *)go.bytes ?: "", go.len);
	struct elf_ids ids;

	if (elf_image_ids(img, &ids) < 0)
		differ("ids cannot be read");
	if (ids.n_gnu != gnu.len || memcmp(ids.gnu, gnu.bytes ?: ids.gnu, gnu.len) != 0)
		differ("GNU build id of %zu bytes, libelf has %zu", ids.n_gnu, gnu.len);
	if (strlen(ids.go) != go_len || memcmp(ids.go, go.bytes ?: (const uint8_t *)ids.go, go_len) != 0)
		differ("Go build id \"%s\", libelf has %zu bytes", ids.go, go_len);
	n.gnu += ids.n_gnu > 0;
	n.go_ids += ids.go[0] != 0;
	*ret_go |= go_len > 0;
}

/* -1: libelf sees no 64-bit little-endian file. */
static int open_by_libelf(Elf **ret, int fd)
{
	GElf_Ehdr header;

	*ret = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	return *ret && elf_kind(*ret) == ELF_K_ELF && gelf_getehdr(*ret, &header) &&
			       header.e_ident[EI_CLASS] == ELFCLASS64 &&
			       header.e_ident[EI_DATA] == ELFDATA2LSB
		       ? 0
		       : -1;
}

static int compare(const char *path, const struct stat *st, int type, struct FTW *at)
{
	_cleanup_(elf_image_free_p) struct elf_image *img = NULL;
	_cleanup_(elf_end_p) Elf *elf = NULL;
	_cleanup_close_ int fd = -1;
	bool go = false, own_go;
	struct elf_ids ids;
	int r, judged;

	(void)at;
	if (type != FTW_F || !S_ISREG(st->st_mode))
		return 0;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return 0;
	path_now = path;
	r = elf_image_open(&img, fd);
	judged = open_by_libelf(&elf, fd);
	if (r < 0 || judged < 0) {
		if (r == 0 || judged == 0)
			differ("opens with %d, libelf with %d", r, judged);
		n.refused++;
		return 0;
	}
	n.files++;
	compare_segments(img, elf);
	compare_sections(img, elf, &go);
	compare_ids(img, elf, &go);
	own_go = elf_image_has(img, ".gopclntab") || elf_image_has(img, ".data.rel.ro.gopclntab") ||
		 (elf_image_ids(img, &ids) == 0 && ids.go[0]);
	if (own_go != go)
		differ("Go program: %d, libelf: %d", own_go, go);
	n.go += go;
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1 && argv[1][0] == '-') {
		printf("usage: header_equality [FOLDER|FILE]...    default: /usr\n");
		return strcmp(argv[1], "--help") == 0 ? 0 : 2;
	}
	elf_version(EV_CURRENT);
	for (int i = 0; i < (argc > 1 ? argc - 1 : 1); i++) {
		const char *path = argc > 1 ? argv[i + 1] : "/usr";

		if (nftw(path, compare, 64, FTW_PHYS) < 0) {
			fprintf(stderr, "%s: %s\n", path, strerror(errno));
			return 2;
		}
	}
	printf("%u files, %u segments, %u sections, %u GNU and %u Go build ids, %u Go programs, %u other "
	       "files: "
	       "%u differences\n",
	       n.files, n.segments, n.sections, n.gnu, n.go_ids, n.go, n.refused, n.differences);
	return n.differences || !n.files;
}
