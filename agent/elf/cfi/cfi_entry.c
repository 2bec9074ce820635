// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/cfi/cfi_entry.h"

#include <elf.h>

#include "agent/elf/cfi/dwarf_numbers.h"

#define LENGTH_64 0xffffffffu /* the length follows in 8 bytes */
#define LENGTH_RESERVED 0xfffffff0u
#define AUGMENTATION_MAX 32 /* bytes of the string with its NUL; real ones have at most 6 */

/* Skips to the next multiple of 8 in the address space: DW_EH_PE_aligned pads an absolute pointer. */
static void align_pointer(struct cursor *c, const struct cfi_bases *bases)
{
	uint64_t address = bases->section + (uint64_t)(c->pos - bases->bytes);

	cursor_take(c, -address & 7);
}

static bool pointer_base(const struct cfi_bases *bases, uint8_t encoding, uint64_t field, uint64_t *ret)
{
	switch (encoding & DW_EH_PE_BASE) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_aligned:
		*ret = 0;
		return true;
	case DW_EH_PE_pcrel:
		*ret = field;
		return true;
	case DW_EH_PE_textrel:
		*ret = bases->text;
		return bases->has_text;
	case DW_EH_PE_datarel:
		*ret = bases->data;
		return bases->has_data;
	case DW_EH_PE_funcrel:
		*ret = bases->func;
		return bases->has_func;
	default:
		return false;
	}
}

static bool pointer_value(struct cursor *c, uint8_t format, uint64_t *ret)
{
	switch (format) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_signed:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		*ret = cursor_u64(c);
		break;
	case DW_EH_PE_uleb128:
		*ret = cursor_uleb(c);
		break;
	case DW_EH_PE_sleb128:
		*ret = (uint64_t)cursor_sleb(c);
		break;
	case DW_EH_PE_udata2:
		*ret = cursor_u16(c);
		break;
	case DW_EH_PE_sdata2:
		*ret = (uint64_t)(int64_t)(int16_t)cursor_u16(c);
		break;
	case DW_EH_PE_udata4:
		*ret = cursor_u32(c);
		break;
	case DW_EH_PE_sdata4:
		*ret = (uint64_t)(int64_t)(int32_t)cursor_u32(c);
		break;
	default:
		return false;
	}
	return !c->bad;
}

bool entry_pointer(struct cursor *c, uint8_t encoding, const struct cfi_bases *bases, uint64_t *ret)
{
	uint64_t base, value;

	if (encoding & DW_EH_PE_indirect) /* the bit is also set in DW_EH_PE_omit */
		return false;
	if ((encoding & DW_EH_PE_BASE) == DW_EH_PE_aligned)
		align_pointer(c, bases);
	uint64_t field = bases->section + (uint64_t)(c->pos - bases->bytes);
	if (!pointer_base(bases, encoding, field, &base) ||
	    !pointer_value(c, encoding & DW_EH_PE_FORMAT, &value))
		return false;
	*ret = base + value;
	return true;
}

/* Reads an entry in the form that all compilers write: in .eh_frame, with a 32-bit length. */
static bool usual_next(const struct cfi_section *s, uint64_t *offset, struct cfi_entry *ret)
{
	struct usual_entry_head {
		uint32_t length, id;
	} head;
	const uint64_t start = *offset, id_at = start + sizeof(head.length);

	if (s->debug || start > s->len || s->len - start < sizeof(head))
		return false;
	memcpy(&head, s->bytes + start, sizeof(head));
	if (head.length < sizeof(head.id) || head.length >= LENGTH_RESERVED || head.length > s->len - id_at)
		return false;
	*offset = id_at + head.length;
	ret->offset = start;
	ret->body = cursor_of(s->bytes + start + sizeof(head), head.length - sizeof(head.id));
	ret->is_cie = head.id == 0;
	ret->cie = id_at - head.id;
	return true;
}

