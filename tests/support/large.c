// SPDX-License-Identifier: Apache-2.0
/*
 * A large program whose call chains are known: 4,000 chains of 8 functions each, in 8 parts. Each is main →
 * cPART_CHAIN_7 → … → cPART_CHAIN_0, with all time spent in the last. It goes from chain to chain about every
 * millisecond, from one end of the file to the other, until SIGTERM. Compile this file once with each
 * of -DPART=0 … 7 and once without; with -falign-functions=512 the program has about 20 MB.
 */
#include <stdio.h>

#include "spin.h"

#define ROUNDS (1u << 18) /* about a millisecond */
#define N_CHAINS 500u	  /* of a part; see ALL */

typedef unsigned long chain_fn(unsigned long x);

#ifdef PART

#define JOIN(p, k, j) c##p##_##k##_##j
#define NAME(p, k, j) JOIN(p, k, j)
#define TABLE_OF(p) part_##p
#define TABLE(p) TABLE_OF(p)

#define LEAF(name)                                                             \
	LINK unsigned long name(unsigned long x)                               \
	{                                                                      \
		unsigned char frame[424];                                      \
                                                                               \
		USE_FRAME(frame);                                              \
		for (unsigned i = 0; i < ROUNDS; i++) {                        \
			x = x * 6364136223846793005ul + 1442695040888963407ul; \
			__asm__ volatile("" : "+r"(x));                        \
		}                                                              \
		return x + frame[x % sizeof(frame)];                           \
	}

#define CHAIN(k)                                                 \
	LEAF(NAME(PART, k, 0))                                   \
	DEFINE_LINK(NAME(PART, k, 1), NAME(PART, k, 0)(x), 40)   \
	DEFINE_LINK(NAME(PART, k, 2), NAME(PART, k, 1)(x), 1304) \
	DEFINE_LINK(NAME(PART, k, 3), NAME(PART, k, 2)(x), 88)   \
	DEFINE_LINK(NAME(PART, k, 4), NAME(PART, k, 3)(x), 264)  \
	DEFINE_LINK(NAME(PART, k, 5), NAME(PART, k, 4)(x), 24)   \
	DEFINE_LINK(NAME(PART, k, 6), NAME(PART, k, 5)(x), 5000) \
	DEFINE_LINK(NAME(PART, k, 7), NAME(PART, k, 6)(x), 152)

#define ENTRY(k) NAME(PART, k, 7),

#define TEN(M, k) M(k##0) M(k##1) M(k##2) M(k##3) M(k##4) M(k##5) M(k##6) M(k##7) M(k##8) M(k##9)
#define FIFTY(M, k, a, b, c, d, e) TEN(M, k##a) TEN(M, k##b) TEN(M, k##c) TEN(M, k##d) TEN(M, k##e)
#define HUNDRED(M, k) FIFTY(M, k, 0, 1, 2, 3, 4) FIFTY(M, k, 5, 6, 7, 8, 9)
#define ALL(M) HUNDRED(M, 0) HUNDRED(M, 1) HUNDRED(M, 2) HUNDRED(M, 3) HUNDRED(M, 4)

ALL(CHAIN)

chain_fn *const TABLE(PART)[N_CHAINS] = {ALL(ENTRY)};

#else

#define N_PARTS 8u

typedef chain_fn *const entries[N_CHAINS];

extern entries part_0, part_1, part_2, part_3, part_4, part_5, part_6, part_7;

int main(void)
{
	chain_fn *const *const parts[N_PARTS] = {part_0, part_1, part_2, part_3,
						 part_4, part_5, part_6, part_7};
	unsigned long x = 1;

	stop_after("3600");
	for (unsigned long i = 0; !stop; i += 1009) /* a prime: each chain comes */
		x = parts[i % N_PARTS][i / N_PARTS % N_CHAINS](x);
	printf("%lu\n", x);
	return 0;
}

#endif
