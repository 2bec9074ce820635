// SPDX-License-Identifier: Apache-2.0
/*
 * A program that makes its hot code itself, and lists it in a jitdump file, /tmp/jit-<pid>.dump, as the
 * runtimes of languages do. usage: jitdump [SECONDS], default 30. x86-64.
 *
 * Pairs "outer_N" → "leaf_N" are made one after another while it runs; the last four of them get all the
 * time. The address of each had another name first, and each leaf was made elsewhere and moved: who mistakes
 * the order, or leaves out what was moved, gives names that begin with "stale_". Frames have frame pointers.
 */
#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define CODE_BYTES (1u << 20)
#define SLOT_BYTES 64u
#define LIVE 4u

struct code {
	uint8_t bytes[SLOT_BYTES];
	uint64_t size;
};

static int dump_fd;
static uint64_t n_made;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void put(const void *bytes, size_t n)
{
	if (write(dump_fd, bytes, n) != (ssize_t)n)
		exit(1);
}

static void dump_open(void)
{
	const struct {
		uint32_t magic, version, bytes, machine, pad, pid;
		uint64_t time, flags;
	} header = {0x4a695444, 1, sizeof header, EM_X86_64, 0, (uint32_t)getpid(), now_ns(), 0};
	char path[64];

	snprintf(path, sizeof path, "/tmp/jit-%d.dump", getpid());
	dump_fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
	if (dump_fd < 0)
		exit(1);
	put(&header, sizeof header);
	/* the mark by which profilers find it */
	if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, dump_fd, 0) == MAP_FAILED)
		exit(1);
}

static void dump_load(const void *at, const struct code *c, const char *name)
{
	const struct {
		uint32_t id, bytes;
		uint64_t time;
		uint32_t pid, tid;
		uint64_t vma, address, size, index;
	} record = {0,
		    (uint32_t)(sizeof record + strlen(name) + 1 + c->size),
		    now_ns(),
		    (uint32_t)getpid(),
		    (uint32_t)getpid(),
		    (uintptr_t)at,
		    (uintptr_t)at,
		    c->size,
		    ++n_made};

	put(&record, sizeof record);
	put(name, strlen(name) + 1);
	put(c->bytes, c->size);
}

static void dump_move(const void *from, const void *to, uint64_t size)
{
	const struct {
		uint32_t id, bytes;
		uint64_t time;
		uint32_t pid, tid;
		uint64_t vma, old_address, new_address, size, index;
	} record = {1,
		    sizeof record,
		    now_ns(),
		    (uint32_t)getpid(),
		    (uint32_t)getpid(),
		    (uintptr_t)to,
		    (uintptr_t)from,
		    (uintptr_t)to,
		    size,
		    n_made};

	put(&record, sizeof record);
}

static void emit(struct code *c, const void *bytes, size_t n)
{
	memcpy(c->bytes + c->size, bytes, n);
	c->size += n;
}

static const uint8_t prologue[] = {0x55, 0x48, 0x89, 0xe5}; /* push %rbp; mov %rsp,%rbp */
static const uint8_t epilogue[] = {0x5d, 0xc3};		    /* pop %rbp; ret */

/* mov $n,%eax; 1: dec %eax; jnz 1b */
static struct code make_leaf(uint32_t n)
{
	static const uint8_t mov = 0xb8, loop[] = {0xff, 0xc8, 0x75, 0xfc};
	struct code c = {.size = 0};

	emit(&c, prologue, sizeof prologue);
	emit(&c, &mov, 1);
	emit(&c, &n, sizeof n);
	emit(&c, loop, sizeof loop);
	emit(&c, epilogue, sizeof epilogue);
	return c;
}

/* movabs $callee,%rax; call *%rax */
static struct code make_outer(const void *callee)
{
	static const uint8_t mov[] = {0x48, 0xb8}, call[] = {0xff, 0xd0};
	uint64_t target = (uintptr_t)callee;
	struct code c = {.size = 0};

	emit(&c, prologue, sizeof prologue);
	emit(&c, mov, sizeof mov);
	emit(&c, &target, sizeof target);
	emit(&c, call, sizeof call);
	emit(&c, epilogue, sizeof epilogue);
	return c;
}

/* Makes pair `n` in the slots from `at` on; returns its outer function. */
static void *make_pair(uint8_t *at, unsigned n)
{
	uint8_t *elsewhere = at, *leaf = at + SLOT_BYTES, *outer = at + 2 * SLOT_BYTES;
	struct code c = make_leaf(200000);
	char name[32];

	snprintf(name, sizeof name, "stale_%u", n);
	dump_load(leaf, &c, name);
	dump_load(outer, &c, name);
	snprintf(name, sizeof name, "leaf_%u", n);
	memcpy(elsewhere, c.bytes, c.size);
	dump_load(elsewhere, &c, name);
	memcpy(leaf, elsewhere, c.size);
	dump_move(elsewhere, leaf, c.size);
	c = make_outer(leaf);
	memcpy(outer, c.bytes, c.size);
	snprintf(name, sizeof name, "outer_%u", n);
	dump_load(outer, &c, name);
	return outer;
}

int main(int argc, char **argv)
{
	uint64_t end = now_ns() + (argc > 1 ? strtoull(argv[1], NULL, 10) : 30) * 1000000000u, next = 0;
	uint8_t *code = mmap(NULL, CODE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *live[LIVE] = {NULL};
	unsigned n = 0;

	if (code == MAP_FAILED)
		return 1;
	dump_open();
	for (uint64_t now; (now = now_ns()) < end;) {
		if (now >= next && (n + 1) * 3 * SLOT_BYTES <= CODE_BYTES) {
			live[n % LIVE] = make_pair(code + n * 3 * SLOT_BYTES, n);
			n++;
			next = now + 100000000u;
		}
		for (unsigned i = 0; i < LIVE; i++)
			if (live[i])
				((void (*)(void))live[i])();
	}
	return 0;
}
