// SPDX-License-Identifier: Apache-2.0
// The data of the page and the trees built from it. Nothing here accesses the document.
//
// The recording is one prefix tree per group (process, thread, container), all in preorder in flat arrays. The page
// draws a second tree, of TreeNodes: each stands for a set of recorded nodes and gets its children only when they are
// needed, so that a large recording opens at once and the cost depends on what is visible.
'use strict';

// Kinds of recorded frames as in the data (enum page_kind of html.c), then those of the rows above them.
const KIND = {NATIVE: 0, KERNEL: 1, ENDING: 2, GO: 3, JIT: 4, RUNTIME: 5, ALL: 6, CONTAINER: 7, PROCESS: 8, THREAD: 9};

// Language runtimes, by their names in the data: what readers call the language, and the hue of its functions.
const RUNTIMES = {
	cpython: {language: 'Python', hue: 56}, v8js: {language: 'JavaScript', hue: 80}, beam: {language: 'Erlang', hue: 104},
	lua: {language: 'Lua', hue: 126}, luajit: {language: 'Lua', hue: 126}, perl: {language: 'Perl', hue: 148}, php: {language: 'PHP', hue: 234},
	dotnet: {language: '.NET', hue: 254}, jvm: {language: 'Java', hue: 314}, ruby: {language: 'Ruby', hue: 1},
};

function runtimeOf(name) {
	return Object.hasOwn(RUNTIMES, name) ? RUNTIMES[name] : {language: name, hue: 340};
}

// Decodes the numbers in a text, in the encoding that html.c describes.
function decodeNumbers(text) {
	const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
	const valueOf = new Uint8Array(128), numbers = new Float64Array(text.length);
	let n = 0, value = 0, scale = 1;

	for (let i = 0; i < 64; i++)
		valueOf[digits.charCodeAt(i)] = i;
	for (let i = 0; i < text.length; i++) {
		const digit = valueOf[text.charCodeAt(i)];

		value += (digit & 31) * scale; // no shift: a count may need more than 32 bits
		scale *= 32;
		if (digit < 32) {
			numbers[n++] = value;
			value = 0;
			scale = 1;
		}
	}
	return numbers.subarray(0, n);
}

function decodeProfile(data) {
	const numbers = decodeNumbers(data.nodes), n = numbers.length / 3;
	const frame = new Int32Array(n), parent = new Int32Array(n);
	const self = new Float64Array(n);
	const roots = [], path = [];
	let below = 0; // the level of a child of the previous node

	for (let i = 0; i < n; i++) {
		const level = below - numbers[3 * i];

		frame[i] = numbers[3 * i + 1];
		self[i] = numbers[3 * i + 2];
		parent[i] = level ? path[level - 1] : -1;
		path[level] = i;
		below = level + 1;
		if (!level)
			roots.push(i);
	}
	const {end, total} = sumTrees(parent, self);

	return {
		info: data.info, modules: data.modules, name: data.name, module: data.module, kind: data.kind, file: data.file,
		runtime: data.runtime, difference: data.difference, frame, parent, end, self, total,
		counted: self, // `self` of both recordings, where there are two and `self` has one
		times: data.time && decodeTimes(data.time, self),
		groups: data.groups.map((g, i) => decodeGroup(g, roots[i], total[roots[i]])),
	};
}

// Of every node the samples at and below it, and the index behind its last descendant.
function sumTrees(parent, self) {
	const n = parent.length, end = new Int32Array(n), total = new Float64Array(n);

	for (let i = n - 1; i >= 0; i--) { // in preorder children come after their parent
		total[i] += self[i];
		end[i] = Math.max(end[i], i + 1);
		if (parent[i] >= 0) {
			total[parent[i]] += total[i];
			end[parent[i]] = Math.max(end[parent[i]], end[i]);
		}
	}
	return {end, total};
}

// Whether any function belongs to a language runtime.
function hasLanguages(profile) {
	return profile.kind.includes(KIND.RUNTIME, 1);
}

// Builds the trees of hideNative: nodes are added in any order, and come out in preorder.
class TreeBuilder {
	constructor(nFunctions) {
		this.nFunctions = nFunctions;
		this.byKey = new Map();
		this.frame = [];
		this.self = [];
		this.first = [];   // child, or -1
		this.sibling = []; // the next one, or -1
		this.sources = []; // the recorded nodes whose samples it has
	}

