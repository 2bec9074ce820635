// SPDX-License-Identifier: Apache-2.0
/*
 * libiberty knows the grammars; this file bounds its output and its time. In the library's functions that
 * return a string, back references can double the output at every level until memory runs out. So this file
 * uses the callback interface, and leaves it by longjmp when the name is long enough. The longjmp leaks
 * nothing: the library's C++ side works in stack arrays only, and its Rust side owns a heap block only while
 * it passes a decoded punycode identifier to the callback. Such a text begins with a letter, a digit, '_' or
 * a byte above 127; in Rust names the callback therefore jumps at other texts only. Every construct that can
 * multiply (paths, tuples, generic arguments) prints such other text between its parts.
 */
#include "agent/symbol/demangle.h"

#include <ctype.h>
#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#undef ARRAY_SIZE /* libiberty has its own */
#include "agent/base/buf.h"
#include "agent/base/cleanup.h"

#define CUT "..."
/* Room for a few clone suffixes behind the name. */
#define BASE_NAME_MAX (SYMBOL_NAME_MAX - 256u)
#define CONVERSION_DEPTH_MAX 10
#define D_MANGLED_MAX 2048u /* bytes of a D name */
#define D_BACK_REFERENCES_MAX 24u
#define D_SPLITS_MAX 100000u

struct sink {
	char text[BASE_NAME_MAX];
	size_t len;
	bool rust, cut;
	jmp_buf full;
};

static bool may_be_identifier(char c)
{
	return isalnum((unsigned char)c) || c == '_' || (unsigned char)c > 127;
}

static void sink_write(const char *text, size_t n, void *opaque)
{
	struct sink *s = opaque;
	size_t room = sizeof s->text - s->len, take = n < room ? n : room;

	if (!n)
		return; /* for an empty identifier `text` is NULL */
	memcpy(s->text + s->len, text, take);
	s->len += take;
	s->cut |= take < n;
	if (s->cut && !(s->rust && may_be_identifier(text[0])))
		longjmp(s->full, 1);
}

/*
 * In a conversion operator ("cv"), libiberty parses the template arguments behind a template parameter twice,
 * and so the innermost of n nested ones 2^n times: a name of 166 bytes took 88 seconds. Real names nest one
 * or two.
 */
