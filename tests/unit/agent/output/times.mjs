// SPDX-License-Identifier: Apache-2.0
// Runs the model of a page (argument 1, see the test times_of_samples) and checks spans of time.
import assert from 'node:assert/strict';
import {load} from './page_model.mjs';

const {data, model} = load(process.argv[2]);
const same = (a, b, text) => assert.deepEqual(JSON.parse(JSON.stringify(a)), b, text);
const profile = model.decodeProfile(data), {times} = profile;
const view = {rows: {process: true}, callers: false, container: '', process: ''};

// one sample of `even` in each even millisecond, three of `odd` in each odd one; five without a time
assert.equal(times.width, 2 ** 20);
assert.equal(times.columns, 100);
assert.equal(times.from, 0, 'the recording begins with the first column');
const all = model.withinSpan(profile, {from: 0, to: 100});
assert.equal(all.info.samples, 200);
assert.equal(profile.info.samples, 205);
const half = model.withinSpan(profile, {from: 0, to: 51}), tree = new model.Tree(half, view);
const main = tree.children(tree.children(tree.root)[0])[0];
same([tree.root.total, main.name, main.total], [26 + 75, 'main', 26 + 75]);
same(tree.children(main).map(n => [n.name, n.total]), [['odd', 75], ['even', 26]]);
same(half.groups.map(g => [g.samples, g.complete]), [[101, 101]]);
assert.equal(half.info.duration_ns, 51 * 2 ** 20);
const one = model.withinSpan(profile, {from: 2, to: 3}), single = new model.Tree(one, view);
same(single.children(single.children(single.children(single.root)[0])[0]).map(n => n.name), ['even'], 'what has no sample is not there');
const callers = new model.Tree(one, {...view, callers: true});
same(callers.children(callers.children(callers.root)[0]).map(n => [n.name, n.total]), [['even', 1]]);
same([...model.columnsOf(times, 0, profile.frame.length)].slice(0, 4), [1, 3, 1, 3]);
const sums = model.sumFunctions(half, half.groups);
assert.equal(sums.total[profile.name.indexOf('main')], 101);
