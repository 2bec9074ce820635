// SPDX-License-Identifier: Apache-2.0
/*
 * The code of virtual machines (Java's, Erlang's, .NET's), as far as samples have hit it: which methods are
 * at which address, inlined ones included, with their lines. What parser processes have found
 * (agent/elf/runtime/vm_answer.h) comes from bytes that a tenant chose, so every size is checked. A machine
 * is known by the index of the binary that stands for the generated code of its process. Bounded in bytes.
 * Main loop only.
 */
#ifndef PROFLET_RUNTIME_VM_CODE_H
#define PROFLET_RUNTIME_VM_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/abi.h"

struct code_names;
struct vm_code;

struct vm_code_stats {
	size_t machines, pieces, methods, bytes;
	uint64_t replaced;  /* methods whose memory another method has taken */
	uint64_t bad, full; /* records that are not valid; that were not taken because there was no room */
};

/* `names` is borrowed: it gets the names of methods when frames of them occur. 0 or -ENOMEM. */
int vm_code_new(struct vm_code **ret, struct code_names *names, size_t max_bytes, uint64_t (*mono_ns)(void));
void vm_code_free(struct vm_code *j); /* NULL is fine */
/* Records about the machine of a process. */
struct vm_code_records {
	uint32_t machine;
	enum frame_runtime runtime; /* of its frames: RUNTIME_JVM, RUNTIME_BEAM, RUNTIME_DOTNET, RUNTIME_V8 */
	uint64_t tenant;
	uint64_t began_ns; /* CLOCK_MONOTONIC, before the memory was looked at */
	/* Of a HotSpot: classes that it had unloaded before and after that, and one more; 0: not known */
	uint64_t unloaded_before, unloaded_after;
	const void *bytes;
	size_t len;
};

/*
 * Takes records. The methods of V8 are functions, the address of each is its number, and their names are
 * nobody's business here. 0; -EBADMSG; -ENOMEM.
 */
int vm_code_add(struct vm_code *j, const struct vm_code_records *records);
/* Forgets a machine, whose index is about to be given to another. */
void vm_code_forget(struct vm_code *j, uint32_t machine);
/* A frame of compiled code. */
struct vm_code_frame {
	uint32_t machine;
	uint64_t address;
	uint64_t time_ns; /* of its sample: CLOCK_MONOTONIC */
	/* Of Java, which compilation it was (FRAME_CODE_*): another one has no name. 0: that is not known. */
	uint64_t code;
	/* Of V8: the function whose frame it is. Code that is another one's by now has none. */
	uint64_t number;
	/* Set with `look` for code of V8, which is to be looked at with these; see struct vm_wanted. */
	uint64_t look_end;
	uint32_t look_id;
	bool known; /* set if something is known of the address */
	bool full;  /* set if there was no room a while ago */
	/*
	 * Set if the code may be freed at any time, and another have its place: the frame has a name only
	 * once a later look at this address has found that it is still the same. Of V8, set now and then:
	 * what was found before holds until then. 0: it is not so.
	 */
	uint64_t look;
};

/*
 * Writes the frames of code at an address, the innermost first, two words each (a head of its runtime,
 * whose payload is the number of the method for code_names_find, and the line), `max` words at most: of
 * more frames, the outermost. Returns the number of words; 0: nothing is known of the address.
 */
size_t vm_code_frames(struct vm_code *j, struct vm_code_frame *f, uint64_t *words, size_t max);
/* The object of a method in a sample, by its process address. */
struct vm_code_method {
	uint32_t machine;
	uint64_t tenant, address;
	uint64_t time_ns;  /* of the sample: CLOCK_MONOTONIC */
	uint32_t unloaded; /* the same: as in struct sample_record */
};

/*
 * Whether it is known which method had the object at the time of the sample, or will never be known.
 * False: it has to be looked at (again).
 */
bool vm_code_settled(struct vm_code *j, const struct vm_code_method *m);
/*
 * The frame of an interpreted method, with the address of its bytecode instruction (0: not known): two words.
 * Without a name if another method may have had the object at the time of the sample. False: its name or its
 * lines are not known yet.
 */
bool vm_code_interpreted(struct vm_code *j, const struct vm_code_method *m, uint64_t bytecode,
			 uint64_t words[2]);
/* Whether there is a machine with methods whose names are not known yet, for which `requested` is true. */
bool vm_code_expects(const struct vm_code *j, bool (*requested)(uint32_t machine, void *data), void *data);
void vm_code_stats(const struct vm_code *j, struct vm_code_stats *ret);

#endif
