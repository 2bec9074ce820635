// SPDX-License-Identifier: Apache-2.0
// The page's texts: facts about the recording, legend, tooltip and the line of details.
'use strict';

const $ = id => document.getElementById(id);

// Explanations of frames for new users, by KIND.
const KIND_WORDS = ['native code', 'kernel', 'not a function: frames of the stack are missing here, as the name says',
	'Go code', 'code generated at run time (JIT)', ''];
const LEGEND = [
	[KIND.NATIVE, 'native', 'compiled code of programs and libraries'], [KIND.GO, 'go', 'compiled by Go'],
	[KIND.JIT, 'jit', 'generated at run time by a JIT compiler, not part of any file'], [KIND.KERNEL, 'kernel', 'the Linux kernel and its modules'],
];
const LEGEND_NAMES = {go: 'Go', jit: 'JIT'};

class Info {
	constructor(profile) {
		this.profile = profile;
		this.showFacts();
	}

	showFacts() {
		const {info} = this.profile, seconds = info.duration_ns / 1e9;

		$('title').textContent = info.command || info.host || 'proflet';
		document.title = `${info.command || info.host || 'profile'} – proflet flame graph`;
		if (info.command && info.host)
			this.addFact('Host', info.host);
		if (info.start_ms)
			this.addFact('Start', new Date(info.start_ms).toISOString().replace('T', ' ').replace(/\.\d+Z$/, ' UTC'));
		if (seconds)
			this.addFact('Duration', `${seconds.toFixed(1)} s`);
		if (info.hz)
			this.addFact('Frequency', `${info.hz} Hz`);
		if (info.hz && seconds)
			this.addFact('Busy', `${(info.samples / info.hz / seconds).toFixed(2)} CPUs`, 'average number of CPUs that ran the code shown here');
		this.addFact('Samples', formatCount(info.taken || info.samples), 'stacks that were recorded');
		this.addFact('Dropped', formatCount(info.dropped), 'samples that are not in this page', info.dropped > 0.005 * info.taken);
		this.addFact('Complete', formatPercent(info.complete, info.samples), 'stacks that were followed to their outermost function',
			info.complete < 0.97 * info.samples);
		if (info.merged)
			this.addFact('In [other]', formatCount(info.merged), 'samples whose stacks did not fit into memory', true);
		if (info.version)
			this.addFact('proflet', info.version);
	}

	addFact(term, value, meaning = '', warn = false) {
		const pair = element('div', warn ? 'warn' : '');

		pair.title = meaning;
		pair.append(element('dt', '', term), element('dd', '', value));
		$('facts').append(pair);
	}

	showLegend(profile, groups) {
		const sums = sumKinds(profile, groups);
		const item = (name, n, meaning, hue) => {
			const entry = element('li'), colour = element('i', hue === undefined ? name : 'runtime');

			if (hue !== undefined)
				colour.style.setProperty('--hue', hue);
			entry.title = `samples that ended in: ${meaning}`;
			entry.append(colour, element('span', '', `${LEGEND_NAMES[name] || name} ${formatPercent(n, sums.samples)}`));
			return entry;
		};
		const runtimes = [...new Set(Object.values(profile.runtime))].map(name => ({...runtimeOf(name), n: sums.byRuntime[name] || 0}));
		const kinds = LEGEND.filter(([kind]) => profile.kind.includes(kind, 1));

		$('legend').replaceChildren(...kinds.map(([kind, name, meaning]) => item(name, sums.byKind[kind], meaning)),
			...runtimes.map(r => item(r.language, r.n, `functions of ${r.language}`, r.hue)),
			item('truncated', sums.incomplete, 'incomplete stacks; the row [truncated: …] says why'));
	}

	numbers(samples, parent, tree) {
		const {info} = this.profile;
		const parts = [formatSamples(samples), `${formatPercent(samples, info.samples)} of all`];

		if (tree.root.total !== info.samples)
			parts.push(`${formatPercent(samples, tree.root.total)} of selection`);
		if (parent)
			parts.push(`${formatPercent(samples, parent.total)} of parent`);
		if (info.hz)
			parts.push(`${(samples / info.hz).toPrecision(3)} s CPU`);
		if (info.hz && info.duration_ns)
			parts.push(`${(samples / info.hz / (info.duration_ns / 1e9)).toPrecision(2)} CPUs busy`);
		return parts;
	}

	// Kind and origin of a frame; for a row above the stacks, the number of its processes.
	origin(node) {
		const {modules, module, file, runtime} = this.profile;

		if (!node.frame)
			return node.pids ? `${node.pids.size} process${node.pids.size === 1 ? '' : 'es'}` : '';
		const [path, buildId] = modules[module[node.frame]];
		const unnamed = node.kind === KIND.NATIVE && isUnnamed(node.name) ? ' in a file without a symbol here' : '';
		const words = runtime[node.frame] ? runtimeOf(runtime[node.frame]).language : KIND_WORDS[node.kind] + unnamed;
		const parts = [words, file[node.frame], path, buildId && `build id ${buildId.slice(0, 16)}`];

		return parts.filter(part => part && part !== '[kernel]').join(' · ');
	}

	self(node, tree) {
		return node.frame && !tree.callers ? [`self ${formatCount(node.self)} (${formatPercent(node.self, node.total)})`] : [];
	}

	showDetails(node, tree) {
		const parts = [...this.numbers(node.total, node.parent, tree), ...this.self(node, tree)], origin = this.origin(node);

		$('detail-name').textContent = node.label;
		$('detail-numbers').textContent = [...parts, origin].filter(part => part).join(' · ');
	}

	// `box` null hides it. Touch input has no tooltip: the line of details shows the same.
	showTip(box, event, tree, search) {
		const tip = $('tip');

		tip.hidden = !box || event.pointerType === 'touch';
		if (tip.hidden)
			return;
		if (this.tipBox !== box)
			this.fillTip(tip, box, tree, search);
		this.tipBox = box;
		const {width, height} = tip.getBoundingClientRect();
		const left = Math.min(event.clientX + 14, innerWidth - 4 - width), below = event.clientY + 18;
		const top = below + height > innerHeight - 4 ? event.clientY - 12 - height : below;

		tip.style.left = `${Math.max(4, left)}px`;
		tip.style.top = `${Math.max(4, top)}px`;
	}

	fillTip(tip, box, tree, search) {
		const {node, rest} = box, numbers = element('p', 'numbers');
		const parts = rest ? this.numbers(box.samples, node, tree)
			: [...this.numbers(node.total, node.parent, tree), ...this.self(node, tree)];
		const origin = rest ? `called from ${node.name}; click to expand those around here` : this.origin(node);

		numbers.append(...parts.map(part => element('span', '', part)));
		if (search.active && !rest)
			numbers.append(element('span', 'matched', `${formatPercent(search.samplesIn(node), node.total)} matched`));
		tip.replaceChildren(element('p', 'name', rest ? `${formatCount(rest)} frames, too narrow to draw` : node.label));
		if (origin)
			tip.append(element('p', 'origin', origin));
		tip.append(numbers);
	}

	stackText(node, tree) {
		const path = pathOf(node).filter(n => n.kind !== KIND.ALL).map(n => n.label);

		return `${path.join('\n')}\n${this.numbers(node.total, null, tree).join(', ')}\n`;
	}
}