	add(parent, frame) {
		const id = this.frame.length;

		this.frame.push(frame);
		this.self.push(0);
		this.sources.push([]);
		this.first.push(-1);
		this.sibling.push(parent < 0 ? -1 : this.first[parent]);
		if (parent >= 0)
			this.first[parent] = id;
		return id;
	}

	child(parent, frame) {
		const key = parent * this.nFunctions + frame;
		let id = this.byKey.get(key);

		if (id === undefined)
			this.byKey.set(key, id = this.add(parent, frame));
		return id;
	}

	addSamples(id, samples, source) {
		this.self[id] += samples;
		this.sources[id].push(source);
	}

	// `roots` in their order. Returns the arrays of decodeProfile.
	preorder(roots) {
		const n = this.frame.length, frame = new Int32Array(n), parent = new Int32Array(n), self = new Float64Array(n);
		const sources = [];
		const pending = roots.map(id => [id, -1]).reverse();

		for (let i = 0; pending.length; i++) {
			const [id, up] = pending.pop();

			frame[i] = this.frame[id];
			self[i] = this.self[id];
			sources[i] = this.sources[id];
			parent[i] = up;
			for (let c = this.first[id]; c >= 0; c = this.sibling[c])
				pending.push([c, i]);
		}
		return {frame, parent, self, counted: self, sources, ...sumTrees(parent, self)};
	}
}

// The same profile without the native frames of those stacks that have frames of a language runtime. Frames of the
// kernel stay, and so do all other stacks. A node of the recording may be in stacks of both kinds: `whole` is where it
// is in those that stay as they are, `brief` in the others.
function hideNative(profile) {
	const {frame, parent, self, kind} = profile, n = frame.length;
	const language = new Uint8Array(n), inWhole = new Uint8Array(n), inBrief = new Uint8Array(n);
	const whole = new Int32Array(n), brief = new Int32Array(n), builder = new TreeBuilder(profile.name.length);
	const hidden = f => kind[f] === KIND.NATIVE || kind[f] === KIND.GO || kind[f] === KIND.JIT;

	for (let i = 0; i < n; i++) {
		language[i] = parent[i] >= 0 && (language[parent[i]] || kind[frame[i]] === KIND.RUNTIME) ? 1 : 0;
		inWhole[i] = self[i] && !language[i] ? 1 : 0;
		inBrief[i] = self[i] && language[i] ? 1 : 0;
	}
	for (let i = n - 1; i >= 0; i--)
		if (parent[i] >= 0) {
			inWhole[parent[i]] |= inWhole[i];
			inBrief[parent[i]] |= inBrief[i];
		}
	for (let i = 0; i < n; i++) {
		const up = parent[i];

		if (up < 0) {
			whole[i] = brief[i] = builder.add(-1, 0);
			continue;
		}
		if (inWhole[i])
			whole[i] = builder.child(whole[up], frame[i]);
		if (inBrief[i])
			brief[i] = hidden(frame[i]) ? brief[up] : builder.child(brief[up], frame[i]);
		if (self[i])
			builder.addSamples(language[i] ? brief[i] : whole[i], self[i], i);
	}
	const {sources, ...trees} = builder.preorder(profile.groups.map(g => whole[g.root])), roots = [];

	trees.parent.forEach((up, i) => {
		if (up < 0)
			roots.push(i);
	});
	const times = profile.times && regroupTimes(profile.times, sources);

	return {...profile, ...trees, times, groups: profile.groups.map((g, i) => ({...g, root: roots[i]}))};
}

function decodeGroup([id, name, process, pid, thread, complete, after], root, samples) {
	const short = id.slice(0, 12);

	return {
		root, samples, complete, process, pid, thread,
		after: Boolean(after), // of the second recording, where there are two
		container: id || 'host',
		containerLabel: name ? `${name} (${short})` : short || 'host',
	};
}

function selectGroups(profile, {container, process}) {
	return profile.groups.filter(g => (!container || g.container === container) && (!process || g.process === process));
}

class TreeNode {
	constructor(parent, key, name, kind, frame) {
		this.parent = parent;
		this.key = key;     // unique among siblings and equal in every view: for the page's address
		this.name = name;
		this.kind = kind;
		this.frame = frame; // function id, 0 for rows above the stacks
		this.depth = parent ? parent.depth + 1 : 0;
		this.items = [];    // recorded nodes; those of a row above the stacks are roots of groups
		this.leaves = null; // callers' view: where the stack of items[i] ended
		this.total = 0;
		this.self = 0;
		this.start = 0;     // samples left of it
		this.kids = null;   // see Tree.children
		this.pids = null;
	}

