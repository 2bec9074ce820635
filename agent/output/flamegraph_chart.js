// SPDX-License-Identifier: Apache-2.0
// The graph's geometry. The screen shows a window [from, to] of samples: zooming moves the window, and a node that spans
// more than the window fills the width. Only boxes of at least one pixel are laid out, row by row; narrower siblings
// share one box, the rest, which expands where it is clicked.
'use strict';

const ROW = 19;         // height of a row, pixels
const MIN_WIDTH = 1;    // of a box, pixels
const READABLE = 120;   // width of a box when the rest expands, pixels
const ZOOM_MS = 180;

class Chart {
	// on: {hover(box, event), select(node), zoom(node, part), move(node)}; move: the user moved the window,
	// and `node` is the innermost one that contains it
	constructor(elements, painter, on) {
		Object.assign(this, elements); // scroller, spacer, canvas
		this.painter = painter;
		this.on = on;
		this.tree = null;
		this.zoomed = null;
		this.selected = null;
		this.hovered = null;
		this.search = null;
		this.flame = false; // root at the bottom
		this.from = this.to = 0;
		this.rows = [];
		new ResizeObserver(() => this.resize()).observe(this.scroller);
	}

	setTree(tree, zoomed) {
		this.tree = tree;
		this.selected = this.hovered = null;
		this.setZoom(zoomed, false);
	}

	// `part` {from, to} in samples: the part of the node that fills the width, if not all of it.
	setZoom(node, animate, part) {
		const from = this.from, to = this.to, began = performance.now();
		const target = part || {from: node.start, to: node.start + node.total};
		const still = !animate || matchMedia('(prefers-reduced-motion: reduce)').matches;
		const step = now => {
			const t = still ? 1 : Math.min(1, Math.max(0, now - began) / ZOOM_MS), ease = 1 - (1 - t) ** 3;

			this.from = from + (target.from - from) * ease;
			this.to = to + (target.to - to) * ease;
			this.layout();
			if (t < 1)
				this.animation = requestAnimationFrame(step);
			else
				this.scrollTo(node.depth - 2);
		};

		cancelAnimationFrame(this.animation);
		this.zoomed = node;
		this.part = part;
		this.unhover();
		if (still)
			step(began);
		else
			this.animation = requestAnimationFrame(step);
	}

	// Limits the number of samples in the window: from one to all.
	limit(span) {
		return Math.min(Math.max(span, 1), this.tree.root.total);
	}

	// A move by the user, to any position.
	moveWindow(from, span) {
		const left = Math.max(0, Math.min(from, this.tree.root.total - span)), right = left + span, near = span * 1e-6;
		let node = span < this.tree.root.total - near ? this.zoomed : this.tree.root;

		while (node.parent && (left < node.start - near || right > node.start + node.total + near))
			node = node.parent;
		cancelAnimationFrame(this.animation);
		this.from = left;
		this.to = right;
		this.zoomed = node;
		this.part = span < node.total - near ? {from: left, to: right} : undefined;
		this.unhover();
		this.layout();
		this.on.move(node);
	}

	magnify(factor, x) {
		const span = this.limit((this.to - this.from) / factor), at = this.from + x / this.scale;

		this.moveWindow(at - x / this.width * span, span);
	}

	pan(pixels) {
		this.moveWindow(this.from + pixels / this.scale, this.to - this.from);
	}

	resize() {
		const ratio = devicePixelRatio || 1, {clientWidth, clientHeight} = this.scroller;

		if (!clientWidth || !clientHeight)
			return; // the other tab is shown
		this.width = clientWidth;
		this.height = clientHeight;
		this.canvas.width = Math.round(clientWidth * ratio);
		this.canvas.height = Math.round(clientHeight * ratio);
		this.canvas.style.width = `${clientWidth}px`;
		this.canvas.style.height = `${clientHeight}px`;
		if (this.tree) {
			this.layout();
			if (!this.placed) // the first layout with a height
				this.scrollTo(this.zoomed.depth - 2);
			this.placed = true;
		}
	}

	layout() {
		if (!this.width)
			return;
		this.rows = [];
		this.scale = this.width / Math.max(this.to - this.from, 1e-9);
		this.layoutNode(this.tree.root);
		this.contentHeight = Math.max(this.rows.length * ROW, this.height);
		this.spacer.style.height = `${this.contentHeight}px`;
		this.requestDraw();
	}

	edge(samples) {
		return Math.min(Math.max((samples - this.from) * this.scale, 0), this.width);
	}

