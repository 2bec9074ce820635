// SPDX-License-Identifier: Apache-2.0
#ifndef PROFLET_EQUALITY_HELP_H
#define PROFLET_EQUALITY_HELP_H

/* Usage, the list of readelf's differences and what is counted, to standard output. */
void help_print(void);

#endif
