// SPDX-License-Identifier: Apache-2.0
#include "otlp/wait.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>

#include "agent/base/clock.h"

int otlp_wait_fd(int fd, short events, uint64_t deadline_mono_ns, int cancel_fd)
{
	for (;;) {
		struct pollfd fds[2] = {{.fd = fd, .events = events}, {.fd = cancel_fd, .events = POLLIN}};
		uint64_t now = clock_mono_ns(), left = deadline_mono_ns > now ? deadline_mono_ns - now : 0;
		struct timespec timeout = {(time_t)(left / NS_PER_SEC), (long)(left % NS_PER_SEC)};
		int n = ppoll(fds, 2, &timeout, NULL);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0 && fds[1].revents)
			return -ECANCELED;
		if (!left) /* even if the descriptor is ready: a peer that always sends has no more time */
			return -ETIMEDOUT;
		if (n > 0 && fds[0].revents)
			return 0;
	}
}
