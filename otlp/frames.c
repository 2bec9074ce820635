// SPDX-License-Identifier: Apache-2.0
#include "otlp/frames.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "otlp/intern.h"

/* Encoded bytes of the parts of an entry that are no strings, tags and lengths included, rounded up. */
#define LOCATION_FIXED 48
#define FUNCTION_FIXED 24
#define LINE_FIXED 16
#define STACK_FIXED 16
#define STACK_ENTRY 5
#define MAPPING_FIXED 80
#define ATTR_FIXED 64 /* with its name, each of which occurs once in a dictionary */
#define STRING_FIXED 8
#define FALLBACK_FIXED 24 /* "+0x" and 16 digits */

void otlp_frames_reset(struct otlp_frames *f)
{
	f->native_attr = f->kernel_attr = 0;
	memset(f->modules, 0, sizeof f->modules);
	memo_clear(&f->locations);
}

void otlp_frames_fini(struct otlp_frames *f)
{
	memo_fini(&f->locations);
	buf_fini(&f->text);
}

static int intern_named_attr(struct otlp_dict *d, const char *name, const char *value, int32_t *ret)
{
	int32_t key;
	int r;

	r = otlp_dict_string(d, name, &key);
	return r < 0 ? r : otlp_dict_attr_string(d, key, value, ret);
}

static int frame_type_attr(struct otlp_frames *f, struct otlp_dict *d, const struct frame *frame,
			   int32_t *ret)
{
	int32_t *known = frame->kind == FRAME_KERNEL ? &f->kernel_attr : &f->native_attr;
	int r;

	if (frame->runtime)
		return intern_named_attr(d, "profile.frame.type", frame->runtime, ret);
	if (!*known) {
		r = intern_named_attr(d, "profile.frame.type",
				      frame->kind == FRAME_KERNEL ? "kernel" : "native", known);
		if (r < 0)
			return r;
	}
	*ret = *known;
	return 0;
}

static int build_id_attrs(struct otlp_dict *d, const struct frame_module *module, struct otlp_dict_mapping *m)
{
	const struct {
		const char *name, *value;
	} ids[OTLP_MAPPING_ATTRS_MAX] = {
		{"process.executable.build_id.gnu", module->build_id_gnu},
		{"process.executable.build_id.go", module->build_id_go},
		{"process.executable.build_id.htlhash", module->htlhash},
	};
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		if (!ids[i].value || !*ids[i].value)
			continue;
		r = intern_named_attr(d, ids[i].name, ids[i].value, &m->attrs[m->n_attrs]);
		if (r < 0)
			return r;
		m->n_attrs++;
	}
	return 0;
}

static bool module_known(const struct otlp_frames *f, const struct frame_module *module)
{
	return module->id && f->modules[module->id % OTLP_MODULE_CACHE].id == module->id;
}

static int intern_module(struct otlp_frames *f, struct otlp_dict *d, const struct frame_module *module,
			 int32_t *ret)
{
	struct otlp_dict_mapping m = {0};
	int r;

	if (!module) {
		*ret = 0;
		return 0;
	}
	if (module_known(f, module)) {
		*ret = f->modules[module->id % OTLP_MODULE_CACHE].mapping;
		return 0;
	}
	if (module->start < module->limit) { /* receivers refuse any other order, both zero excepted */
		m.start = module->start;
		m.limit = module->limit;
	}
	m.file_offset = module->file_offset;
	r = otlp_dict_string(d, module->path, &m.filename);
	if (r < 0)
		return r;
	r = build_id_attrs(d, module, &m);
	if (r < 0)
		return r;
	r = otlp_dict_mapping(d, &m, ret);
	if (r < 0 || !module->id)
		return r;
	f->modules[module->id % OTLP_MODULE_CACHE].id = module->id;
	f->modules[module->id % OTLP_MODULE_CACHE].mapping = *ret;
	return 0;
}

/* The module whose mapping the location may refer to: receivers refuse an address outside of it. The kernel's
 * own frames can be in code that no module has, made by its own compilers. */
static const struct frame_module *mapping_of(const struct frame *frame)
{
	const struct frame_module *m = frame->kind == FRAME_ENDING ? NULL : frame->module;

	if (m && m->start < m->limit && (frame->address < m->start || frame->address > m->limit))
		return NULL;
	return m;
}

/* The text of the frame's line, borrowed from the frame or from f->text; *ret NULL: none. */
static int line_text(struct otlp_frames *f, const struct frame *frame, const char **ret)
{
	int r = 0;

	*ret = frame->function;
	if (*ret && **ret)
		return 0;
	if (frame->kind == FRAME_ENDING) {
		*ret = "[truncated]";
	} else if (f->bare && frame->kind == FRAME_NATIVE) {
		*ret = NULL;
	} else if (!frame->module) {
		*ret = "[anonymous]"; /* with the address, JIT code would be a name of its own in every
					 process */
	} else {
		buf_clear(&f->text);
		r = buf_printf(&f->text, "%.4000s+0x%" PRIx64, frame->module->name,
			       frame_unnamed_offset(frame));
		*ret = buf_str(&f->text);
	}
	return r;
}

static size_t lines_of(const struct frame *frame)
{
	return frame->n_lines < OTLP_LINES_MAX ? frame->n_lines : OTLP_LINES_MAX;
}

/* Inlined calls are lines of one location, each of a function of its own. */
static int intern_lines(struct otlp_frames *f, struct otlp_dict *d, const struct frame *frame,
			struct otlp_dict_location *l, int32_t *ret)
{
	struct otlp_dict_line lines[OTLP_LINES_MAX] = {0};
	size_t n = lines_of(frame);
	int32_t name, system, file;
	int r = intern_module(f, d, mapping_of(frame), &l->mapping);

