// SPDX-License-Identifier: Apache-2.0
//
// Calls of all kinds for ever, between which little happens: to be executed one instruction at a time (run_shadow). Each round calls V8's
// own functions, which call back, and functions of this program, in all of its tiers, some of them new.
'use strict';

class Shape {
	constructor(n) { this.n = n; }
	get size() { return this.n * 2; }
	set size(v) { this.n = v >> 1; }
	area(f) { return f(this.n); }
	static of(n) { return new this(n); }
}

class Square extends Shape {
	constructor(n) { super(n); this.name = 'square' + n; }
	area(f) { return super.area(f) + this.size; }
	toString() { return this.name; }
	[Symbol.toPrimitive]() { return this.n; }
}

function* numbers(n) {
	try {
		for (let i = 0; i < n; i++)
			yield i;
	} finally {
		yield* [n];
	}
}

function optional(a, b = a + 1, ...rest) { return a + b + rest.length + arguments.length; }

function fails(n) {
	if (n === 0)
		throw new RangeError('bottom');
	return fails(n - 1) + 1;
}

function recursive(n) { return n < 2 ? n : recursive(n - 1) + recursive(n - 2); }

function callbacks(n) {
	const a = Array.from({length: 12}, (_, i) => (i * 7919 + n) % 23);

	a.sort((x, y) => x - y);
	return a.map((x) => x + 1).filter((x) => x % 3).reduce((x, y) => x + y, 0) + a.findIndex((x) => x > 9) +
		[...a.entries()].flatMap(([i, x]) => [i, x]).length;
}

function texts(n) {
	const s = `round ${n}: ` + 'äbc'.repeat(3) + String(n / 7);

	return s.replace(/[a-c]+/g, (m) => m.toUpperCase()).split(/\s*:\s*/).join('-').length + parseInt(s.slice(6), 10) + s.localeCompare('r');
}

function objects(n) {
	const o = JSON.parse(JSON.stringify({a: [n, {b: String(n)}], c: null}, (k, v) => v), (k, v) => v);
	const m = new Map([[n, o], ['x', 1]]), p = new Proxy(o, {get: (t, k) => Reflect.get(t, k)});

	m.forEach((v, k) => new Set([k]).has(k));
	return Object.entries(o).length + p.a.length + ('c' in o) + m.size + Object.assign({}, o, {d: 1}).d;
}

function numbersOf(n) { return BigInt(n) ** 3n % 97n + BigInt(Math.round(Math.hypot(n, 3) + Math.sin(n) + n % 2.5)); }

function made(n) { return new Function('x', 'y', `return x + y * ${n % 50};`)(n, 2) + eval('n + 1'); }

function bound(n) {
	const f = optional.bind(null, n), g = Reflect.construct(Square, [n]);

	return f(1, 2) + optional.call(null, n) + optional.apply(null, [n, 1, 2, 3]) + g.area((x) => x) + +g + `${g}`.length + Square.of(n).size;
}

async function later(n) {
	const [x, y] = await Promise.all([n, new Promise((done) => queueMicrotask(() => done(n)))]);

	for await (const z of numbers(2))
		n += z;
	return x + y + n;
}

function caught(n) {
	try {
		return fails(n % 5);
	} catch (e) {
		return e instanceof RangeError ? e.message.length : 0;
	} finally {
		recursive(5);
	}
}

const bytes = new Uint8Array(64), parts = [callbacks, texts, objects, numbersOf, bound, caught, (n) => [...numbers(n % 5)].length,
	(n) => bytes.fill(n).subarray(n % 7).indexOf(3), (n) => new Date(n * 86400000).toISOString().length, recursive.bind(null, 7)];

async function rounds() {
	for (let n = 1;; n++) {
		for (const part of parts)
			part(n & 0xffff);
		if (n % 8 === 0)
			await later(n);
		if (n % 64 === 0)
			made(n);
		if (n % 512 === 0)
			await new Promise((done) => setImmediate(done));
	}
}

rounds();
