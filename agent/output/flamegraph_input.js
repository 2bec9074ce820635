// SPDX-License-Identifier: Apache-2.0
// Pointer, wheel and keyboard on the graph.
'use strict';

const DRAG_PX = 4;      // a shorter movement is a click
const WHEEL_SPEED = 0.003;
const LINE_PX = 16;     // some browsers count the wheel in lines

class Input {
	constructor(chart) {
		const {canvas, scroller} = chart;

		this.chart = chart;
		this.drag = null;
		scroller.addEventListener('scroll', () => chart.unhover());
		canvas.addEventListener('pointerdown', e => this.press(e));
		canvas.addEventListener('pointermove', e => this.move(e));
		canvas.addEventListener('pointerleave', () => chart.unhover());
		canvas.addEventListener('click', e => this.click(e));
		canvas.addEventListener('wheel', e => this.wheel(e), {passive: false});
		canvas.addEventListener('keydown', e => this.key(e));
		canvas.addEventListener('focus', () => chart.requestDraw());
		canvas.addEventListener('blur', () => chart.requestDraw());
	}

	position(e) {
		const r = this.chart.canvas.getBoundingClientRect();

		return {x: e.clientX - r.left, y: e.clientY - r.top};
	}

	press(e) {
		this.drag = e.button === 0 ? {x: e.clientX, from: this.chart.from, moved: false} : null;
	}

	move(e) {
		const {chart, drag} = this, {x, y} = this.position(e), span = chart.to - chart.from;
		const movable = drag && e.buttons & 1 && span < chart.tree.root.total;

		if (movable && (drag.moved || Math.abs(e.clientX - drag.x) > DRAG_PX)) {
			drag.moved = true;
			chart.canvas.setPointerCapture(e.pointerId);
			chart.moveWindow(drag.from - (e.clientX - drag.x) / chart.scale, span);
			return;
		}
		const box = chart.boxAt(x, y);

		chart.canvas.style.cursor = box ? 'pointer' : 'default';
		chart.hover(box, e);
	}

	click(e) {
		const {chart} = this, {x, y} = this.position(e), box = chart.boxAt(x, y);

		if (!box || this.drag && this.drag.moved)
			return;
		chart.on.zoom(box.node, box.rest ? chart.partOfRest(box, x) : undefined);
	}

	// With Ctrl, zooms around the pointer; sideways or with Shift, pans; else scrolls the rows.
	wheel(e) {
		const {chart} = this, unit = e.deltaMode === WheelEvent.DOM_DELTA_LINE ? LINE_PX : 1;
		const sideways = e.shiftKey ? e.deltaX || e.deltaY : e.deltaX;

		if (e.ctrlKey || e.metaKey)
			chart.magnify(Math.exp(-e.deltaY * unit * WHEEL_SPEED), this.position(e).x);
		else if (sideways && (e.shiftKey || Math.abs(sideways) > Math.abs(e.deltaY)))
			chart.pan(sideways * unit);
		else
			return;
		e.preventDefault();
	}

	// Zooms around the selection if it is on screen.
	magnify(factor) {
		const {chart} = this, node = chart.selected;
		const at = node ? chart.edge(node.start + node.total / 2) : chart.width / 2;

		chart.magnify(factor, at);
	}

	key(e) {
		if (e.ctrlKey || e.metaKey || e.altKey)
			return;
		const {chart} = this, node = chart.selected || chart.zoomed;
		const outward = chart.flame ? 'ArrowDown' : 'ArrowUp', inward = chart.flame ? 'ArrowUp' : 'ArrowDown';
		const moves = {
			[outward]: () => chart.select(node.parent || node),
			[inward]: () => chart.select(chart.tree.children(node)[0] || node),
			ArrowLeft: () => chart.select(chart.neighbour(node, -1)),
			ArrowRight: () => chart.select(chart.neighbour(node, 1)),
			Enter: () => chart.on.zoom(node),
			' ': () => chart.on.zoom(node),
			Backspace: () => chart.on.zoom(chart.part ? chart.zoomed : chart.zoomed.parent || chart.zoomed),
			Home: () => chart.select(chart.tree.root),
			End: () => chart.select(chart.hottest(node)),
			'+': () => this.magnify(2),
			'=': () => this.magnify(2),
			'-': () => this.magnify(0.5),
		};

		if (!Object.hasOwn(moves, e.key))
			return;
		e.preventDefault();
		moves[e.key]();
	}
}
