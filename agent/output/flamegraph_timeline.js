// SPDX-License-Identifier: Apache-2.0
// The strip above the graph: samples over time, of all and by process and thread, and the span that is chosen there.
'use strict';

const TRACK = 18;        // height of a row, pixels
const ALL_TRACK = 30;    // of the row of all
const TRACKS_SHOWN = 4;  // without scrolling
const TRACKS_MAX = 2000; // processes and threads in the list
const BIN_SAMPLES = 16;  // that a bar of all has on average, at least: with fewer, bars would show chance
const BINS_MIN = 60;
const EDGE_PX = 5;       // the edge of the span can be taken from there
const STEPS = 64;        // of the keyboard, across all of the time
const LIVE_NODES = 50000; // with more, the graph follows when the mouse is released

class Timeline {
	// on: {select(span), chosen()}; span {from, to} in columns, or null; chosen: the one in the page's state
	constructor(profile, on) {
		Object.assign(this, {profile, on, times: profile.times, span: null, drag: null, open: new Set(), rows: []});
		this.tracks = $('tracks');
		this.canvas = $('tracks-canvas');
		this.all = $('all-canvas');
		$('timeline').hidden = false;
		for (const canvas of [this.canvas, this.all]) {
			canvas.addEventListener('pointerdown', e => this.press(e));
			canvas.addEventListener('pointermove', e => this.move(e));
			canvas.addEventListener('pointerup', e => this.release(e));
			canvas.addEventListener('pointercancel', () => this.cancel());
		}
		$('timeline-keys').addEventListener('keydown', e => this.key(e));
		$('span-clear').addEventListener('click', () => this.on.select(null));
		this.tracks.addEventListener('scroll', () => this.requestDraw());
		matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.requestDraw());
		new ResizeObserver(() => this.requestDraw()).observe($('timeline'));
		new ResizeObserver(() => this.requestDraw()).observe(this.tracks);
	}

	// The rows of the groups that are shown: processes of one name, below them each of these, below that its threads.
	show(groups) {
		const root = this.row('', '', '');

		for (const g of groups) {
			const sums = columnsOf(this.times, g.root, this.profile.end[g.root]);
			let at = root;

			for (const [key, name] of [[`${g.container} ${g.process}`, g.process], [g.pid, g.pid ? `PID ${g.pid}` : 'several PIDs'],
				[g.thread, g.thread || '(unnamed thread)']]) {
				const kid = at.kids.get(key) || this.row(`${at.key}/${key}`, name, at === root ? g.containerLabel : '');

				at.kids.set(key, kid);
				this.add(at, sums);
				at = kid;
			}
			this.add(at, sums);
		}
		this.root = root;
		this.sums = root.sums;
		this.list();
	}

	row(key, name, title) {
		return {key, name, title, samples: 0, sums: new Float64Array(this.times.columns), kids: new Map()};
	}

	add(row, sums) {
		for (let i = 0; i < sums.length; i++) {
			row.sums[i] += sums[i];
			row.samples += sums[i];
		}
	}

	// Those with most samples first. A single row would be the same once more: those below it are shown in its place.
	kidsOf(row) {
		const kids = [...row.kids.values()].sort((a, b) => b.samples - a.samples);

		return kids.length === 1 ? this.kidsOf(kids[0]) : kids;
	}

	// The list of rows, and the buttons that name them.
	list() {
		const rows = [], add = (row, level) => {
			rows.push({row, level});
			if (this.open.has(row.key))
				this.kidsOf(row).forEach(kid => add(kid, level + 1));
		};

		this.kidsOf(this.root).forEach(row => add(row, 0));
		this.rows = rows.slice(0, TRACKS_MAX);
		$('track-names').replaceChildren(...this.rows.map(({row, level}) => this.nameOf(row, level)));
		if (rows.length > TRACKS_MAX)
			$('track-names').append(element('p', 'track', `${formatCount(rows.length - TRACKS_MAX)} more`));
		this.tracks.hidden = !this.rows.length;
		this.tracks.style.setProperty('--rows', Math.min(this.rows.length, TRACKS_SHOWN));
		this.requestDraw();
	}

	nameOf(row, level) {
		const button = element('button', 'track', row.name), kids = this.kidsOf(row).length, open = this.open.has(row.key);

		button.type = 'button';
		button.style.setProperty('--level', level);
		button.title = [row.name, row.title, formatSamples(row.samples), kids && `click to ${open ? 'hide' : 'show'} its ${kids} parts`].filter(text => text).join('\n');
		button.disabled = !kids;
		if (kids) {
			button.setAttribute('aria-expanded', open);
			button.addEventListener('click', () => this.toggle(row.key));
		}
		return button;
	}

	toggle(key) {
		const {scrollTop} = this.tracks, at = this.rows.findIndex(({row}) => row.key === key);

		if (!this.open.delete(key))
			this.open.add(key);
		this.list();
		this.tracks.scrollTop = scrollTop;
		$('track-names').children[at].focus();
	}

	setSpan(span) {
		this.span = span;
		$('span-clear').hidden = !span;
		$('span-text').textContent = span ? this.describe(span) : this.hint();
		this.requestDraw();
	}

	hint() {
		const without = this.profile.info.samples - this.times.count.reduce((a, b) => a + b, 0);

		return without ? `${formatSamples(without)} without a time, in no span · drag to select one` : 'drag to select a span of time';
	}

	sumOf({from, to}) {
		return sumBetween(this.sums, from, to);
	}

	describe(span) {
		const [from, to] = [span.from, span.to].map(column => this.secondsAt(column)), digits = this.times.width < 1e7 ? 3 : 2;

		return `${from.toFixed(digits)} – ${to.toFixed(digits)} s · ${formatSamples(this.sumOf(span))}`;
	}

	// Behind the start of the recording.
	secondsAt(column) {
		return (this.times.from + column * this.times.width) / 1e9;
	}

	// --- pointer and keys

	// The boundary between columns that is nearest.
	boundaryAt(e) {
		const r = this.all.getBoundingClientRect();

		return Math.min(Math.max(Math.round((e.clientX - r.left) / r.width * this.times.columns), 0), this.times.columns);
	}

	edgeAt(e) {
		if (!this.span)
			return null;
		const r = this.all.getBoundingClientRect(), x = column => r.left + column / this.times.columns * r.width;

		return ['from', 'to'].find(key => Math.abs(e.clientX - x(this.span[key])) <= EDGE_PX) || null;
	}

	press(e) {
		if (e.button !== 0)
			return;
		const edge = this.edgeAt(e);

		this.drag = {x: e.clientX, before: this.span, moved: Boolean(edge),
			anchor: edge ? this.span[edge === 'from' ? 'to' : 'from'] : this.boundaryAt(e)};
		e.target.setPointerCapture(e.pointerId);
		$('timeline-keys').focus({preventScroll: true});
		e.preventDefault();
	}

	move(e) {
		const {drag} = this;

		if (!drag) {
			this.all.style.cursor = this.canvas.style.cursor = this.edgeAt(e) ? 'ew-resize' : 'crosshair';
			return;
		}
		drag.moved = drag.moved || Math.abs(e.clientX - drag.x) > DRAG_PX;
		if (!drag.moved)
			return;
		const at = this.boundaryAt(e), from = Math.min(at, drag.anchor, this.times.columns - 1);

		this.setSpan({from, to: Math.max(at, drag.anchor, from + 1)});
		if (this.profile.frame.length < LIVE_NODES)
			this.selectSoon();
	}

	selectSoon() {
		this.frame = this.frame || requestAnimationFrame(() => {
			this.frame = 0;
			if (this.drag)
				this.on.select(this.span);
		});
	}

	release() {
		const {drag} = this;

		this.drag = null;
		if (drag)
			this.on.select(drag.moved ? this.span : null);
	}

	cancel() {
		if (this.drag)
			this.on.select(this.drag.before);
		this.drag = null;
	}

	// Without a span, an arrow chooses the first or last part of the time.
	key(e) {
		const {columns} = this.times, step = Math.max(1, Math.round(columns / STEPS)), width = Math.max(1, Math.round(columns / 10));
		const span = this.span || (e.key === 'ArrowLeft' ? {from: columns - width, to: columns} : {from: 0, to: width});
		const limit = (value, low, high) => Math.min(Math.max(value, low), high);
		const moveTo = from => ({from, to: from + span.to - span.from});
		const last = columns - (span.to - span.from);
		const moves = {
			ArrowLeft: () => e.shiftKey ? {...span, to: limit(span.to - step, span.from + 1, columns)} : moveTo(limit(span.from - step, 0, last)),
			ArrowRight: () => e.shiftKey ? {...span, to: limit(span.to + step, 1, columns)} : moveTo(limit(span.from + step, 0, last)),
			Home: () => e.shiftKey ? {...span, from: 0} : moveTo(0),
			End: () => e.shiftKey ? {...span, to: columns} : moveTo(last),
			Escape: () => null,
		};

		if (!Object.hasOwn(moves, e.key) || e.key === 'Escape' && !this.span || e.ctrlKey || e.metaKey || e.altKey)
			return;
		e.preventDefault();
		e.stopPropagation();
		this.on.select(this.span || e.key === 'Escape' ? moves[e.key]() : span);
	}

	// --- drawing

	requestDraw() {
		this.wanted = this.wanted || requestAnimationFrame(() => {
			this.wanted = 0;
			if (this.sums)
				this.draw();
		});
	}

	draw() {
		const style = getComputedStyle($('timeline')), colour = name => style.getPropertyValue(name).trim();

		this.colours = {bar: colour('--track'), all: colour('--track-all'), match: colour('--match'), text: colour('--quiet'),
			line: colour('--line'), span: colour('--accent'), background: colour('--bg')};
		const all = this.prepare(this.all, ALL_TRACK + TRACK), bin = this.binOf(all.width);

		this.drawTrack(all, this.sums, 0, ALL_TRACK, {bin, most: this.most(this.sums, bin), colour: this.colours.all});
		if (this.matched)
			this.drawTrack(all, this.matched, 0, ALL_TRACK, {bin, most: this.most(this.sums, bin), colour: this.colours.match});
		this.drawAxis(all);
		this.drawSpan(all, 0, ALL_TRACK);
		if (!this.tracks.hidden)
			this.drawTracks(bin);
	}

	prepare(canvas, height) {
		const ratio = devicePixelRatio || 1, width = canvas.parentElement.clientWidth - canvas.offsetLeft, context = canvas.getContext('2d');

		canvas.style.width = `${width}px`;
		canvas.style.height = `${height}px`;
		canvas.width = Math.round(width * ratio);
		canvas.height = Math.round(height * ratio);
		context.setTransform(ratio, 0, 0, ratio, 0, 0);
		context.fillStyle = this.colours.background;
		context.fillRect(0, 0, width, height);
		return {context, width, height};
	}

	drawTracks(bin) {
		const {scrollTop, clientHeight} = this.tracks, on = this.prepare(this.canvas, clientHeight);
		const most = this.rows.reduce((n, {row}) => Math.max(n, this.most(row.sums, bin)), 0);

		this.rows.forEach(({row}, i) => {
			const y = i * TRACK - scrollTop;

			if (y > -TRACK && y < clientHeight)
				this.drawTrack(on, row.sums, y, TRACK, {bin, most, colour: this.colours.bar});
		});
		this.drawSpan(on, 0, clientHeight);
	}

	// How many columns a bar is drawn for.
	binOf(width) {
		const {columns} = this.times, samples = this.sumOf({from: 0, to: columns});
		const wanted = Math.max(columns / width, samples ? columns * BIN_SAMPLES / samples : 1);

		return Math.max(1, Math.min(Math.ceil(wanted), Math.floor(columns / BINS_MIN)));
	}

	most(sums, bin) {
		let most = 0;

		for (let i = 0; i < sums.length; i += bin)
			most = Math.max(most, sumBetween(sums, i, i + bin));
		return most;
	}

	drawTrack({context, width}, sums, y, height, {bin, most, colour}) {
		const scale = width / sums.length;

		context.fillStyle = this.colours.line;
		context.fillRect(0, y + height - 1, width, 1);
		context.fillStyle = colour;
		for (let i = 0; i < sums.length; i += bin) {
			const value = sumBetween(sums, i, i + bin), tall = Math.max(1, value / most * (height - 3));

			if (!value)
				continue;
			context.globalAlpha = this.isOutside(i + bin / 2) ? 0.35 : 1;
			context.fillRect(i * scale, y + height - 1 - tall, Math.max(bin * scale - (bin * scale > 3 ? 1 : 0), 1), tall);
		}
		context.globalAlpha = 1;
	}

	isOutside(column) {
		return this.span && (column < this.span.from || column > this.span.to);
	}

	drawSpan({context, width}, y, height) {
		if (!this.span)
			return;
		const [left, right] = ['from', 'to'].map(key => this.span[key] / this.times.columns * width);

		context.fillStyle = this.colours.span;
		context.globalAlpha = 0.14;
		context.fillRect(left, y, right - left, height);
		context.globalAlpha = 1;
		context.fillRect(Math.max(0, left - 1), y, 2, height);
		context.fillRect(Math.min(width - 2, right - 1), y, 2, height);
	}

	drawAxis({context, width}) {
		const [begin, end] = [0, this.times.columns].map(column => this.secondsAt(column));
		const rough = (end - begin) / Math.max(width / 90, 1), power = 10 ** Math.floor(Math.log10(rough));
		const step = [1, 2, 5, 10].map(n => n * power).find(n => n >= rough), digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));

		context.font = `11px ${FONT_FAMILY}`;
		context.textBaseline = 'middle';
		context.fillStyle = this.colours.text;
		for (let k = Math.ceil(begin / step); k * step <= end; k++) {
			const x = (k * step - begin) / (end - begin) * width;

			context.fillRect(x, ALL_TRACK, 1, 4);
			if (x < width - 30)
				context.fillText(`${(k * step).toFixed(digits)} s`, x + 4, ALL_TRACK + TRACK / 2);
		}
	}
}

function sumBetween(sums, from, to) {
	let sum = 0;

	for (let i = from; i < to && i < sums.length; i++)
		sum += sums[i];
	return sum;
}

// Samples of the stacks that a search has found, in each column.
function matchedColumns(profile, search) {
	const sums = new Float64Array(profile.times.columns), {first, column, count} = profile.times;

	for (let i = 0; i < profile.frame.length; i++)
		if (search.stack[i])
			for (let c = first[i]; c < first[i + 1]; c++)
				sums[column[c]] += count[c];
	return sums;
}