int entry_next(const struct cfi_section *s, uint64_t *offset, struct cfi_entry *ret)
{
	if (usual_next(s, offset, ret))
		return 1;
	struct cursor c = cursor_of(s->bytes, s->len);
	uint64_t length = 0, start = *offset;
	bool dwarf64 = false;

	cursor_take(&c, start);
	/* a zero length is the terminator, or the linker left it between the sections of two objects */
	while (cursor_left(&c) >= sizeof(uint32_t) && (length = cursor_u32(&c)) == 0 && !s->until_zero)
		start += sizeof(uint32_t);
	if (length == 0) {
		*offset = s->len;
		return 0;
	}
	ret->offset = *offset = start;
	if (length == LENGTH_64) {
		length = cursor_u64(&c);
		dwarf64 = true;
	} else if (length >= LENGTH_RESERVED) {
		return -1;
	}
	const uint8_t *body = cursor_take(&c, length);
	if (c.bad)
		return -1;
	*offset = (uint64_t)(c.pos - s->bytes);
	ret->body = cursor_of(body, length);
	/* in .eh_frame the id has 4 bytes, even after a 64-bit length */
	dwarf64 = dwarf64 && s->debug;
	uint64_t id = dwarf64 ? cursor_u64(&ret->body) : cursor_u32(&ret->body);
	if (s->debug) {
		ret->is_cie = !ret->body.bad && id == (dwarf64 ? UINT64_MAX : UINT32_MAX);
		ret->cie = id;
	} else {
		ret->is_cie = !ret->body.bad && id == 0;
		ret->cie = (uint64_t)(body - s->bytes) - id;
	}
	return 1;
}

/*
 * Parses the letters behind 'z' and their data. At an unknown letter, parsing ends and the remaining data is
 * skipped.
 */
static const char *cie_augmentation(const struct cfi_section *s, struct cfi_cie *cie, struct cursor *data,
				    const char *letters)
{
	uint64_t personality;

	for (; *letters; letters++) {
		uint8_t encoding;

		switch (*letters) {
		case 'R':
			cie->fde_encoding = cursor_u8(data);
			break;
		case 'L':
			cie->lsda_encoding = cursor_u8(data);
			break;
		case 'P':
			encoding = cursor_u8(data);
			if (encoding != DW_EH_PE_omit &&
			    !entry_pointer(data, encoding & ~DW_EH_PE_indirect, &s->bases, &personality))
				return "personality pointer in the CIE cannot be read";
			break;
		case 'S':
			cie->signal = true;
			break;
		case 'B': /* aarch64: return addresses are signed with the B key */
		case 'G': /* aarch64: the frame is tagged (MTE) */
			break;
		default:
			return "unknown augmentation of the CIE";
		}
	}
	return data->bad ? "augmentation data of the CIE is truncated" : NULL;
}

static const char *parse_augmentation(const struct cfi_section *s, struct cfi_cie *cie, struct cursor *c,
				      const char *letters)
{
	if (letters[0] != 'z') /* without 'z', only letters without data can be parsed */
		return strspn(letters, "SBG") == strlen(letters) ? cie_augmentation(s, cie, c, letters)
								 : "unknown augmentation of the CIE";
	uint64_t len = cursor_uleb(c);
	const uint8_t *bytes = cursor_take(c, len);
	if (c->bad)
		return "augmentation data of the CIE is truncated";
	struct cursor data = cursor_of(bytes, len);
	cie->sized_augmentation = true;
	return cie_augmentation(s, cie, &data, letters + 1);
}

