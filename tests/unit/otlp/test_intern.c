// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "otlp/intern.h"
#include "otlp/messages.h"
#include "otlp/utf8.h"

typedef Opentelemetry__Proto__Profiles__V1development__ProfilesDictionary dictionary;

Test(intern, equal_values_have_one_index)
{
	_cleanup_dict_ struct otlp_dict *d = NULL;
	_cleanup_buf_ struct buf b = {0};
	struct otlp_dict_mapping mapping = {.start = 1, .limit = 2}, no_mapping = {0};
	struct otlp_dict_location location = {.address = 5, .attrs = {1}};
	int32_t i, j, locations[] = {1, 2};

	cr_assert_eq(otlp_dict_new(&d), 0);
	cr_assert_eq(otlp_dict_string(d, "x", &i), 0);
	cr_assert_eq(otlp_dict_string(d, "x", &j), 0);
	cr_expect_eq(i, 1);
	cr_expect_eq(j, 1);
	cr_assert_eq(otlp_dict_string(d, "", &i), 0);
	cr_expect_eq(i, 0);
	cr_assert_eq(otlp_dict_string(d, NULL, &i), 0);
	cr_expect_eq(i, 0);
	cr_assert_eq(otlp_dict_attr_int(d, 1, 5, &i), 0);
	cr_assert_eq(otlp_dict_attr_int(d, 1, 5, &j), 0);
	cr_expect_eq(i, j);
	cr_assert_eq(otlp_dict_attr_string(d, 1, "\5\0\0\0\0\0\0", &j), 0);
	cr_expect_neq(i, j, "a text is no number");
	cr_assert_eq(otlp_dict_mapping(d, &mapping, &i), 0);
	cr_assert_eq(otlp_dict_mapping(d, &mapping, &j), 0);
	cr_expect_eq(i, j);
	cr_assert_eq(otlp_dict_mapping(d, &no_mapping, &i), 0);
	cr_expect_eq(i, 0, "the zero value is entry 0");
	cr_assert_eq(otlp_dict_location(d, &location, &i), 0);
	cr_assert_eq(otlp_dict_location(d, &location, &j), 0);
	cr_expect_eq(i, j);
	cr_assert_eq(otlp_dict_function(d, &(struct otlp_dict_function){0}, &i), 0);
	cr_expect_eq(i, 0);
	cr_assert_eq(otlp_dict_stack(d, locations, 2, &i), 0);
	cr_assert_eq(otlp_dict_stack(d, locations, 1, &j), 0);
	cr_expect_neq(i, j);
	cr_assert_eq(otlp_dict_encode(d, &b), 0);
	cr_expect_eq(b.len, otlp_dict_size(d));
	cr_assert_eq(otlp_dict_reset(d), 0);
	cr_expect_eq(otlp_dict_size(d), 14, "seven empty entries");
}

Test(intern, long_and_broken_strings)
{
	_cleanup_dict_ struct otlp_dict *d = NULL;
	_cleanup_buf_ struct buf b = {0};
	_cleanup_free_ char *text = malloc(40000);
	int32_t i, j;

	memset(text, 0xe2, 39999); /* each byte becomes three */
	text[39999] = '\0';
	cr_assert_eq(otlp_dict_new(&d), 0);
	cr_assert_eq(otlp_dict_string(d, text, &i), 0);
	text[39998] = 'x'; /* after the cut */
	cr_assert_eq(otlp_dict_string(d, text, &j), 0);
	cr_expect_eq(i, j);
	cr_assert_eq(otlp_dict_encode(d, &b), 0);
	dictionary *m = opentelemetry__proto__profiles__v1development__profiles_dictionary__unpack(
		NULL, b.len, b.data);
	cr_assert_not_null(m);
	cr_expect_leq(strlen(m->string_table[1]), OTLP_STRING_MAX);
	cr_expect(utf8_valid(m->string_table[1], strlen(m->string_table[1])));
	opentelemetry__proto__profiles__v1development__profiles_dictionary__free_unpacked(m, NULL);
}
