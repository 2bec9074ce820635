// SPDX-License-Identifier: Apache-2.0
/* Captures stderr while a full screen is shown on the same terminal. */
#ifndef PROFLET_STDERR_CAPTURE_H
#define PROFLET_STDERR_CAPTURE_H

struct loop;
struct stderr_capture;

/* If stderr is a terminal, redirects it into bounded memory until stderr_capture_free; else *ret is NULL,
 * which the other functions accept. 0 or -errno. */
int stderr_capture_new(struct stderr_capture **ret, struct loop *loop);
/* Restores stderr and writes what was captured, for when the process stops or ends. */
void stderr_capture_release(struct stderr_capture *m);
/* Redirects it again. */
void stderr_capture_resume(struct stderr_capture *m);
void stderr_capture_free(struct stderr_capture *m);
/* The last captured line, NULL: none. Borrowed until the loop runs. */
const char *stderr_capture_last(const struct stderr_capture *m);

#endif
