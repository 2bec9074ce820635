// SPDX-License-Identifier: Apache-2.0
/*
 * Reads numbers from text, of which nearly all are of one kind: a compiler with a profile inlines what reads
 * them into the one hot call. usage: parse CPU_SECONDS; prints the rounds per second of CPU time
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define TEXT_BYTES (1u << 16)

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* What is rare: a number in another base, or with digits in groups. */
static unsigned rare(const char **at)
{
	unsigned base = 8, value = 0;

	if (**at == 'x' || **at == 'X')
		base = 16;
	else if (**at == 'b')
		base = 2;
	else if (is_digit(**at))
		(*at)--;
	for (++*at; **at && **at != ' '; (*at)++) {
		const char c = **at;

		if (c == '_' || c == '\'')
			continue;
		if (is_digit(c))
			value = value * base + (unsigned)(c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value * base + (unsigned)(c - 'a' + 10);
		else if (c >= 'A' && c <= 'F')
			value = value * base + (unsigned)(c - 'A' + 10);
		else
			return 0;
	}
	return value;
}

static unsigned number(const char **at, unsigned *n_rare)
{
	unsigned value = 0;

	if (**at == '0') {
		(*at)++;
		++*n_rare;
		return rare(at);
	}
	for (; is_digit(**at); (*at)++)
		value = value * 10 + (unsigned)(**at - '0');
	if (**at == 'k' || **at == 'M') {
		value *= **at == 'k' ? 1000 : 1000000;
		(*at)++;
		++*n_rare;
	}
	return value;
}

__attribute__((noinline)) static unsigned sum(const char *text)
{
	unsigned total = 0, n_rare = 0;

	for (; *text; text++)
		if (is_digit(*text)) {
			total += number(&text, &n_rare);
			text -= *text == '\0';
		} else if (*text == '-') {
			text++;
			total -= number(&text, &n_rare);
			text -= *text == '\0';
		}
	return total + n_rare;
}

int main(int argc, char **argv)
{
	static char text[TEXT_BYTES + 16];
	const double end = now() + (argc > 1 ? atof(argv[1]) : 1);
	unsigned total = 0, rounds = 0;

	for (unsigned i = 0, at = 0; at < TEXT_BYTES; i++)
		at += (unsigned)snprintf(text + at, 16, i % 100 ? "%u " : "0x%x ", i * 7919u % 100 + 1);
	for (; now() < end; rounds++)
		for (unsigned i = 0; i < 100; i++)
			total += sum(text);
	printf("%.1f rounds per second, sum %u\n", rounds / now(), total);
	return 0;
}
