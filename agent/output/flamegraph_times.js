// SPDX-License-Identifier: Apache-2.0
// When samples were taken, and the profile of a span of time. Nothing here accesses the document.
//
// Time is divided into columns of equal width. Node i has the cells first[i] up to first[i + 1]: count[c] samples in
// column[c], in the order of the columns. Samples whose time is not known are in no cell.
'use strict';

// Decodes the text that html.c describes.
function decodeTimes(time, self) {
	const numbers = decodeNumbers(time.cells), n = self.length, first = new Int32Array(n + 1);
	const column = new Uint16Array(numbers.length), count = new Float64Array(numbers.length);
	let at = 0, cells = 0;

	for (let i = 0; i < n; i++) {
		let next = 0;

		first[i] = cells;
		for (let left = self[i] ? numbers[at++] : 0; left > 0; left--) {
			const value = numbers[at++];

			column[cells] = next + (value >> 1);
			count[cells] = value & 1 ? numbers[at++] + 2 : 1;
			next = column[cells++] + 1;
		}
	}
	first[n] = cells;
	return {from: time.from_ns, width: time.width_ns, columns: time.columns, first, column: column.slice(0, cells), count: count.slice(0, cells)};
}

// The times of nodes that have the samples of others: sources[i] are those of node i. Cells of a column may be several.
function regroupTimes(times, sources) {
	const column = new Uint16Array(times.column.length), count = new Float64Array(times.column.length);
	const first = new Int32Array(sources.length + 1);
	let cells = 0;

	sources.forEach((nodes, i) => {
		first[i] = cells;
		for (const node of nodes)
			for (let c = times.first[node]; c < times.first[node + 1]; c++, cells++) {
				column[cells] = times.column[c];
				count[cells] = times.count[c];
			}
	});
	first[sources.length] = cells;
	return {...times, first, column, count};
}

// The samples of the nodes [begin, end) in each column.
function columnsOf(times, begin, end) {
	const sums = new Float64Array(times.columns);

	for (let c = times.first[begin]; c < times.first[end]; c++)
		sums[times.column[c]] += times.count[c];
	return sums;
}

// The same profile with the samples of the columns [span.from, span.to) only.
function withinSpan(profile, span) {
	const {times, parent, frame, kind, end} = profile, self = new Float64Array(parent.length);

	for (let i = 0; i < self.length; i++)
		for (let c = times.first[i]; c < times.first[i + 1]; c++)
			if (times.column[c] >= span.from && times.column[c] < span.to)
				self[i] += times.count[c];
	const {total} = sumTrees(parent, self);
	// the outermost frame of a stack that is not complete says so
	const complete = root => {
		let samples = total[root];

		for (let c = root + 1; c < end[root]; c = end[c])
			samples -= kind[frame[c]] === KIND.ENDING ? total[c] : 0;
		return samples;
	};
	const groups = profile.groups.map(g => ({...g, samples: total[g.root], complete: complete(g.root)}));
	const sum = key => groups.reduce((n, g) => n + g[key], 0);
	const info = {...profile.info, samples: sum('samples'), complete: sum('complete'), duration_ns: (span.to - span.from) * times.width};

	return {...profile, self, counted: self, total, groups, info, span};
}
