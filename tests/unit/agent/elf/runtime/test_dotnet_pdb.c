// SPDX-License-Identifier: Apache-2.0
/* Lines of methods in a portable PDB file (pdb_file.h). */
#include "agent/elf/runtime/dotnet_pdb.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "tests/support/pdb_file.h"

/* Opens the file anew. */
static int open_file(struct dotnet_pdb *pdb, struct pdb_file *f)
{
	memset(pdb, 0, sizeof *pdb);
	pdb->file.read = pdb_read;
	pdb->file.data = f;
	return dotnet_pdb_open(pdb, pdb_id);
}

static struct pdb_file file;
static struct dotnet_pdb pdb;
static struct dotnet_points points;

static void init(void)
{
	pdb_init(&file);
}

TestSuite(dotnet_pdb, .init = init);

Test(dotnet_pdb, lines_of_a_method)
{
	static const struct dotnet_point wanted[] = {{0, 10}, {4, 12}, {9, 11}, {11, 0}};

	cr_assert_eq(open_file(&pdb, &file), 0);
	cr_assert_eq(dotnet_pdb_points(&points, &pdb, 2), 0);
	cr_expect_str_eq(points.document, "/src/Main.cs");
	cr_assert_eq(points.n, ARRAY_SIZE(wanted), "%u", points.n);
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		cr_expect_eq(points.v[i].il, wanted[i].il, "%zu: %u", i, points.v[i].il);
		cr_expect_eq(points.v[i].line, wanted[i].line, "%zu: %u", i, points.v[i].line);
	}
}

Test(dotnet_pdb, methods_without_lines_and_with_their_own_document)
{
	cr_assert_eq(open_file(&pdb, &file), 0);
	cr_assert_eq(dotnet_pdb_points(&points, &pdb, 1), 0);
	cr_expect_eq(points.n, 0);
	cr_assert_eq(dotnet_pdb_points(&points, &pdb, 3), 0);
	cr_assert_eq(points.n, 1);
	cr_expect_eq(points.v[0].line, 3);
	cr_expect_eq(strlen(points.document), VM_TEXT_MAX - 1); /* the end of a long path */
	cr_expect_str_eq(points.document + VM_TEXT_MAX - 1 - strlen("xx\\Main.cs"), "xx\\Main.cs");
	cr_expect_eq(dotnet_pdb_points(&points, &pdb, PDB_METHODS), 0);
	cr_expect_eq(dotnet_pdb_points(&points, &pdb, 0), -ENOTSUP);
	cr_expect_eq(dotnet_pdb_points(&points, &pdb, PDB_METHODS + 1), -ENOTSUP);
}

Test(dotnet_pdb, file_of_another_assembly)
{
	file.bytes[0x100 + DOTNET_PDB_ID_BYTES - 1] ^= 1;
	cr_expect_eq(open_file(&pdb, &file), -ESTALE);
}

struct damage {
	uint32_t at;
	uint8_t value;
	int opened; /* of opening it; 0: of reading method 2 */
};

Test(dotnet_pdb, damaged_files_are_refused)
{
	static const struct damage cases[] = {
		{0, 'x', -ENOTSUP},		  /* signature */
		{0x23, 0x7f, -ENOTSUP},		  /* the first stream is nowhere */
		{0x148, 1, -ENOTSUP},		  /* a table of assemblies */
		{0x140 + 24 + 7, 0x7f, -ENOTSUP}, /* rows without end */
		{0x140 + 24 + 5, 1, -ENOTSUP},	  /* more methods than there is room for */
		{0x140 + 32 + 16 + 7, 0xff, 0},	  /* the lines are outside of the blobs */
		{0x140 + 32 + 16 + 4, 9, 0},	  /* no such document */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int r;

		pdb_init(&file);
		file.bytes[cases[i].at] = cases[i].value;
		r = open_file(&pdb, &file);
		cr_expect_eq(r, cases[i].opened, "%zu: %d", i, r);
		if (cases[i].opened)
			continue;
		cr_expect_eq(dotnet_pdb_points(&points, &pdb, 2), -ENOTSUP, "%zu", i);
		cr_expect_eq(points.n, 0, "%zu", i);
	}
}

Test(dotnet_pdb, lines_that_are_cut)
{
	const uint8_t *at = memmem(file.bytes + 0x400, 0x800, pdb_points, sizeof pdb_points);

	cr_assert_not_null(at);
	for (uint8_t n = 1; n < sizeof pdb_points; n++) {
		file.bytes[at - file.bytes - 1] = n;
		cr_assert_eq(open_file(&pdb, &file), 0);
		(void)dotnet_pdb_points(&points, &pdb, 2);
		cr_expect_leq(points.n, 4, "%u", n);
	}
}
