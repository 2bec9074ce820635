// SPDX-License-Identifier: Apache-2.0
// The model of a page (argument 1, made of recording_add_python of recording.h): functions of a language runtime, and the
// stacks without native frames.
import assert from 'node:assert/strict';
import {load} from './page_model.mjs';

const {data, model} = load(process.argv[2]);
const same = (a, b, text) => assert.deepEqual(JSON.parse(JSON.stringify(a)), b, text);
const profile = model.decodeProfile(data), brief = model.hideNative(profile);

// "root;…;leaf samples" of every stack, sorted.
function stacks({frame, parent, self, name}) {
	const lines = [];

	self.forEach((n, i) => {
		const path = [];

		for (let at = i; n && parent[at] >= 0; at = parent[at])
			path.unshift(name[frame[at]]);
		if (n)
			lines.push(`${path.join(';')} ${n}`);
	});
	return lines.sort();
}

const view = {rows: {process: true}, callers: false, container: '', process: ''};
const show = (tree, node) => tree.children(node).map(n => [n.name, n.total]);

assert.ok(model.hasLanguages(profile));
same(stacks(brief), [
	'<module>;Shop.run 1', '<module>;Shop.run;vfs_read 2', '<module>;f.<lambda> 16',
	'<module>;f.<lambda> 4', '<module>;f.<lambda> 8', '[unknown function] 32', 'main;collect 64',
].sort(), 'native frames go, in stacks with functions of Python only; those of the kernel stay');
assert.equal(brief.groups[0].samples, 127);
assert.equal(brief.total[brief.groups[0].root], 127);
assert.equal(brief.end[brief.groups[0].root], brief.frame.length);
for (let i = 1; i < brief.frame.length; i++)
	assert.ok(brief.parent[i] < i && brief.end[brief.parent[i]] >= brief.end[i], 'preorder');

const tree = new model.Tree(brief, view), row = tree.children(tree.root)[0];
same(show(tree, row), [['main', 64], ['[unknown function]', 32], ['<module>', 31]]);
same(show(tree, row.kids.find(k => k.name === '<module>')).map(([, n]) => n), [16, 8, 4, 3], 'functions of one name are three');
const callers = new model.Tree(brief, {...view, callers: true});
same(show(callers, callers.children(callers.root)[0])[0], ['collect', 64]);

const sums = model.sumKinds(profile, profile.groups), less = model.sumKinds(brief, brief.groups);
same(sums.byRuntime, {cpython: 60});
same(sums.byKind, [65, 2, 0, 0, 0, 60]);
same(less.byRuntime, {cpython: 61}, 'a sample that ended in a native frame counts for its caller');
assert.equal(less.byKind[model.KIND.NATIVE], 64);

const texts = ['Shop.run', '[unknown function]', 'main'].map(n => model.moduleText(profile, profile.name.indexOf(n)));
same(texts, ['__init__.py:10', 'cpython', 'app']);
assert.equal(model.runtimeOf('cpython').language, 'Python');
assert.equal(model.runtimeOf('constructor').language, 'constructor', 'a name that is not in the table');

// Text on any colour of a language can be read (WCAG AA), in both themes.
function rgb(colour) {
	const [h, s, l] = colour.match(/[\d.]+/g).map(Number), a = s / 100 * Math.min(l / 100, 1 - l / 100);

	return [0, 8, 4].map(n => l / 100 - a * Math.max(-1, Math.min((n + h / 30) % 12 - 3, 9 - (n + h / 30) % 12, 1)));
}

function luminance(parts) {
	const [r, g, b] = parts.map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);

	return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

for (const [name, theme] of Object.entries(model.THEMES))
	for (const [runtime, {hue}] of Object.entries(model.RUNTIMES))
		for (const spread of [0, 0.5, 1]) {
			const text = luminance(theme.text.match(/\w\w/g).map(v => parseInt(v, 16) / 255));
			const fill = luminance(rgb(theme.runtime(hue, spread)));
			const contrast = (Math.max(text, fill) + 0.05) / (Math.min(text, fill) + 0.05);

			assert.ok(contrast >= 4.5, `${name}, ${runtime}: contrast ${contrast.toFixed(2)}`);
		}
