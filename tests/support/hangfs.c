// SPDX-License-Identifier: Apache-2.0
/*
 * A file system that stops answering: hangfs DIR FILE [reads] mounts one on DIR that has FILE's content under
 * the name "file", by speaking FUSE's protocol (linux/fuse.h) itself. SIGUSR1: requests are still read and
 * never answered, so that even a signal does not end who waits. SIGUSR2: what was held is answered, and all
 * after. SIGTERM: it is unmounted, whoever waits gets an error. `reads`: only what reads beyond the first
 * page is held. Prints "ready", and "held OPCODE PID" for each.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_NODE 2u
#define REQUEST_MAX (1u << 20)
#define HELD_MAX 256

static volatile sig_atomic_t silent, ended, wake;
static int dev_fd, file_fd, reads_only;
static struct stat file_st;
static char *held[HELD_MAX];
static unsigned n_held;

static void on_signal(int number)
{
	silent = number == SIGUSR1 ? 1 : number == SIGUSR2 ? 0 : silent;
	wake = number == SIGUSR2;
	ended |= number == SIGTERM || number == SIGINT;
}

static void reply(const struct fuse_in_header *in, int error, const void *data, size_t len)
{
	char *out = malloc(sizeof(struct fuse_out_header) + len);
	struct fuse_out_header h = {
		.len = (unsigned)(sizeof h + (error ? 0 : len)), .error = error, .unique = in->unique};

	memcpy(out, &h, sizeof h);
	if (len)
		memcpy(out + sizeof h, data, len);
	if (write(dev_fd, out, h.len) < 0 && errno != ENOENT)
		perror("hangfs: write");
	free(out);
}

/* The kernel caches no attribute: each read of one is a request to this server. */
static void attr_of(uint64_t node, struct fuse_attr *a)
{
	*a = (struct fuse_attr){.ino = node, .mode = S_IFDIR | 0755, .nlink = 1, .blksize = 4096};
	if (node != FILE_NODE)
		return;
	a->mode = S_IFREG | 0777;
	a->size = (uint64_t)file_st.st_size;
	a->mtime = (uint64_t)file_st.st_mtim.tv_sec;
}

static void do_read(const struct fuse_in_header *in, const struct fuse_read_in *r)
{
	char *bytes = malloc(r->size);
	ssize_t n = pread(file_fd, bytes, r->size, (off_t)r->offset);

	reply(in, n < 0 ? -EIO : 0, bytes, n < 0 ? 0 : (size_t)n);
	free(bytes);
}

static void do_init(const struct fuse_in_header *in, const struct fuse_init_in *i)
{
	struct fuse_init_out out = {.major = FUSE_KERNEL_VERSION,
				    .minor = FUSE_KERNEL_MINOR_VERSION,
				    .max_readahead = reads_only ? 0 : i->max_readahead,
				    .flags = FUSE_ASYNC_READ,
				    .max_write = 1u << 17,
				    .time_gran = 1};

	reply(in, 0, &out, sizeof out);
}

static void do_lookup(const struct fuse_in_header *in, const char *name)
{
	struct fuse_entry_out out = {.nodeid = FILE_NODE};

	attr_of(FILE_NODE, &out.attr);
	reply(in, in->nodeid == FUSE_ROOT_ID && strcmp(name, "file") == 0 ? 0 : -ENOENT, &out, sizeof out);
}

static void answer(const char *request)
{
	const struct fuse_in_header *in = (const void *)request;
	struct fuse_write_out written = {.size = ((const struct fuse_write_in *)(in + 1))->size};
	struct fuse_open_out opened = {.open_flags = FOPEN_KEEP_CACHE};
	struct fuse_attr_out attr = {0};
	struct fuse_statfs_out fs = {.st = {.bsize = 4096, .namelen = 255, .frsize = 4096}};

	switch (in->opcode) {
	case FUSE_INIT:
		do_init(in, (const void *)(in + 1));
		return;
	case FUSE_LOOKUP:
		do_lookup(in, (const char *)(in + 1));
		return;
	case FUSE_GETATTR:
	case FUSE_SETATTR:
		attr_of(in->nodeid, &attr.attr);
		reply(in, 0, &attr, sizeof attr);
		return;
	case FUSE_OPEN:
	case FUSE_OPENDIR:
		reply(in, 0, &opened, sizeof opened);
		return;
	case FUSE_READ:
		do_read(in, (const void *)(in + 1));
		return;
	case FUSE_WRITE:
		reply(in, 0, &written, sizeof written);
		return;
	case FUSE_STATFS:
		reply(in, 0, &fs, sizeof fs);
		return;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		return; /* have no answer */
	case FUSE_FLUSH:
	case FUSE_RELEASE:
	case FUSE_RELEASEDIR:
	case FUSE_READDIR:
	case FUSE_ACCESS:
		reply(in, 0, NULL, 0);
		return;
	default:
		reply(in, -ENOSYS, NULL, 0);
	}
}

static int is_held(const char *request)
{
	const struct fuse_in_header *in = (const void *)request;
	const struct fuse_read_in *r = (const void *)(in + 1);

	if (!reads_only)
		return silent;
	return silent && in->opcode == FUSE_READ && r->offset > 0 &&
	       r->offset + 8192 < (uint64_t)file_st.st_size;
}

static void hold(char *request)
{
	const struct fuse_in_header *in = (const void *)request;

	if (in->opcode == FUSE_FORGET || in->opcode == FUSE_BATCH_FORGET || in->opcode == FUSE_INTERRUPT ||
	    n_held == HELD_MAX) {
		free(request);
		return;
	}
	printf("held %u %u\n", in->opcode, in->pid);
	held[n_held++] = request;
}

static void release(void)
{
	wake = 0;
	for (unsigned i = 0; i < n_held; i++) {
		answer(held[i]);
		free(held[i]);
	}
	n_held = 0;
}

static int serve(void)
{
	while (!ended) {
		char *request = malloc(REQUEST_MAX);
		ssize_t n = read(dev_fd, request, REQUEST_MAX);

		if (wake)
			release();
		if (n < 0) {
			free(request);
			if (errno == EINTR || errno == ENOENT || errno == EAGAIN)
				continue;
			return errno == ENODEV ? 0 : -errno; /* ENODEV: unmounted */
		}
		if (is_held(request)) {
			hold(request);
			continue;
		}
		answer(request);
		free(request);
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = on_signal}; /* without SA_RESTART: read(2) ends */
	char options[128];
	int r;

	if (argc < 3)
		return 2;
	reads_only = argc > 3 && strcmp(argv[3], "reads") == 0;
	setvbuf(stdout, NULL, _IOLBF, 0);
	dev_fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	file_fd = open(argv[2], O_RDONLY | O_CLOEXEC);
	if (dev_fd < 0 || file_fd < 0 || fstat(file_fd, &file_st) < 0) {
		perror("hangfs");
		return 1;
	}
	snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", dev_fd);
	if (mount("hangfs", argv[1], "fuse.hangfs", MS_NODEV, options) < 0) {
		perror("hangfs: mount");
		return 1;
	}
	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGUSR2, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	puts("ready");
	r = serve();
	close(dev_fd); /* whoever waits gets ENOTCONN */
	umount2(argv[1], MNT_DETACH);
	return r < 0;
}
