// SPDX-License-Identifier: Apache-2.0
#include "otlp/mask.h"

#include <criterion/criterion.h>
#include <stdio.h>

Test(mask, secrets_whole_cut_or_repeated)
{
	static const struct {
		const char *text, *wanted;
	} rows[] = {
		{"nothing of it", "nothing of it"},
		{"hunter2secret", "*************"},
		{"bad key hunter2secret, again", "bad key *************, again"},
		{"\"hunter2other\"", "\"************\""},
		{"hunter2secret hunter2secret", "************* *************"},
		{"cut: hunter2se", "cut: *********"},
		{"hunter2 was cut", "******* was cut"},
		{"hunt is no secret", "hunt is no secret"},
		{"hunhunter2secret", "hun*************"},
		{"", ""},
	};

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char text[64];

		snprintf(text, sizeof text, "%s", rows[i].text);
		otlp_mask(text, "hunter2secret");
		cr_expect_str_eq(text, rows[i].wanted);
	}
}

Test(mask, headers_lose_their_values_and_keep_the_scheme)
{
	const struct otlp_header items[] = {
		{"authorization", "Bearer  abcdef123456"}, {"x-key", "0123456789"}, {"x-tenant", "7"}};
	const struct otlp_headers headers = {.items = (struct otlp_header *)items, .n = 3};
	char text[] = "Bearer token abcdef123456 of tenant 7 with key 0123456789; got Bearer  abcdef123456";

	otlp_mask_headers(text, &headers);
	cr_expect_str_eq(text, "Bearer token ************ of tenant 7 with key **********; got "
			       "Bearer  ************");
}

Test(mask, short_values_are_no_secrets)
{
	char text[] = "12345 and 123456";

	otlp_mask(text, "12345");
	cr_expect_str_eq(text, "12345 and 123456");
}