	// The name to draw, with the number of processes if there are several.
	get label() {
		return this.pids && this.pids.size > 1 && this.kind === KIND.PROCESS ? `${this.name} (${this.pids.size} PIDs)` : this.name;
	}
}

// Those without samples are left out: they are of another span of time, or of the other recording.
function place(parent, all) {
	const kids = all.filter(k => k.total);
	let start = parent.start;

	kids.sort((a, b) => b.total - a.total || (a.name < b.name ? -1 : a.name > b.name ? 1 : a.frame - b.frame));
	for (const k of kids) {
		k.start = start;
		start += k.total;
	}
	return kids;
}

class Tree {
	// view: {rows: {container, process, pid, thread}, callers, container, process}
	constructor(profile, view) {
		this.profile = profile;
		this.callers = view.callers;
		this.rows = view.rows;
		this.groups = selectGroups(profile, view);
		this.root = new TreeNode(null, 'all', 'all', KIND.ALL, 0);
		for (const g of this.groups)
			this.addGroup(g);
		this.placeRows(this.root);
	}

	addGroup(g) {
		const rows = this.rows;
		let at = this.root;

		this.addToRow(at, g);
		if (rows.container)
			this.addToRow(at = this.row(at, `c${g.container}`, g.containerLabel, KIND.CONTAINER), g);
		if (rows.process && rows.pid)
			this.addToRow(at = this.row(at, `p${g.process}:${g.pid}`, `${g.process} (${g.pid || 'several'})`, KIND.PROCESS), g);
		else if (rows.process)
			this.addToRow(at = this.row(at, `p${g.process}`, g.process, KIND.PROCESS), g);
		if (rows.thread)
			this.addToRow(this.row(at, `t${g.thread}`, g.thread || '(unnamed thread)', KIND.THREAD), g);
	}

	row(parent, key, name, kind) {
		parent.kids = parent.kids || [];
		parent.byKey = parent.byKey || new Map();
		let node = parent.byKey.get(key);

		if (!node) {
			node = new TreeNode(parent, key, name, kind, 0);
			parent.byKey.set(key, node);
			parent.kids.push(node);
		}
		return node;
	}

	addToRow(node, g) {
		node.items.push(g.root);
		node.total += g.samples;
		if (!this.profile.difference && g.samples) // a process has another PID in each of two recordings
			(node.pids = node.pids || new Set()).add(g.pid);
	}

	placeRows(node) {
		if (!node.kids)
			return;
		node.kids = place(node, node.kids);
		node.kids.forEach(k => this.placeRows(k));
	}

	children(node) {
		if (!node.kids) {
			const byFrame = new Map();

			if (!this.callers)
				this.expandCallees(node, byFrame);
			else if (node.leaves)
				this.expandCallers(node, byFrame);
			else
				this.expandLeaves(node, byFrame);
			node.kids = place(node, [...byFrame.values()]);
		}
		return node.kids;
	}

	child(node, byFrame, frame) {
		let child = byFrame.get(frame);

		if (!child) {
			child = new TreeNode(node, String(frame), this.profile.name[frame], this.profile.kind[frame], frame);
			byFrame.set(frame, child);
		}
		return child;
	}

	expandCallees(node, byFrame) {
		const {frame, end, total, self} = this.profile;

		for (const i of node.items) {
			for (let c = i + 1; c < end[i]; c = end[c]) {
				const child = this.child(node, byFrame, frame[c]);

				child.items.push(c);
				child.total += total[c];
				child.self += self[c];
			}
		}
	}

	// Callers' view: first the functions in which samples ended, then from each its callers.
	expandLeaves(node, byFrame) {
		for (const root of node.items)
			for (let i = root + 1; i < this.profile.end[root]; i++)
				if (this.profile.counted[i])
					this.addCaller(this.child(node, byFrame, this.profile.frame[i]), i, i, true);
	}

	expandCallers(node, byFrame) {
		const {frame, parent} = this.profile;

		node.items.forEach((i, k) => {
			const up = parent[i];

			if (parent[up] >= 0)
				this.addCaller(this.child(node, byFrame, frame[up]), up, node.leaves[k], false);
		});
	}

