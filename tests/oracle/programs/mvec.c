// SPDX-License-Identifier: Apache-2.0
/*
 * Calls the vector functions of libmvec that have frames of their own: sincos by pointers, with AVX, and
 * functions of two arguments. GLIBC_TUNABLES=glibc.cpu.hwcaps=-SSE4_1 selects the wrappers for SSE2.
 */
#include <stdint.h>
#include <stdio.h>

typedef float v4f __attribute__((vector_size(16)));
typedef int64_t v2p __attribute__((vector_size(16)));
typedef double v4d __attribute__((vector_size(32)));
typedef float v8f __attribute__((vector_size(32)));

v4f _ZGVbN4vv_powf(v4f, v4f);
v4f _ZGVbN4vv_atan2f(v4f, v4f);
v4f _ZGVbN4vv_hypotf(v4f, v4f);
void _ZGVcN4vvv_sincos(v4d, v2p, v2p, v2p, v2p);
void _ZGVcN8vvv_sincosf(v8f, v2p, v2p, v2p, v2p, v2p, v2p, v2p, v2p);

static double s[4], c[4];
static float sf[8], cf[8];

static v2p doubles(double *x)
{
	return (v2p){(intptr_t)x, (intptr_t)(x + 1)};
}

static v2p floats(float *x)
{
	return (v2p){(intptr_t)x, (intptr_t)(x + 1)};
}

static float narrow(float x)
{
	v4f f = {x, 2, 3, 4};

	return (_ZGVbN4vv_powf(f, f) + _ZGVbN4vv_atan2f(f, f) + _ZGVbN4vv_hypotf(f, f))[1];
}

__attribute__((target("avx"))) static double wide(double x)
{
	v4d d = {x, 1, 2, 3};
	v8f f = {(float)x, 1, 2, 3, 4, 5, 6, 7};

	_ZGVcN4vvv_sincos(d, doubles(s), doubles(s + 2), doubles(c), doubles(c + 2));
	_ZGVcN8vvv_sincosf(f, floats(sf), floats(sf + 2), floats(sf + 4), floats(sf + 6), floats(cf),
			   floats(cf + 2), floats(cf + 4), floats(cf + 6));
	return s[0] + c[3] + (double)(sf[1] + cf[7]);
}

int main(void)
{
	double sum = 0;

	for (double x = 0.1; x < 1e6; x *= 7) {
		sum += (double)narrow((float)x);
		if (__builtin_cpu_supports("avx"))
			sum += wide(x);
	}
	printf("%g\n", sum);
	return 0;
}
