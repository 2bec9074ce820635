// SPDX-License-Identifier: Apache-2.0
#include "agent/recording/comparison.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/map.h"
#include "agent/output/display_text.h"

#define SEED 0x9e3779b97f4a7c15ull
#define CONFIDENCE 0.95
#define SAMPLES_A_BLOCK 20u /* with fewer, blocks say nothing */
#define BLOCKS_MIN 8u	    /* of them, the others are empty */
#define LEAST_SHARE 0.0005  /* of a function that is looked at, in either recording */

/* What was counted of a function, or of all. */
struct counts {
	double self[COMPARISON_BLOCKS], total[COMPARISON_BLOCKS];
};

struct compared_function {
	struct map_node node;
	struct counts counts[COMPARISON_SIDES];
	uint64_t seen; /* the stack that it was last counted in */
	char *origin;  /* behind the name */
	char name[];
};

struct side {
	uint64_t from, to;
	double samples[COMPARISON_BLOCKS];
};

struct comparison {
	struct map functions;
	struct side sides[COMPARISON_SIDES];
	bool names_only;
	uint64_t n_stacks;
	struct buf name, origin;
};

int comparison_new(struct comparison **ret, bool names_only)
{
	struct comparison *c = calloc(1, sizeof *c);

	if (!c)
		return -ENOMEM;
	map_init(&c->functions, COMPARISON_FUNCTIONS_MAX);
	c->names_only = names_only;
	*ret = c;
	return 0;
}

void comparison_free(struct comparison *c)
{
	struct map_node *n;

	if (!c)
		return;
	map_for_each (&c->functions, n, i)
		free(container_of(n, struct compared_function, node));
	map_fini(&c->functions);
	buf_fini(&c->name);
	buf_fini(&c->origin);
	free(c);
}

void comparison_set_times(struct comparison *c, enum comparison_side side, uint64_t from, uint64_t to)
{
	c->sides[side].from = from;
	c->sides[side].to = to;
}

bool comparison_has_times(const struct comparison *c, enum comparison_side side)
{
	return c->sides[side].to > c->sides[side].from;
}

/* --- counting */

struct function_key {
	const char *name, *origin;
};

static bool function_is(const struct map_node *node, const void *key)
{
	const struct compared_function *f = container_of(node, struct compared_function, node);
	const struct function_key *k = key;

	return strcmp(f->name, k->name) == 0 && strcmp(f->origin, k->origin) == 0;
}

/* What the frame's function is called, and where it belongs, as the tables of a recording show it. */
static int name_frame(struct comparison *c, const struct frame *f)
{
	const char *origin = f->module && !c->names_only ? f->module->name : "";
	int r;

	if (f->runtime && f->n_lines && *f->lines->file)
		origin = output_text_file(f->lines->file);
	buf_clear(&c->name);
	buf_clear(&c->origin);
	if (f->function && *f->function)
		r = output_text_clean(&c->name, f->function, OUTPUT_MAX_NAME);
	else
		r = buf_printf(&c->name, "%s+0x%" PRIx64, f->module ? f->module->name : "",
			       frame_unnamed_offset(f));
	if (r == 0)
		r = output_text_clean(&c->origin, origin, OUTPUT_MAX_NAME);
	return r;
}

static int find_function(struct comparison *c, const struct frame *f, struct compared_function **ret)
{
	struct compared_function *found;
	struct function_key key;
	struct map_node *node;
	uint64_t hash;
	int r = name_frame(c, f);

	if (r < 0)
		return -ENOMEM;
	key = (struct function_key){buf_str(&c->name), buf_str(&c->origin)};
	hash = hash_bytes(key.name, c->name.len) ^ hash_u64(hash_bytes(key.origin, c->origin.len));
	node = map_find(&c->functions, hash, function_is, &key);
	if (node) {
		*ret = container_of(node, struct compared_function, node);
		return 0;
	}
	found = calloc(1, sizeof *found + c->name.len + c->origin.len + 2);
	if (!found)
		return -ENOMEM;
	found->origin = found->name + c->name.len + 1;
	memcpy(found->name, key.name, c->name.len);
	memcpy(found->origin, key.origin, c->origin.len);
	r = map_insert(&c->functions, &found->node, hash);
	if (r < 0)
		free(found);
	else
		*ret = found;
	return r;
}

