// SPDX-License-Identifier: Apache-2.0
// Runs the model of a page that compares two recordings (argument 1, see the test two_recordings).
import assert from 'node:assert/strict';
import {load} from './page_model.mjs';

const {data, model} = load(process.argv[2]);
const same = (a, b, text) => assert.deepEqual(JSON.parse(JSON.stringify(a)), b, text);
const profile = model.decodeProfile(data), view = {rows: {process: true}, callers: false, container: '', process: ''};
const near = (a, b) => assert.ok(Math.abs(a - b) < 1e-9, `${a}, not ${b}`);

// A: 100 samples, 50 of steady, 50 of gone; B: 200 samples, 100 of steady, 100 of fresh; in 4 blocks
for (const [side, total, names] of [['b', 200, ['fresh', 'steady']], ['a', 100, ['gone', 'steady']]]) {
	const shown = model.weigh(profile, side), comparison = new model.Comparison(shown), tree = new model.Tree(shown, view);
	const main = tree.children(tree.children(tree.root)[0])[0], kids = tree.children(main);

	same([tree.root.total, main.total, kids.map(n => n.name)], [total, total, names], 'widths are those of one recording');
	const [changed, steady] = kids.map(n => comparison.of(n));
	near(steady.by, 0);
	near(changed.by, side === 'b' ? 0.5 : -0.5);
	assert.ok(changed.certain && !steady.certain);
	same(comparison.of(tree.root), {a: 1, b: 1, by: 0, certain: false});
	const callers = new model.Tree(shown, {...view, callers: true}), leaves = callers.children(callers.children(callers.root)[0]);
	near(comparison.of(leaves.find(n => n.name === 'steady')).a, 0.5);
	const {self, total: totals} = comparison.functions(shown.groups), of = name => profile.name.indexOf(name);
	near(self[of('fresh')].by, 0.5);
	near(self[of('gone')].by, -0.5);
	near(totals[of('main')].by, 0);
	same(self[of('fresh')].interval.map(v => v.toFixed(2)), ['0.25', '0.75'], 'of the recordings that were drawn');
}