static bool cxx_takes_forever(const char *name)
{
	unsigned n = 0;

	if (!strstr(name, "cv"))
		return false;
	for (const char *p = name; (p = strchr(p, 'T')) != NULL;) {
		p += 1 + strspn(p + 1, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");
		n += p[0] == '_' && p[1] == 'I';
	}
	return n > CONVERSION_DEPTH_MAX;
}

/*
 * The number of lifetimes that a function ("F") or trait object ("D") type binds is written in base 62 behind
 * a 'G', and libiberty counts up to it, however large it is. Two digits already mean more than 62 lifetimes.
 */
static bool rust_takes_forever(const char *name)
{
	for (const char *p = name; (p = strchr(p, 'G')) != NULL; p++) {
		size_t n = 0;

		while (isalnum((unsigned char)p[1 + n]))
			n++;
		if ((p[-1] == 'F' || p[-1] == 'D') && n > 1 && p[1 + n] == '_')
			return true;
	}
	return false;
}

static bool demangle_whole(struct sink *s, const char *base)
{
	if (s->rust)
		return !(base[1] == 'R' && rust_takes_forever(base)) &&
		       rust_demangle_callback(base, 0, sink_write, s) && s->len;
	return !cxx_takes_forever(base) && cplus_demangle_v3_callback(base, 0, sink_write, s) && s->len;
}

/* False when `base` is not a name of that language. The caller owns the sink, so longjmp leaves it intact. */
static bool demangle_into(struct sink *s, const char *base, bool rust)
{
	s->len = 0;
	s->cut = false;
	s->rust = rust;
	return setjmp(s->full) || demangle_whole(s, base);
}

/* Appends the sink's text. Where it was cut inside a multi-byte character, that character is left out. */
static int append_text(struct buf *out, const struct sink *s)
{
	size_t len = s->len;
	int r;

	while (s->cut && len && ((unsigned char)s->text[len - 1] & 0xc0) == 0x80)
		len--;
	if (s->cut && len && (unsigned char)s->text[len - 1] >= 0xc0)
		len--;
	r = buf_append(out, s->text, len);
	return r < 0 || !s->cut ? r : buf_puts(out, CUT);
}

static bool is_mangled(const char *name)
{
	return name[0] == '_' && (name[1] == 'Z' || name[1] == 'R' || name[1] == 'D');
}

/*
 * Length of a legacy Rust name, which ends with "17h", 16 hex digits and 'E' and whose identifiers may
 * contain dots. 0: `name` is not one.
 */
static size_t rust_legacy_len(const char *name)
{
	for (const char *p = name; (p = strstr(p, "17h")) != NULL; p++) {
		size_t digits = strspn(p + 3, "0123456789abcdef");

		if (digits == 16 && p[19] == 'E' && (!p[20] || p[20] == '.' || p[20] == '@'))
			return (size_t)(p - name) + 20;
	}
	return 0;
}

/*
 * Suffixes that compilers append to C names, too. Some words count only with a number behind them, since the
 * word alone can be the name of a Go function.
 */
static const struct clone_word {
	const char *word;
	bool numbered, silent; /* silent: the suffix only makes the name unique and is not shown */
} clone_words[] = {
	{"cold", false, false},	     {"part", true, false},    {"isra", true, false},
	{"constprop", true, false},  {"clone", true, false},   {"specialized", true, false},
	{"localalias", false, true}, {"lto_priv", true, true}, {"llvm", true, true},
	{"__uniq", true, true},
};

/* One suffix: ".word", ".word.123" or ".123". `known` is NULL for a word that is not in clone_words. */
struct suffix {
	size_t len, word_len;
	const struct clone_word *known;
	bool numbered;
};

static struct suffix read_suffix(const char *s)
{
	struct suffix ret = {.word_len = strcspn(s + 1, ".@")};
	bool bare_number = ret.word_len && strspn(s + 1, "0123456789") == ret.word_len;

	ret.len = 1 + ret.word_len;
	for (size_t i = 0; i < ARRAY_SIZE(clone_words); i++)
		if (strlen(clone_words[i].word) == ret.word_len &&
		    memcmp(s + 1, clone_words[i].word, ret.word_len) == 0)
			ret.known = &clone_words[i];
	while (!bare_number && s[ret.len] == '.') {
		size_t digits = strspn(s + ret.len + 1, "0123456789");
		char next = s[ret.len + 1 + digits];

		if (!digits || (next && next != '.' && next != '@'))
			break;
		ret.numbered = true;
		ret.len += 1 + digits;
	}
	return ret;
}

static bool is_clone(const struct suffix *x)
{
	return x->known && (x->numbered || !x->known->numbered);
}

/*
 * Offset of the known clone suffixes at the end of `name`, its length when it has none. Takes one pass, since
 * names can be long.
 */
static size_t clones_at(const char *name)
{
	size_t at = strcspn(name, ".@"), start = SIZE_MAX;

	while (name[at] == '.') {
		struct suffix x = read_suffix(name + at);

		if (!is_clone(&x)) {
			start = SIZE_MAX;
			at += 1 + x.word_len;
			continue;
		}
		if (start == SIZE_MAX && at > 0)
			start = at;
		at += x.len;
	}
	return start == SIZE_MAX ? strlen(name) : start;
}

/* Length of the name without suffixes. A mangled name ends at its first dot, whatever word follows. */
static size_t base_len(const char *name)
{
	size_t len;

	if (!is_mangled(name))
		return clones_at(name);
	len = name[1] == 'Z' ? rust_legacy_len(name) : 0;
	return len ? len : strcspn(name, ".@");
}

/* Appends clone suffixes in the form of c++filt, then any other suffix ("@plt") unchanged. */
static int append_suffixes(struct buf *out, const char *s)
{
	int r = 0;

	while (r >= 0 && *s == '.') {
		struct suffix x = read_suffix(s);

		if (!x.known || !x.known->silent)
			r = buf_printf(out, " [clone %.*s]", (int)x.len, s);
		s += x.len;
	}
	return r < 0 ? r : buf_puts(out, s);
}

/*
 * D names (dlang.org, "Application Binary Interface", name mangling). libiberty's D side returns a whole
 * string and offers no callback, so names whose output could explode are not passed to it at all. A back
 * reference to a type repeats a text that can contain back references itself: with n of them in a name, the
 * output grows by at most 3^(n/3). In an old form of template arguments nothing separates a length from a
 * name that begins with digits, so libiberty tries each split, at every nesting level. Real names have few
 * back references and splits; a name with more stays mangled.
 */

/*
 * The target of the back reference at `q`: a 'Q' and a distance in base 26 whose last digit is in lower case.
 * NULL: `q` is no back reference.
 */
static const char *d_target_of(const char *name, const char *q)
{
	size_t back = 0;
	const char *p = q + 1;

	for (; isupper((unsigned char)*p) && back <= D_MANGLED_MAX; p++)
		back = back * 26 + (size_t)(*p - 'A');
	if (!islower((unsigned char)*p))
		return NULL;
	back = back * 26 + (size_t)(*p - 'a');
	return back && back <= (size_t)(q - name) ? q - back : NULL;
}

/* True when the target can contain back references: it is neither an identifier nor a type of one letter. */
static bool d_repeats(const char *name, const char *q)
{
	const char *target = d_target_of(name, q);

	return target && !isdigit((unsigned char)*target) &&
	       !(islower((unsigned char)*target) && *target != 'x' && *target != 'y');
}

static bool d_takes_forever(const char *name)
{
	size_t references = 0, splits = 1;

	if (strnlen(name, D_MANGLED_MAX + 1) > D_MANGLED_MAX)
		return true;
	for (const char *p = name; *p && splits <= D_SPLITS_MAX; p++) {
		references += *p == 'Q' && d_repeats(name, p);
		if (*p == 'S' && isdigit((unsigned char)p[1]))
			splits *= 1 + strspn(p + 1, "0123456789");
	}
	return references > D_BACK_REFERENCES_MAX || splits > D_SPLITS_MAX;
}

static char *demangle_d(const char *name)
{
	_cleanup_free_ char *whole = d_takes_forever(name) ? NULL : dlang_demangle(name, DMGL_DLANG);

	if (!whole || strcmp(whole, name) == 0)
		return NULL;
	if (strlen(whole) <= BASE_NAME_MAX)
		return TAKE_PTR(whole);
	memcpy(whole + BASE_NAME_MAX - 3, "...", sizeof "...");
	return TAKE_PTR(whole);
}

char *symbol_demangle(const char *linkage_name)
{
	size_t len = strnlen(linkage_name, SYMBOL_MANGLED_MAX + 1), n;
	_cleanup_free_ char *base = NULL, *d = NULL;
	_cleanup_free_ struct sink *sink = NULL;
	_cleanup_buf_ struct buf out = {0};
	bool done = false;
	int r;

	if (len > SYMBOL_MANGLED_MAX)
		return NULL;
	n = base_len(linkage_name);
	if (n == len && !is_mangled(linkage_name))
		return NULL;
	base = strndup(linkage_name, n);
	sink = malloc(sizeof *sink);
	if (!base || !sink)
		return NULL;
	if (base[0] == '_' && base[1] == 'D')
		d = demangle_d(base);
	else if (is_mangled(base))
		done = demangle_into(sink, base, true) ||
		       (base[1] == 'Z' && demangle_into(sink, base, false));
	if (!done && !d && (n = clones_at(linkage_name)) == len)
		return NULL;
	buf_init(&out, SYMBOL_NAME_MAX);
	r = done ? append_text(&out, sink) : d ? buf_puts(&out, d) : buf_append(&out, linkage_name, n);
	if (r >= 0)
		r = append_suffixes(&out, linkage_name + n);
	return r < 0 ? NULL : strndup((const char *)out.data, out.len);
}
