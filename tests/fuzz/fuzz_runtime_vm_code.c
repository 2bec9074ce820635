// SPDX-License-Identifier: Apache-2.0
/* What a parser process sends of the code of Java's virtual machine, or of V8: records without rows. */
#include <errno.h>
#include <stdlib.h>

#include "agent/runtime/code_names.h"
#include "agent/runtime/vm_code.h"
#include "bpf/abi.h"

#define MACHINE 3u
#define MAX_BYTES (1u << 20)

static void require(int condition)
{
	if (!condition)
		abort();
}

static uint64_t mono_ns(void)
{
	static uint64_t now_ns;

	return now_ns += 100000000;
}

/* A look at a machine, which had unloaded so many classes. */
static void add(struct vm_code *j, enum frame_runtime runtime, uint64_t unloaded, const uint8_t *data,
		size_t size)
{
	const int r = vm_code_add(j, &(struct vm_code_records){.machine = MACHINE,
							       .runtime = runtime,
							       .tenant = 1,
							       .began_ns = mono_ns(),
							       .unloaded_before = unloaded & 3,
							       .unloaded_after = unloaded >> 2 & 3,
							       .bytes = data,
							       .len = size});

	require(r == 0 || r == -EBADMSG || r == -ENOMEM);
}

/* A method, as of an interpreted frame. */
static void meet(struct vm_code *j, uint64_t address, uint64_t bytecode)
{
	const struct vm_code_method m = {MACHINE, 1, address, mono_ns() - 250000000, (uint32_t)address & 3};
	uint64_t words[2];

	(void)vm_code_settled(j, &m);
	(void)vm_code_interpreted(j, &m, bytecode, words);
	require(frame_runtime_of(words[0]) == RUNTIME_JVM);
}

static void run(enum frame_runtime runtime, const uint8_t *data, size_t size)
{
	struct code_names *names = NULL;
	struct vm_code *j = NULL;
	uint64_t words[64];
	struct vm_code_stats s;

	if (code_names_new(&names, MAX_BYTES) == 0 && vm_code_new(&j, names, MAX_BYTES, mono_ns) == 0) {
		add(j, runtime, size, data, size);
		for (size_t i = 8; i + 8 <= size && i < 64; i += 8) {
			struct vm_code_frame f = {.machine = MACHINE, .time_ns = mono_ns()};
			size_t n;

			__builtin_memcpy(&f.address, data + i, sizeof f.address);
			__builtin_memcpy(&f.number, data + i - 8, sizeof f.number);
			f.code = f.number & 1 ? f.number : 0;
			n = vm_code_frames(j, &f, words, 64);
			require(n <= 64 && n % 2 == 0);
			for (size_t k = 0; k < n; k += 2)
				require(frame_runtime_of(words[k]) == runtime);
			if (runtime == RUNTIME_JVM)
				meet(j, f.number, f.address);
			if (i % 24 == 0)
				add(j, runtime, data[i], data, size);
		}
		vm_code_stats(j, &s);
		require(s.bytes <= MAX_BYTES);
		vm_code_forget(j, MACHINE);
		vm_code_stats(j, &s);
		require(!s.bytes && !s.pieces && !s.methods);
	}
	vm_code_free(j);
	code_names_free(names);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	run(RUNTIME_JVM, data, size);
	run(RUNTIME_V8, data, size);
	return 0;
}
