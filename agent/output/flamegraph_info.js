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
		this.comparison = null;
		this.showFacts();
	}

	showFacts() {
		const {info, difference} = this.profile, seconds = info.duration_ns / 1e9;

		if (difference) {
			this.showSides(difference);
			return;
		}
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
		if (!this.profile.times && info.samples)
			this.addFact('Timeline', 'none', 'the recording does not say when samples were taken');
	}

	showSides({sides}) {
		const names = sides.map(side => baseName(side.file));

		$('title').textContent = `${names[0]} → ${names[1]}`;
		document.title = `${names.join(' → ')} – proflet difference`;
		sides.forEach((side, i) => {
			const time = side.duration_ns ? `, ${(side.duration_ns / 1e9).toFixed(1)} s` : '';

			this.addFact(i ? 'B, after' : 'A, before', formatSamples(Math.round(side.samples)) + time, side.file);
		});
		if (sides.some(side => !side.weights))
			this.addFact('Noise', 'of independent samples', 'A recording has no times of samples, or too few of them, which ' +
				'tell how much a load varies by itself. Loads that vary look different more often.', true);
	}

	// How many functions have changed beyond noise, by their own code.
	showChanges(changes) {
		const certain = changes.filter(change => change && change.certain), more = certain.filter(change => change.by > 0).length;
		const parts = [[more, 'more'], [certain.length - more, 'less']].filter(([n]) => n).map(([n, word]) => `${formatCount(n)} take${n === 1 ? 's' : ''} ${word}`);

		this.addFact('Functions', parts.join(', ') || 'no difference beyond noise', 'shares of all samples, of a function\u2019s own code');
		$('facts').prepend($('facts').lastChild);
	}

	addFact(term, value, meaning = '', warn = false) {
		const pair = element('div', warn ? 'warn' : '');

		pair.title = meaning;
		pair.append(element('dt', '', term), element('dd', '', value));
		$('facts').append(pair);
	}

	// The scale of the colours of change.
	showScale(most) {
		const entry = (name, text) => {
			const item = element('li');

			item.append(element('i', name), element('span', '', text));
			return item;
		};

		$('legend').title = 'change of the share of all samples';
		$('legend').replaceChildren(entry('shrank', `less, to ${formatChange(-most)}`), entry('noise', 'noise'), entry('grew', `more, to ${formatChange(most)}`));
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

	// Of a node that is compared; `of` is the text for what it is a share of.
	changes({a, b, by, certain}, interval) {
		const [low, high] = interval || [];
		const verdict = certain ? [] : ['noise'];

		if (by === 0)
			return [`A ${(100 * a).toFixed(2)} %`, `B ${(100 * b).toFixed(2)} %`, 'no change'];
		return [`A ${(100 * a).toFixed(2)} %`, `B ${(100 * b).toFixed(2)} %`, `${formatChange(by)} of all`, ...verdict,
			...interval ? [`95 % interval ${formatChange(low)} … ${formatChange(high)}`] : []];
	}

	// What is said of a node: numbers of samples; where two recordings are compared, shares.
	numbersOf(node, tree) {
		if (this.comparison)
			return this.changes(this.comparison.of(node), this.comparison.intervalOf(node));
		return [...this.numbers(node.total, node.parent, tree), ...this.self(node, tree)];
	}

	numbers(samples, parent, tree) {
		const {info} = tree.profile;
		const parts = [formatSamples(samples), `${formatPercent(samples, info.samples)} of ${tree.profile.span ? 'the span' : 'all'}`];

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
		const parts = this.numbersOf(node, tree), origin = this.origin(node);

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
		const parts = rest ? this.numbers(box.samples, node, tree) : this.numbersOf(node, tree);
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

		return `${path.join('\n')}\n${(this.comparison ? this.numbersOf(node, tree) : this.numbers(node.total, null, tree)).join(', ')}\n`;
	}
}
