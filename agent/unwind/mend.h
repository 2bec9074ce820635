// SPDX-License-Identifier: Apache-2.0
/* Corrects rows of which the code itself shows that the call-frame information is wrong. Inside unwind/ only.
 */
#ifndef PROFLET_UNWIND_MEND_H
#define PROFLET_UNWIND_MEND_H

struct elf_image;
struct elf_rows;

/* Changes *rows in place, which may grow. 0, -ENOMEM (the rows are as they were). */
int unwind_rows_mend(struct elf_rows *rows, struct elf_image *img);

#endif
