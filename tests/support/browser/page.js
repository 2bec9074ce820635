// SPDX-License-Identifier: Apache-2.0
// Chromium without a window and one page of proflet's in it: what a user does (clicks, keys, wheel) by real input events,
// what a user sees by the pixels of the canvas. Where a frame is drawn is asked of the page's own chart.
'use strict';

const path = require('path');
const puppeteer = require('puppeteer-core');

const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--hide-scrollbars', '--disable-background-networking'];

// Runs in the page. The widest box of that name, of that kind, below a row of that name, or of frames that are too narrow,
// scrolled into view; in the window's pixels.
function findBox({name, kind, under, rest}) {
	const {chart} = window.proflet, isUnder = node => node && (node.name === under || isUnder(node.parent));
	const matches = b => Boolean(b.rest) === Boolean(rest) && (name === undefined || b.node.name === name) &&
		(kind === undefined || b.node.kind === kind) && (under === undefined || isUnder(b.node));
	const box = chart.rows.flat().filter(b => b && matches(b)).sort((a, b) => b.w - a.w)[0];

	if (!box)
		return null;
	const depth = box.node.depth + (box.rest ? 1 : 0);

	chart.reveal(depth);
	const r = chart.canvas.getBoundingClientRect(), y = chart.rowTop(depth);

	return {x: r.left + box.x, y: r.top + y, w: box.w, depth, name: box.node.name, samples: box.node.total, rest: box.rest,
		visible: y >= 0 && y + 19 <= chart.height, height: chart.height, top: r.top, width: chart.width};
}

// Runs in the page. What is on a part of the canvas: the first colour, [red, green, blue], how many there are, and the share
// of the pixels that are not of the most common one. It reads a copy: the page's own canvas is made to be drawn on.
function readCanvas({x, y, width, height}) {
	const {canvas} = window.proflet.chart, r = canvas.getBoundingClientRect(), ratio = canvas.width / r.width;
	const copy = document.createElement('canvas'), context = copy.getContext('2d', {willReadFrequently: true}), counts = new Map();

	copy.width = width || canvas.width;
	copy.height = height || canvas.height;
	context.drawImage(canvas, -Math.round((x - r.left) * ratio), -Math.round((y - r.top) * ratio));
	const {data} = context.getImageData(0, 0, copy.width, copy.height), pixels = new Uint32Array(data.buffer);

	for (const pixel of pixels)
		counts.set(pixel, (counts.get(pixel) || 0) + 1);
	return {first: [...data.subarray(0, 3)], colours: counts.size, drawn: 1 - Math.max(...counts.values()) / pixels.length};
}

class Page {
	static async launch(chromium, folder) {
		const page = new Page();

		page.folder = folder; // for screenshots; none without
		page.complaints = []; // what the console said, what was thrown, what was asked for beside the page
		page.browser = await puppeteer.launch({executablePath: chromium, args: FLAGS, headless: true});
		page.tab = await page.browser.newPage();
		page.tab.on('console', m => page.complaints.push(`console ${m.type()}: ${m.text()}`));
		page.tab.on('pageerror', e => page.complaints.push(`exception: ${e.message}`));
		page.tab.on('request', r => {
			if (r.url().split('#')[0] !== page.url)
				page.complaints.push(`request: ${r.url()}`);
		});
		return page;
	}

	close() {
		return this.browser.close();
	}

	async size(width, height) {
		await this.tab.setViewport({width, height});
		await this.settle();
		await this.settle(); // the size is seen at the end of the first frame
	}

	// Zooms take a moment to be followed by eye, which is waited for in vain when many are checked.
	async prefer({scheme = 'light', still = true}) {
		await this.tab.emulateMediaFeatures([{name: 'prefers-color-scheme', value: scheme},
			{name: 'prefers-reduced-motion', value: still ? 'reduce' : 'no-preference'}]);
		this.still = still;
		await this.settle();
	}

	// Milliseconds from asking for the file until it is drawn.
	async open(file, hash = '') {
		const begin = performance.now();

		this.url = `file://${path.resolve(file)}`;
		await this.tab.goto('about:blank');
		await this.tab.goto(this.url + hash, {waitUntil: 'domcontentloaded'});
		await this.tab.evaluate(() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))));
		await this.colours(); // what is not on the canvas yet would have to be now
		return performance.now() - begin;
	}

	// Waits until what was asked for is drawn, and no animation of a zoom is left.
	settle() {
		return this.tab.evaluate(still => new Promise(done => {
			let before = '';
			const look = () => {
				const chart = window.proflet && window.proflet.chart, now = chart ? `${chart.from} ${chart.to}` : 'none';

				if (still)
					done();
				else if (now === before)
					requestAnimationFrame(done);
				else
					requestAnimationFrame(look);
				before = now;
			};
			requestAnimationFrame(look);
		}), this.still);
	}

	evaluate(f, ...values) {
		return this.tab.evaluate(f, ...values);
	}

	async box(what) {
		const box = await this.tab.evaluate(findBox, what);

		await this.settle();
		return box;
	}

	// So that a frame which is drawn narrow can be looked at.
	async zoomTo(box) {
		await this.tab.evaluate(({name, depth}) => {
			const row = window.proflet.chart.rows[depth].filter(b => !b.rest && b.node.name === name);

			window.proflet.zoom(row.sort((a, b) => b.w - a.w)[0].node);
		}, box);
		await this.settle();
	}

	async pixel(box) {
		return (await this.tab.evaluate(readCanvas, {x: box.x + Math.min(2, box.w / 2), y: box.y + 2, width: 1, height: 1})).first;
	}

	async colours() {
		const corner = await this.tab.evaluate(() => document.getElementById('canvas').getBoundingClientRect().toJSON());

		return this.tab.evaluate(readCanvas, {x: corner.x, y: corner.y});
	}

	async clickBox(what, {offset = 0.5} = {}) {
		const box = await this.box(what);

		if (!box)
			throw new Error(`no box ${JSON.stringify(what)}`);
		await this.tab.mouse.click(box.x + box.w * offset, box.y + 9);
		await this.tab.mouse.move(1, 1);
		await this.settle();
		return box;
	}

	async click(selector) {
		await this.tab.click(selector);
		await this.settle();
	}

	async press(...keys) {
		for (const key of keys)
			await this.tab.keyboard.press(key);
		await this.settle();
	}

	async chord(modifier, key, command) {
		await this.tab.keyboard.down(modifier);
		await this.tab.keyboard.press(key, {commands: [command]});
		await this.tab.keyboard.up(modifier);
	}

	text(selector) {
		return this.tab.$eval(selector, e => e.textContent);
	}

	// What the clipboard has, pasted into a field that is there for that.
	async pasted() {
		await this.tab.evaluate(() => {
			const area = document.createElement('textarea');

			area.id = 'pasted-by-test';
			document.body.append(area);
			area.focus();
		});
		await this.chord('Control', 'v', 'paste');
		return this.tab.evaluate(() => {
			const area = document.getElementById('pasted-by-test'), {value} = area;

			area.remove();
			document.getElementById('canvas').focus();
			return value;
		});
	}

	async screenshot(name) {
		if (this.folder)
			await this.tab.screenshot({path: path.join(this.folder, `${name}.png`)});
	}
}

module.exports = {Page};