	for (size_t i = 0; i < n && r == 0; i++) {
		r = otlp_dict_string(d, frame->lines[i].function, &name);
		if (r == 0)
			r = otlp_dict_string(d, frame->lines[i].file, &file);
		if (r == 0)
			r = otlp_dict_string(d, i + 1 == frame->n_lines ? frame->system_name : NULL, &system);
		if (r == 0)
			r = otlp_dict_function(d, name, system, file, &lines[i].function);
		lines[i].line = frame->lines[i].line;
	}
	return r < 0 ? r : otlp_dict_location_lines(d, l, lines, n, ret);
}

static int intern_frame(struct otlp_frames *f, struct otlp_dict *d, const struct frame *frame, int32_t *ret)
{
	struct otlp_dict_location l = {.address = frame->address};
	int32_t name, system_name = 0;
	const char *text;
	int r;

	r = frame_type_attr(f, d, frame, &l.attr);
	if (r < 0)
		return r;
	if (frame->n_lines)
		return intern_lines(f, d, frame, &l, ret);
	r = line_text(f, frame, &text);
	if (r < 0)
		return r;
	if (text) {
		r = otlp_dict_string(d, text, &name);
		if (r < 0)
			return r;
		if (text == frame->function)
			r = otlp_dict_string(d, frame->system_name, &system_name);
		if (r < 0)
			return r;
		r = otlp_dict_function(d, name, system_name, 0, &l.function);
		if (r < 0)
			return r;
	}
	r = intern_module(f, d, mapping_of(frame), &l.mapping);
	return r < 0 ? r : otlp_dict_location(d, &l, ret);
}

/* A byte that is no UTF-8 becomes three. */
static size_t string_bound(const char *s)
{
	size_t len = s ? strlen(s) : 0;

	return STRING_FIXED + (len < OTLP_STRING_MAX / 3 ? 3 * len : OTLP_STRING_MAX);
}

static size_t module_bound(const struct frame_module *m)
{
	return MAPPING_FIXED + string_bound(m->path) + 3 * ATTR_FIXED + string_bound(m->build_id_gnu) +
	       string_bound(m->build_id_go) + string_bound(m->htlhash);
}

/* The last module is the caller's: frames of one come in runs. */
static size_t frame_bound(const struct otlp_frames *f, const struct frame *frame,
			  const struct frame_module **last)
{
	size_t bound = LOCATION_FIXED + FUNCTION_FIXED;

	for (size_t i = 0; i < lines_of(frame); i++)
		bound += FUNCTION_FIXED + LINE_FIXED + string_bound(frame->lines[i].function) +
			 string_bound(frame->lines[i].file);
	if (frame->runtime)
		bound += ATTR_FIXED + string_bound(frame->runtime);
	if (frame->function && *frame->function)
		bound += string_bound(frame->function) + string_bound(frame->system_name);
	else
		bound += FALLBACK_FIXED + string_bound(frame->module ? frame->module->name : NULL);
	if (!frame->module || frame->module == *last || module_known(f, frame->module))
		return bound;
	*last = frame->module;
	return bound + module_bound(frame->module);
}

/* Frames that are cut come from just inside the outermost one, which may say why the unwind ended. */
static uint64_t id_at(const uint64_t *ids, size_t n, size_t i)
{
	return n > OTLP_FRAMES_MAX && i == OTLP_FRAMES_MAX - 1 ? ids[n - 1] : ids[i];
}

void otlp_frames_find(struct otlp_frames *f, const uint64_t *ids, size_t n, struct otlp_frames_stack *ret)
{
	size_t n_used = n < OTLP_FRAMES_MAX ? n : OTLP_FRAMES_MAX;
	const struct frame_module *last = NULL;
	struct frame frame;

	ret->ids = ids;
	ret->n = n;
	ret->bound = STACK_FIXED + 2 * ATTR_FIXED + n_used * STACK_ENTRY;
	for (size_t i = 0; i < n_used; i++) {
		uint64_t id = id_at(ids, n, i);

		if (memo_get(&f->locations, id, &ret->known[i]))
			continue;
		ret->known[i] = -1;
		f->resolve(f->data, id, &frame);
		ret->bound += frame_bound(f, &frame, &last);
	}
}

static int intern_id(struct otlp_frames *f, struct otlp_dict *d, uint64_t id, int32_t *ret)
{
	struct frame frame;
	int r;

	if (memo_get(&f->locations, id, ret)) /* the same frame again in one stack */
		return 0;
	f->resolve(f->data, id, &frame);
	r = intern_frame(f, d, &frame, ret);
	if (r == 0)
		memo_put(&f->locations, id, *ret);
	return r;
}

int otlp_frames_intern(struct otlp_frames *f, struct otlp_dict *d, const struct otlp_frames_stack *s,
		       int32_t *ret)
{
	size_t n_used = s->n < OTLP_FRAMES_MAX ? s->n : OTLP_FRAMES_MAX;
	int32_t locations[OTLP_FRAMES_MAX];
	int r;

	for (size_t i = 0; i < n_used; i++) {
		locations[i] = s->known[i];
		if (locations[i] >= 0)
			continue;
		r = intern_id(f, d, id_at(s->ids, s->n, i), &locations[i]);
		if (r < 0)
			return r;
	}
	return otlp_dict_stack(d, locations, n_used, ret);
}