static const char *parse_cie(const struct cfi_section *s, struct cursor *c, struct cfi_cie *cie)
{
	uint8_t version = cursor_u8(c);
	const char *augmentation = (const char *)c->pos;
	size_t left = cursor_left(c);
	const uint8_t *nul = memchr(c->pos, 0, left < AUGMENTATION_MAX ? left : AUGMENTATION_MAX);

	if (version != 1 && version != 3 && version != 4)
		return "unknown version of the CIE";
	if (!nul)
		return "augmentation string of the CIE is not terminated";
	c->pos = nul + 1;
	if (version == 4 && cursor_u8(c) != sizeof(uint64_t))
		return "address size of the CIE is not 8";
	if (version == 4 && cursor_u8(c) != 0)
		return "CIE uses segment selectors";
	if (strncmp(augmentation, "eh", 2) ==
	    0) { /* GCC 2: a pointer to exception data, no augmentation length */
		cursor_u64(c);
		augmentation += 2;
	}
	cie->code_align = cursor_uleb(c);
	cie->data_align = cursor_sleb(c);
	cie->ra_reg = version == 1 ? cursor_u8(c) : cursor_uleb(c);
	cie->usual = cie->code_align <= UINT8_MAX && cie->data_align >= INT8_MIN && cie->data_align <= 0 &&
		     s->arch && cie->ra_reg == s->arch->ra;
	if (c->bad)
		return "CIE is truncated";
	const char *error = parse_augmentation(s, cie, c, augmentation);
	cie->program = *c;
	return error;
}

void entry_cie(const struct cfi_section *s, uint64_t offset, struct cfi_cie *ret)
{
	struct cfi_section here = *s;
	struct cfi_entry entry;
	uint64_t at = offset;

	*ret = (struct cfi_cie){.fde_encoding = DW_EH_PE_absptr, .lsda_encoding = DW_EH_PE_omit};
	here.until_zero = true; /* an entry at `offset` must be the CIE; do not skip zero lengths */
	if (offset >= s->len || entry_next(&here, &at, &entry) != 1 || !entry.is_cie || entry.body.bad)
		ret->error = "no CIE where the CIE pointer points";
	else
		ret->error = parse_cie(s, &entry.body, ret);
}

/*
 * Reads an FDE in the form that all linkers write: 32-bit relative address, 32-bit length, one byte for the
 * length of the augmentation data.
 */
static bool usual_fde(const struct cfi_section *s, const struct cfi_cie *cie, const struct cursor *body,
		      struct cfi_fde *ret)
{
	size_t left = cursor_left(body);
	struct usual_fde_head {
		int32_t start;
		uint32_t len;
	} head;

	if (cie->fde_encoding != (DW_EH_PE_pcrel | DW_EH_PE_sdata4) || !cie->sized_augmentation ||
	    left <= sizeof(head))
		return false;
	memcpy(&head, body->pos, sizeof(head));
	size_t augmentation = body->pos[sizeof(head)], skip = sizeof(head) + 1 + augmentation;
	if (augmentation >= 0x80 || skip > left)
		return false;
	ret->start =
		s->bases.section + (uint64_t)(body->pos - s->bases.bytes) + (uint64_t)(int64_t)head.start;
	ret->end = ret->start + head.len;
	ret->program = cursor_of(body->pos + skip, left - skip);
	return ret->end >= ret->start;
}

const char *entry_fde(const struct cfi_section *s, const struct cfi_cie *cie, const struct cfi_entry *entry,
		      struct cfi_fde *ret)
{
	uint64_t start, len;

	if (usual_fde(s, cie, &entry->body, ret))
		return NULL;
	struct cursor c = entry->body;
	if (!entry_pointer(&c, cie->fde_encoding, &s->bases, &start))
		return c.bad ? "FDE is truncated" : "pointer encoding of the FDE is not supported";
	/* the length has the format of the start, but neither base nor alignment */
	if (!pointer_value(&c, cie->fde_encoding & 0x07, &len))
		return "FDE is truncated";
	if (start + len < start)
		return "range of the FDE wraps around";
	if (cie->sized_augmentation)
		cursor_take(&c, cursor_uleb(&c));
	if (c.bad)
		return "FDE is truncated";
	*ret = (struct cfi_fde){.start = start, .end = start + len, .program = c};
	return NULL;
}
