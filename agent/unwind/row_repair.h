// SPDX-License-Identifier: Apache-2.0
/*
 * Corrects rows of an unwind table whose call-frame information is wrong, where the machine code proves it.
 * Used by the job that builds a table (build.c).
 */
#ifndef PROFLET_UNWIND_ROW_REPAIR_H
#define PROFLET_UNWIND_ROW_REPAIR_H

struct elf_image;
struct elf_rows;

/* Corrects *rows in place, and may add rows and rules. 0, or -ENOMEM: the rows are unchanged. */
int unwind_rows_repair(struct elf_rows *rows, struct elf_image *img);

#endif
