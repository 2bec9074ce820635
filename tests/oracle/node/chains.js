// SPDX-License-Identifier: Apache-2.0
//
// Runs through situations, each of which is a chain of calls of a known shape, and spends its time in the innermost function. Writes
// the chains, as V8 itself sees them, as JSON before it begins.
//
//	node chains.js TRUTH SECONDS
//
// A situation is run once while its innermost function looks at the stack: that is its chain. What situations have in common is in the
// chains, too: main, perform, leaf.
'use strict';
const fs = require('fs');
const vm = require('vm');
const worker = require('worker_threads');

const SLICE_MS = 40;
let observed = null, sink = 0;

Error.stackTraceLimit = Infinity;

/* The functions of this program, root first. Calls of V8's own functions are left out. */
function chain() {
	Error.prepareStackTrace = (e, sites) => sites;
	const sites = new Error().stack;
	Error.prepareStackTrace = undefined;
	return sites.slice(1).filter((s) => !s.isNative() && !/^node:/.test(s.getFileName() || ''))
		.map((s) => s.getFunctionName() || '').reverse();
}

function leaf(n) {
	if (observed) {
		const got = chain();
		got.pop(); // leaf itself is added below, once
		observed.push([...got, 'leaf']);
		return n;
	}
	let x = n | 0;
	for (let i = 0; i < 3000; i++)
		x = (Math.imul(x, 31) + i) | 0;
	sink ^= x;
	return x;
}

