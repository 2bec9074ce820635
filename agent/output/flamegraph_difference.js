// SPDX-License-Identifier: Apache-2.0
// Two recordings, A (before) and B (after), compared by shares of their samples. Nothing here accesses the document.
//
// Both are in one profile; each group is of one of them. How much a share varies by itself is told by what agent/recording
// has drawn: recordings that A and B might have been, each made of blocks of their time. A difference that is no larger
// than what two such recordings differ by is noise.
'use strict';

const SIDES = {a: 0, b: 1};
const LEAST_SHARE = 0.0005; // of functions that the table has intervals for
const NORMAL = 1.96;        // standard deviations that 95 % are within
const CONFIDENCE = 0.95;

// The profile whose widths are those of one recording. Nodes of the other one stay, without samples.
function weigh(profile, side) {
	const wanted = SIDES[side], n = profile.frame.length, after = new Uint8Array(n);
	const keep = values => values.map((v, i) => after[i] === wanted ? v : 0);

	for (const g of profile.groups)
		if (g.after)
			after.fill(1, g.root, profile.end[g.root]);
	const groups = profile.groups.map(g => Number(g.after) === wanted ? g : {...g, samples: 0, complete: 0});
	const sum = key => groups.reduce((total, g) => total + g[key], 0);
	const info = {...profile.info, samples: sum('samples'), complete: sum('complete')};

	return {...profile, self: keep(profile.self), total: keep(profile.total), after, groups, info};
}

class Comparison {
	// `profile` as weigh makes it, of either side.
	constructor(profile) {
		const {difference, counted} = profile;

		this.profile = profile;
		this.blocks = difference.blocks;
		this.difference = difference;
		this.leaves = indexesOf(counted);
		this.whole = this.none();
		for (const i of this.leaves)
			this.addLeaf(this.whole, i);
		this.weights = difference.sides.map(side => side.weights ? decodeNumbers(side.weights) : null);
		this.wholes = this.whole.map((_, side) => this.weights[side] && this.drawn(this.whole, side));
	}

	none() {
		return [new Float64Array(this.blocks), new Float64Array(this.blocks)];
	}

	// Samples without a time are in the first block.
	addLeaf(sums, i) {
		const {times, counted, after} = this.profile, into = sums[after[i]];
		let rest = counted[i];

		for (let c = times ? times.first[i] : 0; times && c < times.first[i + 1]; c++) {
			into[times.column[c]] += times.count[c];
			rest -= times.count[c];
		}
		into[0] += rest;
	}

	// Samples by side and block of all recorded nodes that a node of the page stands for.
	sumsOf(node) {
		const sums = this.none(), {leaves} = this, {end} = this.profile;

		node.items.forEach((item, k) => {
			if (node.leaves) {
				this.addLeaf(sums, node.leaves[k]);
				return;
			}
			for (let at = firstFrom(leaves, item); at < leaves.length && leaves[at] < end[item]; at++)
				this.addLeaf(sums, leaves[at]);
		});
		return sums;
	}

	share(sums, side) {
		const whole = sumOf(this.whole[side]);

		return whole ? sumOf(sums[side]) / whole : 0;
	}

	// Samples in each of the recordings that were drawn.
	drawn(sums, side) {
		const weights = this.weights[side], n = weights.length / this.blocks, out = new Float64Array(n), own = sums[side];

		for (let draw = 0, at = 0; draw < n; draw++)
			for (let k = 0; k < this.blocks; k++, at++)
				out[draw] += own[k] * weights[at];
		return out;
	}

	// The shares in the recordings that were drawn; null: only their variance is known.
	drawnShares(sums, side) {
		return this.weights[side] && this.drawn(sums, side).map((n, draw) => this.wholes[side][draw] ? n / this.wholes[side][draw] : 0);
	}

	variance(sums, side, shares) {
		const share = this.share(sums, side);

		return shares ? varianceOf(shares) : share * (1 - share) / this.difference.sides[side].samples;
	}

