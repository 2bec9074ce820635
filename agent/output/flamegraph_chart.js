// SPDX-License-Identifier: Apache-2.0
// The graph's geometry, pointer and keyboard. What is on screen is a window [from, to] of samples: zooming moves the
// window, a node that spans more than it fills the width. Only boxes of a pixel or more are laid out, row by row;
// siblings too narrow for that become one box, the rest.
'use strict';

const ROW = 19;         // height of a row, pixels
const MIN_WIDTH = 1;    // of a box, pixels
const ZOOM_MS = 180;

class Chart {
	// on: {hover(box, event), select(node), zoom(node)}
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
		this.listen();
	}

	listen() {
		const {canvas, scroller} = this;

		new ResizeObserver(() => this.resize()).observe(scroller);
		scroller.addEventListener('scroll', () => this.unhover());
		canvas.addEventListener('pointermove', e => this.pointer(e));
		canvas.addEventListener('pointerleave', e => this.pointer(e, true));
		canvas.addEventListener('click', e => this.click(e));
		canvas.addEventListener('keydown', e => this.key(e));
		canvas.addEventListener('focus', () => this.requestDraw());
		canvas.addEventListener('blur', () => this.requestDraw());
	}

	setTree(tree, zoomed) {
		this.tree = tree;
		this.selected = this.hovered = null;
		this.setZoom(zoomed, false);
	}

	setZoom(node, animate) {
		const from = this.from, to = this.to, began = performance.now();
		const still = !animate || matchMedia('(prefers-reduced-motion: reduce)').matches;
		const step = now => {
			const t = still ? 1 : Math.min(1, Math.max(0, now - began) / ZOOM_MS), ease = 1 - (1 - t) ** 3;

			this.from = from + (node.start - from) * ease;
			this.to = to + (node.start + node.total - to) * ease;
			this.layout();
			if (t < 1)
				this.animation = requestAnimationFrame(step);
			else
				this.scrollTo(node.depth - 2);
		};

		cancelAnimationFrame(this.animation);
		this.zoomed = node;
		this.unhover();
		if (still)
			step(began);
		else
			this.animation = requestAnimationFrame(step);
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
			if (!this.placed) // the first time there is a height to scroll in
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

	// Scrolls as little as shows the row.
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

	eventBox(e) {
		const r = this.canvas.getBoundingClientRect();

		return this.boxAt(e.clientX - r.left, e.clientY - r.top);
	}

	// What is under the pointer has moved away.
	unhover() {
		this.hovered = null;
		this.on.hover(null);
		this.requestDraw();
	}

	pointer(e, left) {
		const box = left ? null : this.eventBox(e);

		this.canvas.style.cursor = box ? 'pointer' : 'default';
		if (box !== this.hovered) {
			this.hovered = box;
			this.requestDraw();
		}
		this.on.hover(box, e);
	}

	click(e) {
		const box = this.eventBox(e);

		if (!box)
			return;
		this.selected = box.node;
		this.on.select(box.node);
		this.on.zoom(box.node);
	}

	select(node) {
		this.selected = node;
		if (node)
			this.reveal(node.depth);
		this.requestDraw();
		this.on.select(node);
	}

	neighbour(node, step) {
		const row = (this.rows[node.depth] || []).filter(b => !b.rest);
		const next = row[row.findIndex(b => b.node === node) + step];

		return next ? next.node : node;
	}

	key(e) {
		if (e.ctrlKey || e.metaKey || e.altKey)
			return;
		const node = this.selected || this.zoomed;
		const outward = this.flame ? 'ArrowDown' : 'ArrowUp', inward = this.flame ? 'ArrowUp' : 'ArrowDown';
		const moves = {
			[outward]: () => this.select(node.parent || node),
			[inward]: () => this.select(this.tree.children(node)[0] || node),
			ArrowLeft: () => this.select(this.neighbour(node, -1)),
			ArrowRight: () => this.select(this.neighbour(node, 1)),
			Enter: () => this.on.zoom(node),
			' ': () => this.on.zoom(node),
			Backspace: () => this.on.zoom(this.zoomed.parent || this.zoomed),
			Home: () => this.select(this.tree.root),
		};

		if (!moves[e.key])
			return;
		e.preventDefault();
		moves[e.key]();
	}
}