static unsigned block_of(const struct side *s, uint64_t time)
{
	if (time <= s->from || s->to <= s->from)
		return 0;
	if (time >= s->to)
		return COMPARISON_BLOCKS - 1;
	return (unsigned)((double)(time - s->from) / (double)(s->to - s->from) * COMPARISON_BLOCKS);
}

unsigned comparison_block(const struct comparison *c, enum comparison_side side, uint64_t time)
{
	return block_of(&c->sides[side], time);
}

/* How many samples of the stack lie in each block. */
static void spread(const struct side *side, const struct recording_stack *s, uint64_t per_sample,
		   double ret[COMPARISON_BLOCKS])
{
	const double samples = (double)s->stack.count / (double)per_sample;

	memset(ret, 0, COMPARISON_BLOCKS * sizeof *ret);
	if (side->to <= side->from || !s->n_times) {
		ret[0] = samples;
		return;
	}
	for (size_t i = 0; i < s->n_times; i++)
		ret[block_of(side, s->times[i])] += samples / (double)s->n_times;
}

int comparison_add(struct comparison *c, enum comparison_side side, const struct recording_stack *s,
		   uint64_t per_sample)
{
	double samples[COMPARISON_BLOCKS];
	int first = 0;

	spread(&c->sides[side], s, per_sample ?: 1, samples);
	c->n_stacks++;
	for (unsigned k = 0; k < COMPARISON_BLOCKS; k++)
		c->sides[side].samples[k] += samples[k];
	for (size_t i = 0; i < s->stack.n_frames; i++) {
		struct compared_function *f = NULL;
		const int r = find_function(c, &s->stack.frames[i], &f);

		if (r < 0) {
			first = first ?: r;
			continue;
		}
		for (unsigned k = 0; k < COMPARISON_BLOCKS; k++) {
			f->counts[side].self[k] += i ? 0 : samples[k];
			f->counts[side].total[k] += f->seen == c->n_stacks ? 0 : samples[k];
		}
		f->seen = c->n_stacks;
	}
	return first;
}

/* --- noise */

static uint64_t next_random(uint64_t *state) /* xorshift64* */
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1dull;
}

