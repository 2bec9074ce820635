// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/loop.h"

DEFINE_CLEANUP(struct loop *, loop_free)
#define _cleanup_loop_ _cleanup_(loop_free_p)

struct fixture {
	struct loop *loop;
	int fds[2];
	unsigned n_calls;
	struct loop_source *source, *other;
	int result;
	char got;
};

static void fixture_make(struct fixture *f)
{
	cr_assert_eq(loop_new(&f->loop), 0);
	cr_assert_eq(pipe(f->fds), 0);
}

static void fixture_end(struct fixture *f)
{
	loop_free(f->loop);
	close(f->fds[0]);
	close(f->fds[1]);
}

static int read_one(int fd, uint32_t events, void *data)
{
	struct fixture *f = data;

	cr_expect(events & EPOLLIN);
	cr_expect_eq(read(fd, &f->got, 1), 1);
	f->n_calls++;
	if (f->got == '.')
		loop_stop(f->loop);
	return f->result;
}

Test(loop, calls_back_for_each_readable_byte_until_stopped)
{
	struct fixture f = {0};

	fixture_make(&f);
	cr_assert_eq(loop_add_fd(f.loop, f.fds[0], EPOLLIN, read_one, &f, NULL), 0);
	cr_assert_eq(write(f.fds[1], "abc.z", 5), 5);
	cr_assert_eq(loop_run(f.loop), 0);
	cr_assert_eq(f.n_calls, 4);
	/* The loop can be run again. */
	cr_assert_eq(write(f.fds[1], ".", 1), 1);
	cr_assert_eq(loop_run(f.loop), 0);
	cr_assert_eq(f.n_calls, 6);
	fixture_end(&f);
}

Test(loop, ends_with_the_value_of_a_failing_callback)
{
	struct fixture f = {.result = -EXFULL};

	fixture_make(&f);
	cr_assert_eq(loop_add_fd(f.loop, f.fds[0], EPOLLIN, read_one, &f, NULL), 0);
	cr_assert_eq(write(f.fds[1], "ab", 2), 2);
	cr_assert_eq(loop_run(f.loop), -EXFULL);
	cr_assert_eq(f.n_calls, 1);
	fixture_end(&f);
}

static int tick(uint64_t expirations, void *data)
{
	struct fixture *f = data;

	cr_expect_geq(expirations, 1);
	if (++f->n_calls == 3)
		loop_stop(f->loop);
	return 0;
}

Test(loop, timers_repeat_and_fire_no_earlier)
{
	struct fixture f = {0};
	uint64_t start;

	fixture_make(&f);
	start = clock_mono_ns();
	cr_assert_eq(loop_add_timer(f.loop, 2 * NS_PER_MS, NS_PER_MS, tick, &f, NULL), 0);
	cr_assert_eq(loop_run(f.loop), 0);
	cr_assert_eq(f.n_calls, 3);
	cr_assert_geq(clock_mono_ns() - start, 3 * NS_PER_MS); /* late ticks are merged into one */
	fixture_end(&f);
}

static int tick_once(uint64_t expirations, void *data)
{
	struct fixture *f = data;

	cr_expect_eq(expirations, 1);
	f->n_calls++;
	/* The second tick is triggered by hand, then the other timer ends the loop. */
	if (f->n_calls == 1)
		return loop_set_timer(f->source, 0, 0);
	return 0;
}

static int stop(uint64_t expirations, void *data)
{
	(void)expirations;
	loop_stop(((struct fixture *)data)->loop);
	return 0;
}

Test(loop, a_timer_without_period_fires_once_and_can_be_set_again)
{
	struct fixture f = {0};

	fixture_make(&f);
	cr_assert_eq(loop_add_timer(f.loop, 0, 0, tick_once, &f, &f.source), 0);
	cr_assert_eq(loop_add_timer(f.loop, 20 * NS_PER_MS, 0, stop, &f, NULL), 0);
	cr_assert_eq(loop_run(f.loop), 0);
	cr_assert_eq(f.n_calls, 2);
	fixture_end(&f);
}

static int on_signal(int signo, void *data)
{
	struct fixture *f = data;

	f->n_calls++;
	f->got = (char)signo;
	if (signo == SIGTERM)
		loop_stop(f->loop);
	return 0;
}

