// SPDX-License-Identifier: Apache-2.0
// Colours and text of the graph. Fills are chosen so that the text on them keeps a contrast of at least 4.5 in both
// themes (WCAG AA).
'use strict';

const THEMES = {
	light: {
		hues: [20, 46], text: '#1b1b1f', background: '#ffffff', outline: '#1b1b1f', accent: '#0b57d0', gap: '#ffffff',
		match: 'hsl(292 80% 76%)', rest: 'hsl(30 18% 88%)', fade: 0.32,
		frame: (hue, spread) => `hsl(${hue} ${70 + 18 * spread}% ${73 + 8 * spread}%)`,
		module: hue => `hsl(${hue} 62% 80%)`,
		go: spread => `hsl(${168 + 14 * spread} ${52 + 14 * spread}% ${68 + 8 * spread}%)`,
		jit: spread => `hsl(${340 + 12 * spread} ${78 + 10 * spread}% ${77 + 7 * spread}%)`,
		runtime: (hue, spread) => `hsl(${hue + 8 * (spread - 0.5)} ${62 + 12 * spread}% ${74 + 6 * spread}%)`,
		change: (by, t) => `hsl(${by > 0 ? 12 : 215} ${by > 0 ? 60 + 30 * t : 55 + 30 * t}% ${86 - 20 * t}%)`, noise: 'hsl(220 6% 89%)',
		unnamed: 'hsl(36 26% 83%)', ending: 'hsl(220 9% 80%)', hatch: 'hsl(220 9% 66%)',
		rows: {[KIND.ALL]: 'hsl(220 16% 88%)', [KIND.CONTAINER]: 'hsl(262 52% 82%)',
			[KIND.PROCESS]: 'hsl(262 46% 89%)', [KIND.THREAD]: 'hsl(262 36% 94%)'},
	},
	dark: {
		hues: [16, 38], text: '#f5f3ef', background: '#16171a', outline: '#ffffff', accent: '#8ab4f8', gap: '#16171a',
		match: 'hsl(292 48% 44%)', rest: 'hsl(30 8% 22%)', fade: 0.38,
		frame: (hue, spread) => `hsl(${hue} ${48 + 10 * spread}% ${29 + 5 * spread}%)`,
		module: hue => `hsl(${hue} 36% 31%)`,
		go: spread => `hsl(${168 + 14 * spread} ${42 + 10 * spread}% ${24 + 4 * spread}%)`,
		jit: spread => `hsl(${326 + 12 * spread} ${40 + 8 * spread}% ${37 + 5 * spread}%)`,
		runtime: (hue, spread) => `hsl(${hue + 8 * (spread - 0.5)} ${42 + 10 * spread}% ${(hue > 220 ? 34 : 23) + 4 * spread}%)`,
		change: (by, t) => `hsl(${by > 0 ? 8 : 215} ${36 + 34 * t}% ${30 + 11 * t}%)`, noise: 'hsl(220 4% 25%)',
		unnamed: 'hsl(36 10% 30%)', ending: 'hsl(220 5% 30%)', hatch: 'hsl(220 6% 42%)',
		rows: {[KIND.ALL]: 'hsl(220 10% 27%)', [KIND.CONTAINER]: 'hsl(262 26% 39%)',
			[KIND.PROCESS]: 'hsl(262 20% 31%)', [KIND.THREAD]: 'hsl(262 14% 25%)'},
	},
};
const FONT_SIZE = 12;
const FONT_FAMILY = 'ui-sans-serif, system-ui, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", "DejaVu Sans", sans-serif';

function hashText(s) {
	let h = 2166136261;

	for (let i = 0; i < s.length; i++)
		h = Math.imul(h ^ s.charCodeAt(i), 16777619);
	return h >>> 0;
}

// The name is only an address, because the file has no symbol there.
function isUnnamed(name) {
	return /(^|\+)0x[0-9a-f]+$/.test(name);
}

