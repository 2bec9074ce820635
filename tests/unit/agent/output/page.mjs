// SPDX-License-Identifier: Apache-2.0
// Runs the model and the text helpers of a page (argument 1, made of the recording in recording.h plus a hostile
// stack and one of Go) without a browser and checks what they make of the data.
import assert from 'node:assert/strict';
import {load} from './page_model.mjs';

const {data, model} = load(process.argv[2]);
const same = (a, b, text) => assert.deepEqual(JSON.parse(JSON.stringify(a)), b, text);

const profile = model.decodeProfile(data);
const rows = {container: true, process: true, pid: false, thread: false};
const view = {rows, callers: false, container: '', process: ''};
const tree = new model.Tree(profile, view);
const show = node => tree.children(node).map(n => [n.label, n.total]);
const walk = (t, ...path) => path.reduce((node, name) => t.children(node).find(n => n.name === name), t.root);

assert.equal(data.info.samples, 122);
assert.equal(tree.root.total, 122);
same(show(tree.root).slice(0, 2), [['host', 66], ['0123456789ab', 55]]);
same(show(walk(tree, '0123456789ab')), [['app (2 PIDs)', 55]]);
same(show(walk(tree, '0123456789ab', 'app')), [['main', 52], ['[truncated: no table]', 3]]);
same(show(walk(tree, '0123456789ab', 'app', 'main')), [['work', 52]]);
same(show(walk(tree, '0123456789ab', 'app', 'main', 'work')), [['work', 40]]);
assert.equal(walk(tree, '0123456789ab', 'app', 'main', 'work').self, 12);
const leaf = walk(tree, '0123456789ab', 'app', 'main', 'work', 'work', 'read', 'vfs_read');
assert.equal(leaf.kind, model.KIND.KERNEL);
assert.equal(tree.find(model.decodePath(model.encodePath(leaf))), leaf, 'the address finds the node again');
same(model.decodePath('%'), []);

const callers = new model.Tree(profile, {...view, rows: {}, callers: true});
same(callers.children(callers.root).slice(0, 3).map(n => [n.name, n.total]), [['0x7f0000001234', 60], ['vfs_read', 40], ['work', 12]]);
same(callers.children(walk(callers, 'vfs_read', 'read', 'work')).map(n => [n.name, n.total]), [['work', 40]]);

const pids = new model.Tree(profile, {...view, rows: {...rows, pid: true, thread: true}, process: 'app'});
assert.equal(pids.root.total, 55);
same(pids.children(walk(pids, '0123456789ab')).map(n => n.name), ['app (11)', 'app (10)']);

const search = new model.Search(profile, tree, 'READ|vfs');
assert.equal(search.samplesIn(tree.root), 40, 'upper case is meant');
const any = new model.Search(profile, tree, 'read');
assert.equal(any.samplesIn(tree.root), 100);
assert.equal(any.samplesIn(walk(tree, 'host')), 60);
assert.equal(new model.Search(profile, callers, 'read').samplesIn(walk(callers, 'vfs_read')), 40);
assert.equal(new model.Search(profile, tree, '(').error, true);
assert.equal(new model.Search(profile, tree, '^app$').samplesIn(tree.root), 55, 'rows match, too');

const sums = model.sumFunctions(profile, profile.groups), id = profile.name.indexOf('work');
assert.equal(sums.self[id], 12);
assert.equal(sums.total[id], 52, 'recursion counts once');
same(model.sumKinds(profile, profile.groups), {byKind: [18, 40, 0, 4, 60, 0], byRuntime: {}, incomplete: 3, samples: 122});
same([...model.decodeNumbers('AfgBgggggggggB')], [0, 31, 32, 32 ** 9]);
const kindOf = name => profile.kind[profile.name.indexOf(name)];
same(['main.work', 'helper_of_cgo', '0x7f0000001234', 'vfs_read', '[truncated: no table]'].map(kindOf),
	['GO', 'NATIVE', 'JIT', 'KERNEL', 'ENDING'].map(name => model.KIND[name]));
assert.ok(!model.hasLanguages(profile));
assert.ok(profile.name.some(n => n.startsWith('</script><script>')), 'a hostile name arrives as it is');

for (const [full, compact] of [
	['void Eigen::gebp<float, long>::operator()(Map<float> const&)', 'Eigen::gebp<…>::operator()'],
	['operator new(unsigned long)', 'operator new'],
	['<alloc::vec::Vec<T> as core::ops::drop::Drop>::drop', '<alloc::vec::Vec<…> as core::ops::drop::Drop>::drop'],
	['github.com/acme/shop/api.(*Server).Order', 'api.(*Server).Order'],
	['a::(anonymous namespace)::f(int)', 'a::{anonymous}::f'],
	['[truncated: no table]', '[truncated: no table]'],
	['main', 'main'],
])
	assert.equal(model.compactName(full), compact);
