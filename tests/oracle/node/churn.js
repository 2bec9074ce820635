// SPDX-License-Identifier: Apache-2.0
//
// Compiles a script, calls its functions, and forgets it, again and again. Writes when each was called.
//
//	node --expose-gc churn.js TRUTH KIND
//
// Turn N's functions are f_N, which calls g_N, in the script <churn N>, on line N % 1000 + 1. TRUTH gets three numbers of 64 bits for each turn:
// the time at which its functions begin, the time behind them (CLOCK_REALTIME, ns), and N. KIND:
//
//	short	they run for a tenth of a millisecond, in V8's interpreter
//	long	for 20 ms, through all of V8's compilers, which put g_N into f_N; their code is freed
//	moved	as long, and collections of all garbage move what is left
'use strict';
const fs = require('fs');
const vm = require('vm');

const [file, kind] = process.argv.slice(2);
const NS = { short: 100000n, long: 20000000n, moved: 20000000n }[kind];
const KEPT = 2730; // records
const out = fs.openSync(file, 'w');
const records = Buffer.alloc(24 * KEPT);
let kept = 0, written = 0n, sink = 0;

// What the wall clock, which counts milliseconds here, says at 0 of the other one: the most of several times, as we may be interrupted
function offset() {
  let most = 0n;
  for (let i = 0; i < 50; i++) {
    const before = Date.now();
    let now = before;
    while (now === before) now = Date.now();
    const found = BigInt(now) * 1000000n - process.hrtime.bigint();
    if (found > most) most = found;
  }
  return most;
}

function note(begin, after, n) {
  for (const x of [begin, after, BigInt(n)]) kept = records.writeBigUInt64LE(x, kept);
  if (kept < records.length && after - written < 50000000n) return;
  fs.writeSync(out, records, 0, kept);
  kept = 0;
  written = after;
}

function text(n) {
  const work = 'x = (x * 7 + 3) % 1000003; '.repeat(20);
  return `${'\n'.repeat(n % 1000)}(function f_${n}(n) { let t = 0; for (let i = 0; i < n; i++) t += g_${n}(i); return t; function g_${n}(x) { ${work}return x; } })`;
}

const base = offset();
console.log('churning');
for (let n = 1; ; n++) {
  const filename = Buffer.from(`<churn ${n}>`).toString('latin1'); // one string, and not two that V8 has put together
  const f = vm.runInThisContext(text(n), { filename });
  const begin = process.hrtime.bigint();
  let now = begin;
  for (; now - begin < NS; now = process.hrtime.bigint()) sink += f(100);
  note(base + begin, base + now, n);
  if (kind === 'moved' && n % 10 === 0) global.gc();
}
