// SPDX-License-Identifier: Apache-2.0
/* stderr, put aside while a screen is shown on the same terminal. Rank 3. */
#ifndef PROFLET_TERMINAL_MESSAGES_H
#define PROFLET_TERMINAL_MESSAGES_H

struct loop;
struct messages;

/* Where stderr is a terminal: it goes into memory, in bounds, until messages_free. 0 or -errno. */
int messages_new(struct messages **ret, struct loop *loop);
/* Gives stderr back and writes there what came, if the process stops or ends. */
void messages_release(struct messages *m);
/* Puts it aside again. */
void messages_resume(struct messages *m);
void messages_free(struct messages *m);
/* The last line, NULL: none. Borrowed until the loop goes on. */
const char *messages_last(const struct messages *m);

#endif
