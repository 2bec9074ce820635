// SPDX-License-Identifier: Apache-2.0
/*
 * Stacks that end, or look as if they had to: endings CASE [SECONDS]. Each case spins in `spin`, or in code
 * of its own, under a frame whose call-frame information (written by hand) or memory is what the case is
 * about. main is compiled without frame pointer; the cases' own rbp is 1, so that no frame pointer leads on.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static time_t end;
static volatile int stays;

/* Called now and then by the cases that come back here. */
__attribute__((noinline)) void spin(void)
{
	while (time(NULL) < end)
		for (volatile int i = 0; i < 100000; i++)
			;
	if (!stays)
		_exit(0);
}

/* A function whose frame is described by hand; after the prologue, CFA is rbx + 16. */
#define WITH_RBX(name, cfa, prologue)                                                               \
	__asm__(".text\n.globl " #name "\n.type " #name ", @function\n" #name ":\n.cfi_startproc\n" \
		"push %rbx\n.cfi_adjust_cfa_offset 8\n.cfi_offset rbx, -16\n"                       \
		"mov %rsp, %rbx\n" prologue cfa "\nsub $64, %rsp\nand $-64, %rsp\n"                 \
		"call saves_rbx\nud2\n.cfi_endproc\n.size " #name ", . - " #name "\n");             \
	void name(void)

/* Calls spin, and has the caller's rbx on its stack meanwhile. */
__asm__(".text\n.type saves_rbx, @function\nsaves_rbx:\n.cfi_startproc\n"
	"push %rbp\n.cfi_adjust_cfa_offset 8\n.cfi_offset rbp, -16\n"
	"push %rbx\n.cfi_adjust_cfa_offset 8\n.cfi_offset rbx, -24\n"
	"sub $136, %rsp\n.cfi_adjust_cfa_offset 136\n"
	"mov $1, %ebx\nmov $1, %ebp\n"
	"call spin\nud2\n.cfi_endproc\n.size saves_rbx, . - saves_rbx\n");

/* rbx + 16, in a frame that is not the innermost */
WITH_RBX(base_register, ".cfi_def_cfa rbx, 16", "");
/* (rbx ^ 85 ^ 85) + (5 > 3 ? 16 : 0), with a branch: DW_OP_breg3 0, const1u 85, xor, const1u 85, xor, lit5,
 * lit3, gt, bra +4, lit0, skip +1, lit16, plus */
WITH_RBX(expression,
	 ".cfi_escape 0x0f, 20, 0x73, 0, 0x08, 85, 0x27, 0x08, 85, 0x27, 0x35, 0x33, 0x2b, 0x28, 4, 0, 0x30, "
	 "0x2f, 1, 0, 0x40, 0x22",
	 "");
/* *(rbx), where rbx leads into the data segment: dup and drop, so that no shape fits */
uint64_t cfa_in_data;
WITH_RBX(in_data, ".cfi_escape 0x0f, 5, 0x73, 0, 0x06, 0x12, 0x13",
	 "lea 16(%rsp), %rax\nlea cfa_in_data(%rip), %rbx\nmov %rax, (%rbx)\n");

/* Spins where it stands, for ever: the parent ends it. */
#define SPINS(name, cfi, code)                                                                             \
	__asm__(".text\n.globl " #name "\n.type " #name ", @function\n" #name                              \
		":\n.cfi_startproc\nmov $1, %ebp\n" code cfi "\n1: jmp 1b\n.skip 64, 0x90\n.cfi_endproc\n" \
		".size " #name ", . - " #name "\n");                                                       \
	void name(void)

SPINS(bad_cfa, ".cfi_def_cfa rsp, -64", "");
SPINS(read_fault, ".cfi_def_cfa rbp, 16", "lea 0x10000000(%rsp), %rbp\nand $-16, %rbp\n");
SPINS(no_mapping, ".cfi_def_cfa rsp, 8", "push $0x1230\n");
/* no call-frame information, in a file that has some; nor do its instructions say how large its frame is */
__asm__(".text\n.globl no_row\n.type no_row, @function\n.skip 64, 0x90\nno_row:\nmov $1, %ebp\nmov $64, "
	"%eax\n"
	"sub %rax, %rsp\n1: jmp 1b\n.skip 64, 0x90\n.size no_row, . - no_row\n");
void no_row(void);

/* Code in memory without a file, and without frame pointer. */
static void no_table(void)
{
	static const uint8_t code[] = {0xbd, 1, 0, 0, 0, 0xeb, 0xfe}; /* mov $1, %ebp; 1: jmp 1b */
	void *mem = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (mem == MAP_FAILED)
		_exit(1);
	memcpy(mem, code, sizeof code);
	if (mprotect(mem, 4096, PROT_READ | PROT_EXEC) < 0)
		_exit(1);
	((void (*)(void))mem)();
}

__attribute__((noipa)) static int recurse(int n)
{
	if (n > 0)
		return recurse(n - 1) + stays;
	spin();
	return 0;
}

/* Complete without the frames in the middle. */
static void recursion(void)
{
	recurse(2000);
}

/* More frames than are walked for a sample, on any machine. */
static void depth_limit(void)
{
	recurse(200000);
}

/* Children that do nothing but exit, with much memory to give back. */
static void exiting(void)
{
	size_t len = 256u << 20;
	char *mem = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (size_t i = 0; mem != MAP_FAILED && i < len; i += 4096)
		mem[i] = 1;
	while (time(NULL) < end) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(0);
		if (pid < 0 || waitpid(pid, NULL, 0) < 0)
			_exit(1);
	}
}

/* So many executable mappings that their list finds no room. */
/* Each page of its own executable stands alone: no two entries of the list can be one. */
static void no_process(void)
{
	size_t pages = 40000;
	int fd = open("/proc/self/exe", O_RDONLY);
	char *mem = mmap(NULL, pages * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (mem == MAP_FAILED || fd < 0)
		_exit(1);
	for (size_t i = 0; i < pages; i += 2)
		if (mmap(mem + i * 4096, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 4096) ==
		    MAP_FAILED)
			_exit(1);
	puts("mapped");
	fflush(stdout);
	spin();
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{"base-register", base_register},
	{"expression", expression},
	{"in-data", in_data},
	{"bad-cfa", bad_cfa},
	{"read-fault", read_fault},
	{"no-mapping", no_mapping},
	{"no-row", no_row},
	{"no-table", no_table},
	{"recursion", recursion},
	{"depth-limit", depth_limit},
	{"exiting", exiting},
	{"no-process", no_process},
};

int main(int argc, char **argv)
{
	unsigned seconds = argc > 2 ? (unsigned)atoi(argv[2]) : 60;

	end = time(NULL) + seconds;
	alarm(seconds + 1);
	for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++) {
		if (strcmp(argv[1], cases[i].name) == 0) {
			cases[i].run();
			return 0;
		}
	}
	fprintf(stderr, "usage: endings CASE [SECONDS]\n");
	return 2;
}