// Shortens a long name to the part that distinguishes functions: without template arguments and
// parameters (C++, Rust), without a leading return type (C++), without the directories of an import path (Go).
function compactName(name) {
	const path = name.match(/^[\w.~-]+\/[^\s(<[]*\//) || name.match(/^[\w.~-]+\/(?=\w+\.)/);

	if (path)
		return name.slice(path[0].length);
	if (name.startsWith('[') || !/[<(]/.test(name))
		return name;
	const bare = dropBrackets(name.replaceAll('(anonymous namespace)', '{anonymous}')).replace(/\(…\).*$/, '');

	if (!name.includes('::') || !name.includes('(') || bare.startsWith('<') || bare.includes('(*'))
		return bare;
	const operator = bare.indexOf('operator');

	return bare.slice(bare.lastIndexOf(' ', operator < 0 ? Infinity : operator) + 1);
}

// Replaces text in brackets after a name by "…"; operator< and operator() stay.
function dropBrackets(name) {
	let out = '', depth = 0;

	for (let i = 0; i < name.length; i++) {
		const c = name[i], opens = c === '<' || c === '(';

		if (depth) {
			depth += opens ? 1 : c === ')' || c === '>' && name[i - 1] !== '-' ? -1 : 0;
		} else if (opens && /[\w\])]$/.test(out) && !/operator\(?$/.test(out)) {
			out += c === '<' ? '<…>' : '(…)';
			depth = 1;
		} else if (opens && /operator\(\)$|>$/.test(out) && c === '(') {
			out += '(…)';
			depth = 1;
		} else {
			out += c;
		}
	}
	return out;
}

class Painter {
	constructor(canvas, profile) {
		this.context = canvas.getContext('2d', {alpha: false});
		this.canvas = canvas;
		this.profile = profile;
		this.colour = 'kind';
		this.comparison = null; // what change is by
		this.most = 1;          // change of the strongest colours
		this.widths = {normal: new Map(), bold: new Map()};
		this.setTheme();
	}

	setTheme() {
		this.theme = THEMES[matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'];
		this.fills = new Array(this.profile.name.length);
		this.hatched = this.makeHatch();
	}

	// By kind, module or change.
	setColour(colour) {
		this.colour = colour;
		this.fills.fill(undefined);
	}

	makeHatch() {
		const tile = document.createElement('canvas'), c = tile.getContext('2d');

		tile.width = tile.height = 8;
		c.fillStyle = this.theme.ending;
		c.fillRect(0, 0, 8, 8);
		c.strokeStyle = this.theme.hatch;
		c.beginPath();
		for (const x of [-8, 0, 8]) {
			c.moveTo(x, 8);
			c.lineTo(x + 8, 0);
		}
		c.stroke();
		return this.context.createPattern(tile, 'repeat');
	}

	fillOf(node) {
		if (this.colour === 'change')
			return this.changeFill(this.comparison.of(node));
		if (!node.frame)
			return this.theme.rows[node.kind];
		return this.fills[node.frame] || (this.fills[node.frame] = this.frameFill(node.frame));
	}

	changeFill(change) {
		return change.certain ? this.theme.change(change.by, Math.sqrt(Math.min(1, Math.abs(change.by) / this.most))) : this.theme.noise;
	}

	frameFill(f) {
		const {name, kind, module} = this.profile, spread = hashText(name[f]) % 256 / 255;
		const [low, high] = this.theme.hues;

		if (kind[f] === KIND.ENDING)
			return this.hatched;
		if (kind[f] === KIND.KERNEL)
			return this.theme.frame(205 + 18 * spread, spread / 2);
		if (kind[f] === KIND.RUNTIME)
			return this.theme.runtime(runtimeOf(this.profile.runtime[f]).hue, spread);
		if (this.colour === 'module') // the golden angle keeps any number of neighbours apart
			return module[f] ? this.theme.module((34 + 137.508 * (module[f] - 1)) % 360) : this.theme.unnamed;
		if (kind[f] === KIND.GO)
			return this.theme.go(spread);
		if (kind[f] === KIND.JIT)
			return this.theme.jit(spread);
		if (isUnnamed(name[f]))
			return this.theme.unnamed;
		return this.theme.frame(low + (high - low) * spread, spread);
	}

	draw(chart) {
		const c = this.context, ratio = this.canvas.width / chart.width;
		const [first, last] = chart.visibleRows();

		c.setTransform(ratio, 0, 0, ratio, 0, 0);
		this.bold = undefined; // a resized canvas forgets its font
		c.globalAlpha = 1;
		c.fillStyle = this.theme.background;
		c.fillRect(0, 0, chart.width, chart.height);
		c.textBaseline = 'middle';
		for (let depth = first; depth <= last; depth++)
			for (const box of chart.rows[depth] || [])
				this.drawBox(chart, box, chart.rowTop(depth));
		this.outline(chart, chart.hovered, this.theme.outline, 1);
		const selected = chart.selected && (chart.rows[chart.selected.depth] || []).find(b => b.node === chart.selected && !b.rest);

		if (selected && (document.activeElement === this.canvas || chart.selected !== chart.zoomed))
			this.outline(chart, selected, this.theme.accent, 2);
	}

	drawBox(chart, box, y) {
		const c = this.context, {x, w} = box;
		const match = !box.rest && chart.search.matches(box.node);
		const faded = chart.search.active && !match || !box.rest && box.node.depth < chart.zoomed.depth;

		c.globalAlpha = faded ? this.theme.fade : 1;
		c.fillStyle = box.rest ? this.theme.rest : match ? this.theme.match : this.fillOf(box.node);
		c.fillRect(x, y, w > 3 ? w - 1 : w, ROW - 1);
		if (w < 20)
			return;
		c.globalAlpha = faded ? 0.75 : 1;
		const bold = !box.rest && !box.node.frame, room = w - 8;
		const text = box.rest ? this.restLabel(box.rest, room) : this.label(box.node, room, bold);

		if (!text)
			return;
		this.setFont(bold);
		c.fillStyle = this.theme.text;
		c.fillText(text, x + 4, y + ROW / 2);
	}

	outline(chart, box, colour, width) {
		if (!box)
			return;
		const c = this.context, y = chart.rowTop(box.rest ? box.node.depth + 1 : box.node.depth);

		c.globalAlpha = 1;
		c.strokeStyle = colour;
		c.lineWidth = width;
		c.strokeRect(box.x + width / 2, y + width / 2, Math.max(box.w - 1 - width, 1), ROW - 1 - width);
	}

	// With its change, where there is room for both.
	label(node, room, bold) {
		const full = node.label, change = this.comparison && this.comparison.of(node);
		const both = change && change.certain ? `${full}  ${formatChange(change.by)}` : full;

		if (this.width(both, bold) <= room)
			return both;
		if (this.width(full, bold) <= room)
			return full;
		return this.fit(node.frame && node.kind !== KIND.KERNEL ? compactName(full) : full, room, bold);
	}

	restLabel(n, room) {
		const full = `${formatCount(n)} narrow frames: click to open`;

		return this.width(full, false) <= room ? full : this.fit(`+${formatCount(n)}`, room, false);
	}

	// Setting a font is slow even when it is the same one.
	setFont(bold) {
		if (this.bold !== bold)
			this.context.font = `${bold ? '600 ' : ''}${FONT_SIZE}px ${FONT_FAMILY}`;
		this.bold = bold;
	}

	charWidth(ch, bold) {
		const widths = bold ? this.widths.bold : this.widths.normal;
		let w = widths.get(ch);

		if (w === undefined) {
			this.setFont(bold);
			widths.set(ch, w = this.context.measureText(ch).width);
		}
		return w;
	}

	width(text, bold) {
		let w = 0;

		for (const ch of text)
			w += this.charWidth(ch, bold);
		return w;
	}

	// As much of the text as fits; nothing if that would be a letter or two.
	fit(text, room, bold) {
		let w = 0, n = 0, cut = 0, length = 0;
		const dots = this.charWidth('…', bold);

		for (const ch of text) {
			w += this.charWidth(ch, bold);
			if (w > room)
				return n > 2 ? `${text.slice(0, cut)}…` : '';
			length += ch.length;
			if (w + dots <= room) {
				cut = length;
				n++;
			}
		}
		return text;
	}
}