Test(loop, signals_arrive_in_the_loop)
{
	struct fixture f = {0};
	sigset_t set;

	fixture_make(&f);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGUSR1);
	cr_assert_eq(loop_add_signals(f.loop, &set, on_signal, &f), 0);
	raise(SIGUSR1);
	raise(SIGTERM);
	cr_assert_eq(loop_run(f.loop), 0);
	cr_assert_eq(f.n_calls, 2);
	cr_assert_eq(f.got, SIGTERM);
	fixture_end(&f);
}

/* Both sources are ready in one batch; the first to run removes both, so the other must not run any more. */
static int remove_both(int fd, uint32_t events, void *data)
{
	struct fixture *f = data;

	(void)fd;
	(void)events;
	f->n_calls++;
	loop_remove(f->source);
	loop_remove(f->other);
	loop_remove(f->other);
	return 0;
}

Test(loop, a_source_removed_in_a_callback_is_not_called)
{
	struct fixture f = {0};
	int more[2];

	fixture_make(&f);
	cr_assert_eq(pipe(more), 0);
	cr_assert_eq(loop_add_fd(f.loop, f.fds[0], EPOLLIN, remove_both, &f, &f.source), 0);
	cr_assert_eq(loop_add_fd(f.loop, more[0], EPOLLIN, remove_both, &f, &f.other), 0);
	cr_assert_eq(loop_add_timer(f.loop, 10 * NS_PER_MS, 0, stop, &f, NULL), 0);
	cr_assert_eq(write(f.fds[1], "x", 1), 1);
	cr_assert_eq(write(more[1], "x", 1), 1);
	cr_assert_eq(loop_run(f.loop), 0);
	cr_assert_eq(f.n_calls, 1);
	loop_remove(NULL);
	/* The caller still owns the descriptor and can add it again. */
	cr_assert_eq(loop_add_fd(f.loop, more[0], EPOLLIN, remove_both, &f, &f.other), 0);
	close(more[0]);
	close(more[1]);
	fixture_end(&f);
}

static int write_ready(int fd, uint32_t events, void *data)
{
	struct fixture *f = data;

	(void)fd;
	cr_expect(events & EPOLLOUT);
	f->n_calls++;
	loop_stop(f->loop);
	return 0;
}

Test(loop, the_events_of_a_source_change)
{
	struct fixture f = {0};

	fixture_make(&f);
	cr_assert_eq(loop_add_fd(f.loop, f.fds[1], 0, write_ready, &f, &f.source), 0);
	cr_assert_eq(loop_add_timer(f.loop, NS_PER_MS, 0, stop, &f, NULL), 0);
	cr_assert_eq(loop_run(f.loop), 0);
	cr_assert_eq(f.n_calls, 0);
	cr_assert_eq(loop_set_events(f.source, EPOLLOUT), 0);
	cr_assert_eq(loop_run(f.loop), 0);
	cr_assert_eq(f.n_calls, 1);
	fixture_end(&f);
}

Test(loop, refuses_what_cannot_be_watched)
{
	_cleanup_loop_ struct loop *l = NULL;
	_cleanup_fclose_ FILE *regular = tmpfile();
	struct loop_source *s = NULL;

	cr_assert_eq(loop_new(&l), 0);
	cr_assert_eq(loop_add_fd(l, -1, EPOLLIN, read_one, NULL, &s), -EBADF);
	cr_assert_eq(loop_add_fd(l, fileno(regular), EPOLLIN, read_one, NULL, &s), -EPERM);
	cr_assert_null(s);
	loop_free(NULL);
}

static void count_wakeup(void *data)
{
	struct fixture *f = data;

	f->n_calls++;
}

static int stop_first(uint64_t expirations, void *data)
{
	struct fixture *f = data;

	(void)expirations;
	cr_expect_eq(f->n_calls, 0, "the function comes after the sources");
	loop_stop(f->loop);
	return 0;
}

Test(loop, function_after_each_wakeup)
{
	struct fixture f = {0};

	fixture_make(&f);
	loop_set_after(f.loop, count_wakeup, &f);
	cr_assert_eq(loop_add_timer(f.loop, NS_PER_MS, 0, stop_first, &f, NULL), 0);
	cr_expect_eq(loop_run(f.loop), 0);
	cr_expect_eq(f.n_calls, 1);
	fixture_end(&f);
}