	addCaller(child, item, leaf, isLeaf) {
		const samples = this.profile.self[leaf];

		child.items.push(item);
		(child.leaves = child.leaves || []).push(leaf);
		child.total += samples;
		child.self += isLeaf ? samples : 0;
	}

	// The node that a list of keys names, or the deepest of them that this view has.
	find(keys) {
		let node = this.root;

		for (const key of keys)
			node = this.children(node).find(k => k.key === key) || node;
		return node;
	}
}

function pathOf(node) {
	const path = [];

	for (let n = node; n; n = n.parent)
		path.unshift(n);
	return path;
}

// Which functions, rows and stacks a regular expression matches. Smart case: upper case letters count when typed.
class Search {
	constructor(profile, tree, query) {
		this.profile = profile;
		this.tree = tree;
		this.regex = null;
		this.error = false;
		if (!query)
			return;
		try {
			this.regex = new RegExp(query, query === query.toLowerCase() ? 'i' : '');
		} catch {
			this.error = true;
			return;
		}
		this.hit = Uint8Array.from(profile.name, (name, i) => i > 0 && this.regex.test(name) ? 1 : 0);
		this.nFunctions = this.hit.reduce((a, b) => a + b, 0);
		this.markStacks();
	}

	get active() {
		return this.regex !== null;
	}

	markStacks() {
		const {frame, parent, self, end} = this.profile;
		const stack = this.stack = new Uint8Array(frame.length);   // a match on the way from the root to here
		const below = this.below = new Float64Array(frame.length); // samples of such stacks below

		for (const g of this.tree.groups) {
			const last = end[g.root] - 1;

			stack[g.root] = this.matchesGroup(g) ? 1 : 0;
			for (let i = g.root + 1; i <= last; i++)
				stack[i] = stack[parent[i]] | this.hit[frame[i]];
			for (let i = last; i >= g.root; i--) {
				below[i] += stack[i] ? self[i] : 0;
				if (i > g.root)
					below[parent[i]] += below[i];
			}
		}
	}

	matchesGroup(g) {
		const rows = this.tree.rows;

		return rows.container && this.regex.test(g.containerLabel) || rows.process && this.regex.test(g.process) ||
			rows.thread && this.regex.test(g.thread);
	}

	matches(node) {
		if (!this.regex || node.kind === KIND.ALL)
			return false;
		return node.frame ? this.hit[node.frame] === 1 : this.regex.test(node.name);
	}

	samplesIn(node) {
		let sum = 0;

		node.items.forEach((i, k) => {
			if (!node.leaves)
				sum += this.below[i];
			else if (this.stack[node.leaves[k]])
				sum += this.profile.self[node.leaves[k]];
		});
		return sum;
	}
}

// Self and total samples of every function in the groups; recursion counts once.
function sumFunctions(profile, groups) {
	const {frame, end, self, total, name} = profile;
	const sums = {self: new Float64Array(name.length), total: new Float64Array(name.length)};
	const onPath = new Int32Array(name.length);

	for (const g of groups) {
		const path = [];
		const leave = until => {
			while (path.length && end[path[path.length - 1]] <= until)
				onPath[frame[path.pop()]]--;
		};

		for (let i = g.root + 1; i < end[g.root]; i++) {
			leave(i);
			sums.self[frame[i]] += self[i];
			if (onPath[frame[i]]++ === 0)
				sums.total[frame[i]] += total[i];
			path.push(i);
		}
		leave(Infinity);
	}
	return sums;
}

// Samples by kind of the function they ended in (index: KIND), by language runtime, and how many stacks are not
// complete.
function sumKinds(profile, groups) {
	const sums = {byKind: new Array(KIND.ALL).fill(0), byRuntime: {}, incomplete: 0, samples: 0};

	for (const g of groups) {
		for (let i = g.root + 1; i < profile.end[g.root]; i++) {
			const f = profile.frame[i], runtime = profile.runtime[f];

			sums.byKind[profile.kind[f]] += profile.self[i];
			if (runtime)
				sums.byRuntime[runtime] = (sums.byRuntime[runtime] || 0) + profile.self[i];
		}
		sums.samples += g.samples;
		sums.incomplete += g.samples - g.complete;
	}
	return sums;
}