static double uniform(uint64_t *state)
{
	return ((double)(next_random(state) >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(uint64_t *state)
{
	return sqrt(-2 * log(uniform(state))) * cos(2 * M_PI * uniform(state));
}

/* The value that a standard normal variable stays below with probability p, by bisection. */
static double normal_quantile(double p)
{
	double low = -40, high = 40;

	for (int i = 0; i < 80; i++) {
		const double middle = (low + high) / 2;

		if (erfc(-middle / M_SQRT2) / 2 < p)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* The same of Student's distribution, by Fisher's expansion, which is exact enough from 8 degrees on. */
static double student_quantile(double p, double degrees)
{
	const double z = normal_quantile(p), z2 = z * z;
	const double first = z * (z2 + 1) / 4, second = z * (5 * z2 * z2 + 16 * z2 + 3) / 96;
	const double third = z * (3 * z2 * z2 * z2 + 19 * z2 * z2 + 17 * z2 - 15) / 384;

	return z + first / degrees + second / (degrees * degrees) + third / (degrees * degrees * degrees);
}

static double sum(const double *v)
{
	double s = 0;

	for (unsigned k = 0; k < COMPARISON_BLOCKS; k++)
		s += v[k];
	return s;
}

/* Whether blocks tell how much a share varies: there are enough of them, with enough samples. */
static bool blocks_tell(const struct comparison *c, enum comparison_side side)
{
	unsigned n = 0;

	for (unsigned k = 0; k < COMPARISON_BLOCKS; k++)
		n += c->sides[side].samples[k] >= SAMPLES_A_BLOCK;
	return comparison_has_times(c, side) && n >= BLOCKS_MIN;
}

/* How often each block is drawn; draw 0 is the recording itself. */
static void draw_blocks(uint64_t *state, unsigned draw, double ret[COMPARISON_BLOCKS])
{
	for (unsigned k = 0; k < COMPARISON_BLOCKS; k++)
		ret[k] = draw ? 0 : 1;
	for (unsigned k = 0; k < COMPARISON_BLOCKS && draw; k++)
		ret[next_random(state) % COMPARISON_BLOCKS]++;
}

static double weighted(const double *v, const double *weights)
{
	double s = 0;

	for (unsigned k = 0; k < COMPARISON_BLOCKS; k++)
		s += v[k] * weights[k];
	return s;
}

/* A function that is looked at, with its share in each draw. */
struct candidate {
	const struct compared_function *f;
	double shares[COMPARISON_SIDES][COMPARISON_DRAWS];
};

static const double *counted(const struct compared_function *f, enum comparison_side side, bool total)
{
	return total ? f->counts[side].total : f->counts[side].self;
}

/* Fills in the shares of one side. */
static void draw_shares(const struct comparison *c, enum comparison_side side, bool total,
			struct candidate *v, size_t n)
{
	const double all = sum(c->sides[side].samples);
	const bool blocks = blocks_tell(c, side);
	uint64_t state = SEED + side;
	double weights[COMPARISON_BLOCKS];

	for (unsigned draw = 0; draw < COMPARISON_DRAWS; draw++) {
		double samples;

		draw_blocks(&state, blocks ? draw : 0, weights);
		samples = weighted(c->sides[side].samples, weights);
		for (size_t i = 0; i < n; i++) {
			const double own = weighted(counted(v[i].f, side, total), weights);
			double share = samples > 0 ? own / samples : 0;

			if (!blocks && draw && all > 0)
				share += normal(&state) * sqrt(share * (1 - share) / all);
			v[i].shares[side][draw] = share;
		}
	}
}

static int compare_doubles(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double deviation(const double *v, size_t n)
{
	double mean = 0, squares = 0;

	for (size_t i = 0; i < n; i++)
		mean += v[i] / (double)n;
	for (size_t i = 0; i < n; i++)
		squares += (v[i] - mean) * (v[i] - mean);
	return n > 1 ? sqrt(squares / (double)(n - 1)) : 0;
}

/* Of shares p of two numbers of samples, if each sample were independent: no draw can tell less noise. */
static double least_deviation(const struct comparison *c, double a, double b)
{
	const double n_a = sum(c->sides[COMPARISON_A].samples), n_b = sum(c->sides[COMPARISON_B].samples);
	const double p = (a * n_a + b * n_b) / (n_a + n_b);

	return sqrt(p * (1 - p) * (1 / n_a + 1 / n_b));
}

/* `limit`: so many standard deviations are beyond noise. */
static struct comparison_row row_of(const struct comparison *c, const struct candidate *v, double limit)
{
	const double n = sum(c->sides[COMPARISON_A].samples) * sum(c->sides[COMPARISON_B].samples);
	struct comparison_row row = {.name = v->f->name,
				     .origin = v->f->origin,
				     .a = v->shares[COMPARISON_A][0],
				     .b = v->shares[COMPARISON_B][0]};
	const double difference = row.b - row.a;
	double drawn[COMPARISON_DRAWS - 1], spread_of_draws, least;

	for (unsigned i = 1; i < COMPARISON_DRAWS; i++)
		drawn[i - 1] = v->shares[COMPARISON_B][i] - v->shares[COMPARISON_A][i];
	spread_of_draws = deviation(drawn, COMPARISON_DRAWS - 1);
	qsort(drawn, COMPARISON_DRAWS - 1, sizeof *drawn, compare_doubles);
	row.low = drawn[(size_t)((1 - CONFIDENCE) / 2 * (COMPARISON_DRAWS - 2))];
	row.high = drawn[(size_t)((1 + CONFIDENCE) / 2 * (COMPARISON_DRAWS - 2))];
	if (n <= 0) /* a recording without samples */
		return row;
	least = least_deviation(c, row.a, row.b);
	row.certain = fabs(difference) >= COMPARISON_LEAST &&
		      fabs(difference) > limit * (spread_of_draws > least ? spread_of_draws : least);
	return row;
}

static int compare_rows(const void *a, const void *b)
{
	const struct comparison_row *x = a, *y = b;
	const double dx = x->b - x->a, dy = y->b - y->a;
	const int class_x = x->certain ? dx < 0 : 2, class_y = y->certain ? dy < 0 : 2;

	if (class_x != class_y)
		return class_x - class_y;
	if (fabs(dx) != fabs(dy))
		return fabs(dx) < fabs(dy) ? 1 : -1;
	return strcmp(x->name, y->name);
}

static bool is_looked_at(const struct comparison *c, const struct compared_function *f, bool total)
{
	for (int side = 0; side < COMPARISON_SIDES; side++) {
		const double all = sum(c->sides[side].samples);

		if (all > 0 && sum(counted(f, side, total)) / all >= LEAST_SHARE)
			return true;
	}
	return false;
}

static size_t find_candidates(const struct comparison *c, bool total, struct candidate *ret)
{
	struct map_node *node;
	size_t n = 0;

	map_for_each (&c->functions, node, i) {
		const struct compared_function *f = container_of(node, struct compared_function, node);

		if (!is_looked_at(c, f, total))
			continue;
		if (ret)
			ret[n].f = f;
		n++;
	}
	return n;
}

/* Each of n functions may be the one of 20 comparisons. */
static double limit_of(size_t n)
{
	const double p = 1 - (1 - CONFIDENCE) / 2 / (double)(n ?: 1);

	return student_quantile(p, COMPARISON_BLOCKS - 1);
}

double comparison_limit(const struct comparison *c, bool total)
{
	return limit_of(find_candidates(c, total, NULL));
}

double comparison_samples(const struct comparison *c, enum comparison_side side)
{
	return sum(c->sides[side].samples);
}

bool comparison_weights(const struct comparison *c, enum comparison_side side,
			uint8_t ret[COMPARISON_DRAWS - 1][COMPARISON_BLOCKS])
{
	uint64_t state = SEED + side;
	double weights[COMPARISON_BLOCKS];

	if (!blocks_tell(c, side))
		return false;
	for (unsigned draw = 1; draw < COMPARISON_DRAWS; draw++) {
		draw_blocks(&state, draw, weights);
		for (unsigned k = 0; k < COMPARISON_BLOCKS; k++)
			ret[draw - 1][k] = (uint8_t)weights[k];
	}
	return true;
}

int comparison_rows(const struct comparison *c, bool total, struct comparison_row **ret, size_t *ret_n)
{
	const size_t n = find_candidates(c, total, NULL);
	_cleanup_free_ struct candidate *v = calloc(n + 1, sizeof *v);
	struct comparison_row *rows = calloc(n + 1, sizeof *rows);
	const double limit = limit_of(n);

	if (!v || !rows) {
		free(rows);
		return -ENOMEM;
	}
	(void)find_candidates(c, total, v);
	for (int side = 0; side < COMPARISON_SIDES; side++)
		draw_shares(c, side, total, v, n);
	for (size_t i = 0; i < n; i++)
		rows[i] = row_of(c, &v[i], limit);
	qsort(rows, n, sizeof *rows, compare_rows);
	*ret = rows;
	*ret_n = n;
	return 0;
}