	// {a, b, by, certain}: the shares, their difference, whether it is beyond noise. `what`: self or total
	judge(sums, what) {
		const a = this.share(sums, 0), b = this.share(sums, 1), by = b - a, {least, limit, sides} = this.difference;

		if (Math.abs(by) < least)
			return {a, b, by, certain: false};
		const [n, m] = sides.map(side => side.samples), p = (a * n + b * m) / (n + m);
		const [drawnA, drawnB] = [0, 1].map(side => this.drawnShares(sums, side));
		const drawn = drawnA && drawnB ? varianceOf(drawnB.map((v, i) => v - drawnA[i]))
			: this.variance(sums, 0, drawnA) + this.variance(sums, 1, drawnB);
		const deviation = Math.sqrt(Math.max(drawn, p * (1 - p) * (1 / n + 1 / m)));

		return {a, b, by, certain: Math.abs(by) > limit[what] * deviation};
	}

	// [low, high], in which the difference lies with 95 %.
	interval(sums) {
		const [drawnA, drawnB] = [0, 1].map(side => this.drawnShares(sums, side));

		if (drawnA && drawnB) {
			const by = drawnB.map((v, i) => v - drawnA[i]).sort();
			const at = p => by[Math.floor(p * (by.length - 1))];

			return [at((1 - CONFIDENCE) / 2), at((1 + CONFIDENCE) / 2)];
		}
		const by = this.share(sums, 1) - this.share(sums, 0);
		const half = NORMAL * Math.sqrt(this.variance(sums, 0, drawnA) + this.variance(sums, 1, drawnB));

		return [by - half, by + half];
	}

	// What has changed in a node of the page: as judge.
	of(node) {
		if (!node.change)
			node.change = this.judge(this.sumsOf(node), 'total');
		return node.change;
	}

	intervalOf(node) {
		return node.interval = node.interval || this.interval(this.sumsOf(node));
	}

	// Self and total of every function in the groups: {a, b, by, certain, interval}, by function id. Functions with too few
	// samples in both have no interval.
	functions(groups) {
		const {profile} = this, sides = [0, 1].map(side => sumFunctions({...profile, ...this.ofSide(side)}, groups));
		const result = {self: [], total: []}, wholes = this.whole.map(sumOf);
		const asked = {self: new Map(), total: new Map()};

		for (const what of ['self', 'total'])
			for (let f = 1; f < profile.name.length; f++) {
				const [a, b] = sides.map((sums, side) => wholes[side] ? sums[what][f] / wholes[side] : 0);

				result[what][f] = {a, b, by: b - a, certain: false, interval: null};
				if (a >= LEAST_SHARE || b >= LEAST_SHARE)
					asked[what].set(f, this.none());
			}
		this.addFunctions(groups, asked);
		for (const what of ['self', 'total'])
			for (const [f, sums] of asked[what])
				result[what][f] = {...this.judge(sums, what), interval: this.interval(sums)};
		return result;
	}

	// `self` and `total` of one recording alone.
	ofSide(side) {
		const {after, counted, parent} = this.profile, self = counted.map((v, i) => after[i] === side ? v : 0);

		return {self, total: sumTrees(parent, self).total};
	}

	addFunctions(groups, asked) {
		const {frame, parent, end} = this.profile, seen = new Int32Array(this.profile.name.length);

		for (const g of groups)
			for (let at = firstFrom(this.leaves, g.root); at < this.leaves.length && this.leaves[at] < end[g.root]; at++) {
				const leaf = this.leaves[at];

				if (asked.self.has(frame[leaf]))
					this.addLeaf(asked.self.get(frame[leaf]), leaf);
				for (let i = leaf; parent[i] >= 0; i = parent[i]) { // recursion counts once
					if (seen[frame[i]] !== at + 1 && asked.total.has(frame[i]))
						this.addLeaf(asked.total.get(frame[i]), leaf);
					seen[frame[i]] = at + 1;
				}
			}
	}
}

function indexesOf(counted) {
	const leaves = new Int32Array(counted.length);
	let n = 0;

	for (let i = 0; i < counted.length; i++)
		if (counted[i])
			leaves[n++] = i;
	return leaves.subarray(0, n);
}

// The index of the first that is not less, of sorted numbers.
function firstFrom(sorted, value) {
	let low = 0, high = sorted.length;

	while (low < high) {
		const middle = (low + high) >> 1;

		if (sorted[middle] < value)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

function sumOf(values) {
	return values.reduce((a, b) => a + b, 0);
}

function varianceOf(values) {
	const mean = sumOf(values) / values.length;

	return values.reduce((sum, v) => sum + (v - mean) ** 2, 0) / (values.length - 1);
}

// "+1.23 %", of a share.
function formatChange(share) {
	return `${share < 0 ? '−' : '+'}${Math.abs(100 * share).toFixed(2)} %`;
}