	layoutNode(node) {
		const x = this.edge(node.start), w = this.edge(node.start + node.total) - x;

		if (w <= 0)
			return;
		(this.rows[node.depth] = this.rows[node.depth] || []).push({node, x, w, rest: 0});
		const kids = this.tree.children(node);

		for (let i = 0; i < kids.length; i++) {
			if (kids[i].start >= this.to)
				return;
			if (kids[i].total * this.scale < MIN_WIDTH) {
				this.layoutRest(node, kids, i);
				return;
			}
			this.layoutNode(kids[i]);
		}
	}

	// Children are sorted by width: from the first too narrow one on, all are.
	layoutRest(node, kids, first) {
		const last = kids[kids.length - 1], x = this.edge(kids[first].start);
		const w = this.edge(last.start + last.total) - x;
		let samples = 0;

		if (w < MIN_WIDTH / 2)
			return;
		for (let i = first; i < kids.length; i++)
			samples += kids[i].total;
		(this.rows[node.depth + 1] = this.rows[node.depth + 1] || []).push({node, x, w, rest: kids.length - first, samples});
	}

	rowTop(depth) {
		return (this.flame ? this.contentHeight - (depth + 1) * ROW : depth * ROW) - this.scroller.scrollTop;
	}

	scrollTo(depth) {
		const offset = Math.max(depth, 0) * ROW;

		this.scroller.scrollTop = this.flame ? this.contentHeight - this.height - offset : offset;
	}

	// Scrolls just enough to show the row.
	reveal(depth) {
		const top = this.rowTop(depth);

		if (top < 0)
			this.scroller.scrollTop += top - ROW;
		else if (top + ROW > this.height)
			this.scroller.scrollTop += top + 2 * ROW - this.height;
	}

	requestDraw() {
		if (this.frame)
			return;
		this.frame = requestAnimationFrame(() => {
			this.frame = 0;
			if (this.tree && this.width)
				this.painter.draw(this);
		});
	}

	// Rows on screen: [first, last].
	visibleRows() {
		const scroll = this.scroller.scrollTop;
		const top = this.flame ? this.contentHeight - scroll - this.height : scroll;

		return [Math.max(0, Math.floor(top / ROW)), Math.min(this.rows.length - 1, Math.floor((top + this.height) / ROW))];
	}

	boxAt(x, y) {
		const fromTop = y + this.scroller.scrollTop;
		const row = this.rows[Math.floor((this.flame ? this.contentHeight - fromTop : fromTop) / ROW)] || [];
		let low = 0, high = row.length;

		while (low < high) {
			const middle = (low + high) >> 1;

			if (row[middle].x + row[middle].w <= x)
				low = middle + 1;
			else
				high = middle;
		}
		return low < row.length && row[low].x <= x ? row[low] : null;
	}

	// The frames of the rest around x, and as many next to them as are readable.
	partOfRest(box, x) {
		const kids = this.tree.children(box.node).slice(-box.rest), at = this.from + x / this.scale;
		const kid = kids.find(k => k.start + k.total > at) || kids[kids.length - 1];
		const begin = kids[0].start, end = kids[kids.length - 1].start + kids[kids.length - 1].total;
		const span = Math.min(this.limit(kid.total * this.width / READABLE), end - begin);
		const from = Math.max(begin, Math.min(kid.start + kid.total / 2 - span / 2, end - span));

		return {from, to: from + span};
	}

	// The box under the pointer has moved away.
	unhover() {
		this.hover(null);
		this.requestDraw();
	}

	hover(box, event) {
		if (box !== this.hovered)
			this.requestDraw();
		this.hovered = box;
		this.on.hover(box, event);
	}

	select(node) {
		this.selected = node;
		if (node) {
			this.reveal(node.depth);
			this.revealSideways(node);
		}
		this.requestDraw();
		this.on.select(node);
	}

	revealSideways(node) {
		const span = this.to - this.from, end = node.start + node.total;

		if (node.total >= span ? end > this.from && node.start < this.to : node.start >= this.from && end <= this.to)
			return;
		this.moveWindow(node.start + node.total / 2 - span / 2, span);
	}

	// The next visible box of the row, or one outside the window.
	neighbour(node, step) {
		const siblings = node.parent ? this.tree.children(node.parent) : [];
		const sibling = siblings[siblings.indexOf(node) + step];

		if (sibling && sibling.total * this.scale >= MIN_WIDTH)
			return sibling;
		const row = (this.rows[node.depth] || []).filter(b => !b.rest);
		const next = row[row.findIndex(b => b.node === node) + step];

		return next ? next.node : node;
	}

	// Follows the widest boxes to the innermost visible one.
	hottest(node) {
		let leaf = node;

		for (let next = node; next && next.total * this.scale >= MIN_WIDTH; next = this.tree.children(next)[0])
			leaf = next;
		return leaf;
	}
}
