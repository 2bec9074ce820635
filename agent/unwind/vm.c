// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/vm.h"

#include <errno.h>

static int run_hotspot(struct vm_process *p, struct parser_session *session, const struct vm_target *target,
		       const struct vm_wanted *wanted, size_t n, struct buf *answer)
{
	struct hotspot_process x = {.vm = p->vm.hotspot, .layout = p->hotspot, .mem = target->mem};
	int r = hotspot_job_run(session, &x, wanted, n, answer);

	p->hotspot = x.layout;
	return r;
}

static int run_beam(struct vm_process *p, struct parser_session *session, const struct vm_target *target,
		    const struct vm_wanted *wanted, size_t n, struct buf *answer)
{
	struct beam_process x = {.vm = p->vm.beam, .layout = p->beam, .mem = target->mem};
	int r = beam_job_run(session, &x, wanted, n, answer);

	p->beam = x.layout;
	return r;
}

static int run_dotnet(struct vm_process *p, struct parser_session *session, const struct vm_target *target,
		      const struct vm_wanted *wanted, size_t n, struct buf *answer)
{
	struct dotnet_process x = {
		.vm = p->vm.dotnet, .pid = target->pid, .mem = target->mem, .absent = p->dotnet};
	int r = dotnet_job_run(session, &x, wanted, n, answer);

	p->dotnet = x.absent;
	return r;
}

/* An error after which a virtual machine is not looked at again. */
static bool is_refusal(int r)
{
	return r == -ENOTSUP || r == -EBADMSG || r == -ENOTRECOVERABLE || r == -ETIMEDOUT || r == -ETIME;
}

int vm_process_run(struct vm_process *p, struct parser_session *session, const struct vm_target *target,
		   const struct vm_wanted *wanted, size_t n, struct buf *answer)
{
	int r = -ENOTSUP;

	if (p->vm.kind == VM_HOTSPOT)
		r = run_hotspot(p, session, target, wanted, n, answer);
	else if (p->vm.kind == VM_BEAM)
		r = run_beam(p, session, target, wanted, n, answer);
	else if (p->vm.kind == VM_DOTNET)
		r = run_dotnet(p, session, target, wanted, n, answer);
	else if (p->vm.kind == VM_V8)
		r = v8_rows_job_run(session, target->mem, &p->vm.v8, wanted, n, answer);
	p->known |= r == 0;
	p->refused = is_refusal(r) ? r : 0;
	return r;
}

uint32_t vm_process_java_version(const struct vm_process *p)
{
	return p->vm.kind == VM_HOTSPOT ? p->hotspot.version : 0;
}

void vm_process_unloaded(const struct vm_process *p, uint64_t *ret_before, uint64_t *ret_after)
{
	const bool hotspot = p->vm.kind == VM_HOTSPOT;

	*ret_before = hotspot ? p->hotspot.unloaded_before : 0;
	*ret_after = hotspot ? p->hotspot.unloaded_after : 0;
}

const struct code_heaps *vm_process_heaps(const struct vm_process *p)
{
	return p->vm.kind == VM_HOTSPOT && p->known && p->hotspot.code.method ? &p->hotspot.code : NULL;
}