class Animal {
	constructor(n) { this.n = s03_made(n); }
	s02_speak(n) { const a = n + 1, b = () => leaf(a); return b() + this.s02_inner(n); }
	s02_inner(n) { return leaf(n) + 1; }
	static s02_make(n) { return new Animal(n); }
	get s04_value() { return leaf(4) + this.n; }
	set s04_value(v) { this.n = leaf(v); }
	#s05_hidden(n) { return leaf(n) + 1; }
	s05_call(n) { return this.#s05_hidden(n) + 1; }
}
class Dog extends Animal {
	s02_speak(n) { return super.s02_speak(n) + 1; }
}
function s03_made(n) { return leaf(n); }
const dog = new Dog(1);

function s01_down(n) { return n ? s01_down(n - 1) + 1 : leaf(1); }
function s01_a(n) { return n ? s01_b(n - 1) + 1 : leaf(2); }
function s01_b(n) { return n ? s01_a(n - 1) + 2 : leaf(3); }
function s06_make(k) { return function s06_inner(n) { return leaf(n + k) + 1; }; }
function s07_compare(a, b) { leaf(a); return a - b; }
function s08_mapped(x) { return leaf(x) + 1; }
function s08_each(x) { sink ^= leaf(x); }
function s08_reduced(a, x) { return a + leaf(x); }
function s09_tojson() { return leaf(9); }
function s09_revive(key, value) { leaf(9); return value; }
function s10_replaced(m) { return String(leaf(m.length)).slice(0, 1); }
function* s11_values(n) { for (let i = 0; i < n; i++) yield leaf(i); }
function s12_caught(n) { try { return s12_throws(n); } catch (e) { return leaf(n); } }
function s12_throws(n) { leaf(n); throw s12_error; }
const s12_error = new Error('expected');
async function s13_async(n) { const a = leaf(n); await null; return a + leaf(n + 1); }
function s14_then(x) { return leaf(x); }
const s15_object = { s15_method(n) { return leaf(n) + 1; }, s15_plain: function (n) { return leaf(n) + 2; }, s15_arrow: (n) => leaf(n) + 3 };
const s16_evaluated = (0, eval)('(function s16_evaluated(leaf, n) { return leaf(n) + 1; })');
const s16_script = vm.runInThisContext('// \u2603\r\n\r\u2028(function s16_script(leaf, n) { return leaf(n) + 1; })',
	{ filename: 's16.js', lineOffset: 10 });
const s16_function = new Function('leaf', 'n', 'return leaf(n) + 1');
const s17_proxy = new Proxy({}, { get: function s17_trap(t, key) { return leaf(17); } });
function s18_bound(a, b) { return leaf(a + b) + this.n; }
const s18_ready = s18_bound.bind({ n: 1 }, 1);
function s19_many(a) { let v0 = a, v1 = 1, v2 = 2, v3 = 3; const all = () => v0 + v1 + v2 + v3 + leaf(a); return all(); }
function s20_variables(n) { eval('var s20_x = n'); return leaf(n) + 1; }
function s21_fresh(n) {
	const made = [];
	for (let i = 0; i < 20; i++)
		made.push(function s21_young(k) { return leaf(k + i) + made.length; });
	return made.map((f) => f(n)).length;
}
function s22_tag(parts, x) { return leaf(x) + parts.length; }
function s23_spread() { return [...{ *[Symbol.iterator]() { yield leaf(1); yield 2; } }]; }
let s24_source = 'function s24_big() {';
for (let i = 0; i < 90; i++)
	s24_source += `let v${i} = ${i};`;
s24_source += `return (() => leaf(1)${Array.from({ length: 90 }, (_, i) => `+v${i}`).join('')})(); }`;
const s24_big = (0, eval)(`(leaf) => { ${s24_source} return s24_big(); }`);

const situations = {
	s01_recursion: () => s01_down(30) + s01_a(9),
	s01_deep: () => s01_down(150),
	s02_methods: () => dog.s02_speak(1),
	s03_constructor: () => Animal.s02_make(2).n,
	s04_accessors: () => { dog.s04_value = 3; return dog.s04_value; },
	s05_private: () => dog.s05_call(1),
	s06_closures: () => s06_make(2)(1),
	s07_sort: () => [3, 1, 2].sort(s07_compare)[0],
	s08_arrays: () => { [1, 2].forEach(s08_each); return [1, 2].map(s08_mapped).reduce(s08_reduced, 0); },
	s09_json: () => JSON.stringify({ toJSON: s09_tojson }) + JSON.parse('[1]', s09_revive),
	s10_replace: () => 'abcabc'.replace(/b/g, s10_replaced),
	s11_generator: () => [...s11_values(3)].length,
	s12_exceptions: () => s12_caught(1),
	s13_async: () => { s13_async(1); return 0; },
	s14_promise: () => { Promise.resolve(1).then(s14_then); return leaf(14); }, // so that there are no more jobs than its time is for
	s15_objects: () => s15_object.s15_method(1) + s15_object.s15_plain(1) + s15_object.s15_arrow(1),
	s16_eval: () => s16_evaluated(leaf, 1) + s16_script(leaf, 2) + s16_function(leaf, 3),
	s17_proxy: () => s17_proxy.x,
	s18_bind: () => s18_ready(2) + s18_bound.call({ n: 2 }, 1, 2) + Reflect.apply(s18_bound, { n: 1 }, [1, 2]),
	s19_context: () => s19_many(1),
	s20_sloppy: () => s20_variables(1),
	s21_young: () => s21_fresh(1),
	s22_template: () => s22_tag`a${1}b`,
	s23_iterator: () => s23_spread().length,
	s24_variables: () => s24_big(leaf),
};

function perform(situation, until) {
	do
		situation();
	while (Date.now() < until);
}

/* Each situation for a slice of time; what it has left to the queue of jobs is run behind it. */
async function rounds(until) {
	while (Date.now() < until)
		for (const name in situations) {
			perform(situations[name], Math.min(until, Date.now() + SLICE_MS));
			await null;
		}
}

async function observe() {
	const truth = {};
	for (const name in situations) {
		observed = [];
		perform(situations[name], 0);
		for (let i = 0; i < 4; i++)
			await null;
		truth[name] = observed;
	}
	observed = null;
	return truth;
}

async function main() {
	const truth = await observe();
	if (!worker.isMainThread) {
		await rounds(Date.now() + 1000 * worker.workerData.seconds);
		return;
	}
	const [, , path, seconds] = process.argv;
	fs.writeFileSync(path, JSON.stringify({ pid: process.pid, versions: process.versions, truth }));
	const other = new worker.Worker(__filename, { workerData: { seconds } });
	await rounds(Date.now() + 1000 * seconds);
	await new Promise((done) => other.once('exit', done));
}

main();
