// SPDX-License-Identifier: Apache-2.0
/*
 * A portable PDB file: the input changes bytes of a sound one (pdb_file.h): u32 offset, u8 value each. The
 * bytes are read as a map from machine code to bytecode, too, in each form.
 */
#include <stdlib.h>

#include "agent/elf/runtime/dotnet_il_map.h"
#include "tests/support/pdb_file.h"

#define CHANGE_BYTES 5u

static struct dotnet_points points;
static struct dotnet_il_map map;

static void require(int condition)
{
	if (!condition)
		abort();
}

static void read_file(struct pdb_file *f)
{
	struct dotnet_pdb *pdb = calloc(1, sizeof *pdb);

	if (!pdb)
		return;
	pdb->file.read = pdb_read;
	pdb->file.data = f;
	if (dotnet_pdb_open(pdb, pdb_id) == 0) {
		for (uint32_t row = 0; row <= PDB_METHODS + 1; row++) {
			if (dotnet_pdb_points(&points, pdb, row) < 0)
				continue;
			require(points.n <= DOTNET_POINTS_MAX &&
				strlen(points.document) < sizeof points.document);
			for (uint32_t i = 1; i < points.n; i++)
				require(points.v[i].il >= points.v[i - 1].il);
		}
	}
	for (unsigned form = 0; form < 4; form++) {
		if (dotnet_il_map_read(&map, &pdb->file, 0, form) < 0)
			continue;
		require(map.n <= DOTNET_IL_PLACES_MAX);
		for (uint32_t i = 1; i < map.n; i++)
			require(map.v[i].native >= map.v[i - 1].native);
	}
	free(pdb);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct pdb_file f;

	pdb_init(&f);
	for (size_t i = 0; i + CHANGE_BYTES <= size; i += CHANGE_BYTES) {
		uint32_t at;

		memcpy(&at, data + i, sizeof at);
		f.bytes[at % PDB_BYTES] = data[i + 4];
	}
	read_file(&f);
	return 0;
}
