// SPDX-License-Identifier: Apache-2.0
/*
 * Runs functions of the C library and libm that are written in assembly or have variants for processors, with
 * lengths and alignments that take different paths, for the shadow-stack oracle. GLIBC_TUNABLES in the
 * environment selects other variants.
 */
#include <complex.h>
#include <fenv.h>
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <wchar.h>

static char a[70000], b[70000];
static wchar_t wa[700], wb[700];
static volatile double sink;
static volatile size_t total;
static ucontext_t contexts[2];
static jmp_buf jump;

static void strings(size_t n, size_t shift)
{
	char *x = a + shift, *y = b + 2 * shift;

	memset(x, 'x', n);
	x[n] = '\0';
	memcpy(y, x, n + 1);
	memmove(y + 1, y, n);
	memmove(y, y + 1, n);
	y[n] = '\0';
	total += (size_t)memcmp(x, y, n) + strlen(x) + strnlen(x, n + 5);
	total += (size_t)strcmp(x, y) + (size_t)strncmp(x, y, n) + (size_t)strcasecmp(x, y);
	total += strchr(x, 'y') != NULL;
	total += (strrchr(x, 'x') - x) + (size_t)((char *)rawmemchr(x, 0) - x);
	total += memchr(x, 'y', n) != NULL;
	total += memrchr(x, 'y', n) != NULL;
	total += strstr(x, "xxxy") != NULL;
	total += memmem(x, n, "xy", 2) != NULL;
	total += strspn(x, "xyz") + strcspn(x, "abc");
	total += strpbrk(x, "abc") != NULL;
	strcpy(y, x);
	strncpy(y, x, n);
	total += (size_t)(stpcpy(y, x) - y);
	strcat(y, "tail");
	bzero(y, n);
	mempcpy(y, x, n);
	swab(x, y, (ssize_t)n);
}

static void wide(size_t n)
{
	wmemset(wa, L'x', n);
	wa[n] = 0;
	wmemcpy(wb, wa, n + 1);
	total += (size_t)wmemcmp(wa, wb, n) + wcslen(wa) + wcsnlen(wa, n + 3) + (size_t)wcscmp(wa, wb);
	total += wcschr(wa, L'y') != NULL;
	total += wmemchr(wa, L'y', n) != NULL;
	total += wcsrchr(wa, L'x') != NULL;
	wcscpy(wb, wa);
}

static void numbers(double x)
{
	double complex z = x + 2 * I;
	float f = (float)x;
	int e;

	sink += sin(x) + cos(x) + tan(x) + asin(x / 1e9) + acos(x / 1e9) + atan(x) + atan2(x, 3) +
		sinh(x / 99) + cosh(x / 99) + tanh(x);
	sink += exp(x / 99) + exp2(x / 99) + exp10(x / 99) + expm1(x / 99) + log(x) + log2(x) + log10(x) +
		log1p(x) + pow(x, 1.7) + cbrt(x);
	sink += floor(x) + ceil(x) + rint(x) + trunc(x) + nearbyint(x) + round(x) + fma(x, 2, 3) +
		fmod(x, 3) + remainder(x, 3) + hypot(x, 4);
	sink += tgamma(x / 99 + 1) + lgamma(x) + erf(x) + j0(x) + y1(x) + (double)lrint(x) + frexp(x, &e) +
		scalbn(x, 3) + (double)ilogb(x);
	sink += sinf(f) + cosf(f) + expf(f / 99) + logf(f) + powf(f, 1.3f) + floorf(f) + fmaf(f, 2, 3) +
		tanf(f) + sqrtf(f);
	sink += creal(cexp(z / 99)) + creal(csin(z / 99)) + cabs(clog(z)) + cabs(csqrt(z));
	sink += (double)(sinl(x) + expl(x / 99) + logl(x) + powl(x, 1.1L) + fmodl(x, 3) + atanl(x) +
			 remainderl(x, 7) + log1pl(x) + expm1l(x / 99));
}

static void text(int i)
{
	char s[2000];

	snprintf(s, sizeof s, "%.60f %.40Lf %La %a %e %g %d %s %-20s|%'d %ls", i / 7.0, 3.3e300L * i,
		 2.2L * i, 0.1 * i, 1e-300 * i, 1e22 * i, i, "text", "left", 1000 * i, L"wide");
	sink += strtod("1.7976931348623157e308", NULL) + strtod("4.9406564584124654e-324", NULL) +
		(double)strtold("3.3621031431120935063e-4932", NULL) + strtof("0x1.8p-3", NULL) +
		strtod("123456789012345678901234567890.12345678901234567890e-40", NULL);
	sscanf("12 3.5 abc", "%d %lf %s", &i, (double *)(void *)s, s + 100);
	total += strlen(s);
}

static int compare(const void *x, const void *y)
{
	return *(const int *)x - *(const int *)y;
}

static void coroutine(void)
{
	for (int i = 0; i < 3; i++) {
		text(i);
		swapcontext(&contexts[1], &contexts[0]);
	}
}

static void switches(void)
{
	static char stack[65536];

	getcontext(&contexts[1]);
	contexts[1].uc_stack.ss_sp = stack;
	contexts[1].uc_stack.ss_size = sizeof stack;
	contexts[1].uc_link = &contexts[0];
	makecontext(&contexts[1], coroutine, 0);
	for (int i = 0; i < 4; i++)
		swapcontext(&contexts[0], &contexts[1]);
}

static void jumps(int n)
{
	if (n)
		jumps(n - 1);
	else
		longjmp(jump, 1);
	total++;
}

static void handler(int signal)
{
	(void)signal;
	text(5);
}

static void system_calls(void)
{
	static char *const arguments[] = {"true", NULL};
	pid_t pid = vfork();
	int numbers_[200];

	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	if (posix_spawnp(&pid, "true", NULL, NULL, arguments, NULL) == 0)
		waitpid(pid, NULL, 0);
	pid = fork();
	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	signal(SIGUSR1, handler);
	raise(SIGUSR1);
	for (int i = 0; i < 200; i++)
		numbers_[i] = i * 7919 % 211;
	qsort(numbers_, 200, sizeof *numbers_, compare);
	total += bsearch(&numbers_[3], numbers_, 200, sizeof *numbers_, compare) != NULL;
	total += (size_t)time(NULL) + (size_t)clock();
	fesetround(FE_UPWARD);
	fesetround(FE_TONEAREST);
}

int main(void)
{
	static const size_t lengths[] = {0,   1,   3,	7,   8,	  15,	16,   17,   31,
					 32,  33,  63,	64,  65,  96,	127,  128,  129,
					 200, 255, 256, 300, 511, 1000, 4095, 4096, 9000};

	setlocale(LC_ALL, "");
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
		for (size_t shift = 0; shift < 34; shift += 11)
			strings(lengths[i], shift);
	strings(66000, 3);
	for (size_t n = 0; n < 300; n = n * 2 + 1)
		wide(n);
	for (double x = 0.3; x < 1e6; x *= 31)
		numbers(x);
	for (int i = 0; i < 4; i++)
		text(i);
	switches();
	if (!setjmp(jump))
		jumps(5);
	system_calls();
	printf("%zu %g\n", total, sink);
	return 0;
}
