// SPDX-License-Identifier: Apache-2.0
// What tests/e2e/flamegraph.py has looked at in a browser. usage: node flamegraph.js CHROMIUM [FOLDER], and one line of JSON
// on the input, when there is something to look at: pages and what is true of them. Screenshots go into the folder.
// Each line of output is the result of one check, {what, ok, detail}.
'use strict';

const readline = require('readline');
const {Page} = require('./page.js');

const KIND = {NATIVE: 0, KERNEL: 1, ENDING: 2, GO: 3, JIT: 4, RUNTIME: 5, CONTAINER: 7, PROCESS: 8, THREAD: 9}; // as flamegraph_model.js
const HUES = {NATIVE: [10, 55], GO: [160, 190], JIT: [320, 356], KERNEL: [200, 228]};
const AA = 4.5; // contrast of text, WCAG 2.2, 1.4.3

function check(what, ok, detail = '') {
	console.log(JSON.stringify({what, ok: Boolean(ok), detail: String(detail)}));
}

function equal(what, found, wanted) {
	const [a, b] = [found, wanted].map(v => JSON.stringify(v));

	check(what, a === b, a === b ? a : `found ${a}, wanted ${b}`);
}

function hueOf([r, g, b]) {
	const max = Math.max(r, g, b), d = max - Math.min(r, g, b);

	if (!d)
		return -1;
	return 60 * (max === r ? ((g - b) / d + 6) % 6 : max === g ? (b - r) / d + 2 : (r - g) / d + 4);
}

function luminance(rgb) {
	const [r, g, b] = rgb.map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);

	return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(a, b) {
	const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y);

	return (light + 0.05) / (dark + 0.05);
}

const depths = page => page.evaluate(() => window.proflet.chart.rows.length);
// The rows above the stacks, name and samples, also those that are too narrow to draw.
const rowsOfKind = (page, kind) => page.evaluate(k => {
	const below = node => node.frame ? [] : [node, ...(node.kids || []).flatMap(below)];

	return Object.fromEntries(below(window.proflet.tree.root).filter(n => n.kind === k).map(n => [n.name, n.total]));
}, kind);
const selected = page => page.evaluate(() => (window.proflet.chart.selected || {}).name);
const zoomed = page => page.evaluate(() => window.proflet.chart.zoomed.name);

async function drawn(page, wanted) {
	const {colours, drawn: share} = await page.colours();

	check('the page draws', share > 0.05 && colours > 16 && await depths(page) > 5,
		`${(100 * share).toFixed(1)} % of the pixels are not background, ${colours} colours, ${await depths(page)} rows`);
	equal('every sample of the folded file is in the page', await page.evaluate(() => window.proflet.tree.root.total), wanted.total);
}

async function kinds(page, theme, wanted) {
	const text = await page.evaluate(() => window.proflet.painter.theme.text.match(/\w\w/g).map(v => parseInt(v, 16)));

	for (const [name, [low, high]] of Object.entries(HUES)) {
		if (!wanted.kinds.includes(name))
			continue;
		const found = await page.box({kind: KIND[name]});

		if (found)
			await page.zoomTo(found);
		const box = await page.box({name: found && found.name, kind: KIND[name]}), fill = box ? await page.pixel(box) : [0, 0, 0];
		const hue = hueOf(fill);

		check(`${theme}: code of kind ${name.toLowerCase()} has its colour`, box && hue >= low && hue <= high,
			box ? `${box.name}: hue ${hue.toFixed(0)}` : 'no such box');
		check(`${theme}: text on it can be read`, contrast(fill, text) >= AA, `contrast ${contrast(fill, text).toFixed(1)}`);
		await page.press('Escape');
	}
}

async function zoom(page, wanted) {
	await page.prefer({still: false});
	const inner = {name: wanted.inner, under: wanted.process}, before = await page.clickBox(inner), after = await page.box(inner);

	check('a click zooms: the frame fills the width', before.w < before.width - 2 && after.w > after.width - 1,
		`${before.w.toFixed(0)} → ${after.w.toFixed(0)} of ${after.width} pixels`);
	check('what is outside of it is gone', await page.evaluate(name => window.proflet.chart.rows.flat().every(b => b.node.depth >= 0 &&
		b.w > 0) && !window.proflet.chart.rows[2].some(b => !b.rest && b.node.name !== name), wanted.process));
	check('the way to it is above the graph', (await page.text('#crumbs')).includes(wanted.inner));
	const hash = await page.evaluate(() => location.hash);

	await page.screenshot('zoomed');
	await page.prefer({});
	await page.click('#crumbs .reset');
	equal('Reset zoom shows all again', await zoomed(page), 'all');
	await page.open(wanted.page, hash);
	equal('the address brings the zoom back', await zoomed(page), wanted.inner);
	await page.press('Escape');
	equal('Escape resets it', await zoomed(page), 'all');
}

async function search(page, wanted) {
	for (const {query, samples} of wanted.searches) {
		await page.press('/');
		await page.tab.keyboard.type(query);
		await page.tab.waitForFunction(q => window.proflet.state.search === q, {polling: 20}, query);
		const text = await page.text('#matched'), percent = parseFloat(text), exact = 100 * samples / wanted.total;

		check(`search ${query}: the percentage and the samples are those of the folded file`,
			Math.abs(percent - exact) <= 0.05 && text.includes(` ${samples.toLocaleString('en')} sample`), `${text}; ${exact.toFixed(3)} %`);
		await page.screenshot('search');
		await page.press('Enter', 'Escape');
	}
	equal('Escape ends the search', await page.text('#matched'), '');
	await page.press('/');
	await page.tab.keyboard.type('(');
	await page.tab.waitForFunction(() => window.proflet.state.search === '(', {polling: 20});
	equal('half a regular expression is said to be none', await page.text('#matched'), 'not a regular expression');
	await page.press('Escape');
}

async function grouping(page, wanted) {
	equal('by container: each has its samples', sorted(await rowsOfKind(page, KIND.CONTAINER)), sorted(wanted.containers));
	await page.click('#row-container');
	equal('without containers', await rowsOfKind(page, KIND.CONTAINER), {});
	await page.click('#row-thread');
	check('by thread', wanted.process in await rowsOfKind(page, KIND.THREAD));
	await page.click('#row-pid');
	check('each PID by itself', `${wanted.process} (${wanted.pid})` in await rowsOfKind(page, KIND.PROCESS));
	await page.click('#row-thread');
	await page.click('#row-process');
	check('without rows above the stacks', Object.keys(await rowsOfKind(page, KIND.PROCESS)).length === 0);
	for (const id of ['#row-process', '#row-pid', '#row-container'])
		await page.click(id);
	const [name, samples] = Object.entries(wanted.containers).find(([key]) => key in wanted.ids); // others run beside

	await page.tab.select('#container', wanted.ids[name]);
	equal('one container alone', await page.evaluate(() => window.proflet.tree.root.total), samples);
	await page.tab.select('#container', '');
	await page.settle();
}

const sorted = object => Object.fromEntries(Object.entries(object).sort());

async function keyboard(page, wanted) {
	await page.evaluate(() => document.getElementById('canvas').focus());
	await page.press('Home', 'ArrowDown', 'ArrowDown');
	const process = await selected(page);

	check('arrows go inwards', (await page.evaluate(() => window.proflet.chart.selected.depth)) === 2, process);
	await page.press('ArrowRight');
	const next = await selected(page);

	await page.press('ArrowLeft');
	check('and to the neighbour and back', next !== process && await selected(page) === process, `${process}, ${next}`);
	await page.press('Enter');
	equal('Enter zooms', await zoomed(page), process);
	await page.press('Backspace');
	check('Backspace zooms out by one', await page.evaluate(() => window.proflet.chart.zoomed.depth === 1));
	await page.tab.select('#process', wanted.process);
	await page.evaluate(() => document.getElementById('canvas').focus());
	await page.press('t');
	const cells = await page.evaluate(leaf => [...document.querySelectorAll('#top tbody tr')].filter(row =>
		row.querySelector('.name').textContent === leaf).map(row => row.children[1].textContent), wanted.leaf);

	equal('t: the table of the functions of one process has the samples of the leaf', cells, [wanted.leafSamples.toLocaleString('en')]);
	await page.screenshot('top');
	await page.tab.select('#process', '');
	await page.evaluate(() => document.activeElement.blur());
	await page.press('t', 'c');
	check('c: callers, the leaf is directly below its process', await page.evaluate(({process, leaf}) => window.proflet.chart.rows[3].some(b =>
		b.node.name === leaf && b.node.parent.name === process), wanted));
	await page.press('c', 'i');
	const root = await page.box({name: 'all'});

	check('i: as a flame the root is at the bottom', root.y + 19 > root.top + root.height - 2, `${root.y.toFixed(0)} of ${root.height}`);
	await page.screenshot('flame');
	await page.press('i', '?');
	check('?: help', await page.evaluate(() => document.getElementById('help').open));
	await page.screenshot('help');
	await page.press('Escape');
}

async function copying(page, wanted) {
	await page.clickBox({name: wanted.leaf, under: wanted.process});
	await page.click('#act-name');
	equal('Copy name', await page.pasted(), wanted.leaf);
	await page.clickBox({name: wanted.inner, under: wanted.process});
	await page.evaluate(() => document.getElementById('canvas').focus());
	await page.chord('Control', 'c', 'copy');
	equal('Ctrl+C on the graph copies the name', await page.pasted(), wanted.inner);
	await page.click('#act-copy');
	const lines = (await page.pasted()).split('\n');

	check('Copy stack', lines.includes(wanted.inner) && lines.includes(wanted.process) && lines.some(l => / samples?,/.test(l)),
		lines.join(' / ').slice(0, 200));
	await page.press('Escape', 'Escape');
}

async function wide(page) {
	const rest = await page.clickBox({rest: true}, {offset: 0.7}), box = await page.box({name: 'dispatch'});

	check('2,000 frames beside each other: a click opens some', rest.rest > 1000 && box.w > box.width - 1, `${rest.rest} in one box`);
	const names = () => page.evaluate(() => window.proflet.chart.rows.flat().filter(b => /^handler_/.test(b.node.name) && b.w > 60).map(b => b.node.name));
	const first = await names();

	check('they are wide enough to be read', first.length >= 5, first.join(' '));
	await page.screenshot('wide');
	await page.clickBox({name: first[2]});
	await page.press('Backspace');
	await page.clickBox({rest: true});
	const from = (await names())[0];

	await page.evaluate(name => {
		const {chart} = window.proflet;

		chart.canvas.focus();
		chart.select(chart.rows.flat().find(b => b.node.name === name).node);
	}, from);
	await page.press(...Array(20).fill('ArrowRight'));
	const at = await selected(page), shown = await page.box({name: at});

	check('the arrow goes on beyond what is shown', Math.abs(Number(at.slice(8)) - Number(from.slice(8))) === 20 && shown && shown.w > 60,
		`${from} → ${at}`);
	const x = shown.x + shown.w / 2;

	await page.tab.mouse.move(x, shown.y + 9);
	await page.tab.mouse.down();
	await page.tab.mouse.move(x - 300, shown.y + 9, {steps: 5});
	await page.tab.mouse.up();
	await page.settle();
	const dragged = await page.box({name: at});

	check('the graph can be dragged', !dragged || Math.abs(shown.x - 300 - dragged.x) < 2 || dragged.w < shown.w, dragged && dragged.x - shown.x);
	await page.tab.keyboard.down('Control');
	await page.tab.mouse.wheel({deltaY: 3000});
	await page.tab.keyboard.up('Control');
	await page.settle();
	equal('Ctrl and the wheel lead back to all', await zoomed(page), 'all');
}

async function deep(page) {
	await page.clickBox({name: 'deep'});
	await page.evaluate(() => document.getElementById('canvas').focus());
	await page.press('End');
	const bottom = await page.box({name: 'bottom'});

	check('a stack 500 deep: End shows its leaf', bottom && bottom.visible && bottom.depth >= 500 && await selected(page) === 'bottom',
		bottom && `row ${bottom.depth}`);
	check('which is named below the graph', (await page.text('#detail-name')) === 'bottom');
	await page.screenshot('deep');
	await page.press('Home');
	check('Home shows the root', (await page.box({name: 'all'})).visible);
}

// Samples of all and of a function in the span that the page shows; then as they are in the OTLP file.
async function spanOf(page, wanted) {
	const {from, to} = await page.evaluate(() => decodeSpan(window.proflet.state.span, window.proflet.profile.times) || {from: 0, to: 1e9});
	const inside = wanted.times.filter(([column]) => column >= from && column < to);
	const found = await page.evaluate(name => {
		const {shown, tree} = window.proflet;

		return [tree.root.total, new Search(shown, tree, `^${name}$`).samplesIn(tree.root)];
	}, wanted.inner);

	return {from, to, found, counted: [inside.length, inside.filter(([, has]) => has).length], text: await page.text('#span-text')};
}

async function drag(page, from, to) {
	const r = await page.evaluate(() => document.getElementById('all-canvas').getBoundingClientRect().toJSON()), y = r.y + 12;

	await page.tab.mouse.move(r.x + from * r.width, y);
	await page.tab.mouse.down();
	await page.tab.mouse.move(r.x + (from + to) / 2 * r.width, y, {steps: 3});
	await page.tab.mouse.move(r.x + to * r.width, y, {steps: 3});
	await page.tab.mouse.up();
	await page.settle();
}

async function timelineByMouse(page, wanted) {
	const whole = await spanOf(page, wanted);

	check('the timeline is there', await page.evaluate(() => document.getElementById('timeline').checkVisibility()), `${await page.evaluate(() => window.proflet.profile.times.columns)} columns`);
	equal('without a span: samples of all and of a function as in the OTLP file', whole.found, whole.counted);
	await drag(page, 0.3, 0.6);
	const span = await spanOf(page, wanted), share = span.counted[0] / whole.counted[0];

	equal('a span by the mouse: samples of all and of a function as in that time of the OTLP file', span.found, span.counted);
	check('which are some of them, as the strip says', share > 0.02 && share < 0.98 && span.text.includes(` ${span.counted[0].toLocaleString('en')} sample`), span.text);
	await page.screenshot('span');
	await page.evaluate(name => window.proflet.set({tab: 'top', search: `^${name}$`}), wanted.inner);
	const cells = await page.evaluate(name => [...document.querySelectorAll('#top tbody tr')].filter(row =>
		row.querySelector('.name').textContent === name).map(row => Number(row.children[3].textContent.replace(/,/g, ''))), wanted.inner);

	equal('the table has the same', cells.reduce((a, b) => a + b, 0), span.counted[1]);
	await page.screenshot('span-top');
	await page.evaluate(() => window.proflet.set({tab: 'flame', search: ''}));
	const hash = await page.evaluate(() => location.hash);

	await page.open(wanted.page, hash);
	equal('the address brings the span back', (await spanOf(page, wanted)).found, span.counted);
	await drag(page, 0.6, 0.8);
	const wider = await spanOf(page, wanted);

	check('its edge can be dragged', wider.from === span.from && wider.to > span.to, `${span.from} to ${span.to}, then to ${wider.to}`);
	equal('and the totals follow', wider.found, wider.counted);
	await page.press('Escape');
	equal('Escape clears it', (await spanOf(page, wanted)).found, whole.counted);
}

async function timelineByKeys(page, wanted) {
	const shift = async (...keys) => {
		await page.tab.keyboard.down('Shift');
		await page.press(...keys);
		await page.tab.keyboard.up('Shift');
	};

	await page.evaluate(() => document.getElementById('search').focus());
	for (let i = 0; i < 3 && await page.evaluate(() => document.activeElement.id !== 'timeline-keys'); i++)
		await page.press('Tab');
	check('the keyboard gets to the timeline', await page.evaluate(() => document.activeElement.id === 'timeline-keys'));
	await page.press('ArrowRight');
	const first = await spanOf(page, wanted);

	await page.press('ArrowRight');
	const moved = await spanOf(page, wanted);

	await shift('ArrowRight', 'ArrowRight');
	const longer = await spanOf(page, wanted);

	check('an arrow chooses a span, moves it, with Shift makes it longer', first.from === 0 && moved.from > 0 && moved.to - moved.from === first.to - first.from &&
		longer.from === moved.from && longer.to > moved.to, [first, moved, longer].map(s => `${s.from}–${s.to}`).join(', '));
	for (const [key, s] of Object.entries({first, moved, longer}))
		equal(`by keys, ${key}: samples of all and of a function as in that time of the OTLP file`, s.found, s.counted);
	await page.press('End');
	equal('End: the last part', (await spanOf(page, wanted)).to, await page.evaluate(() => window.proflet.profile.times.columns));
	await page.press('Escape');
	equal('Escape clears it, and nothing else', await page.evaluate(() => window.proflet.state.span), '');
}

async function timeline(page, wanted) {
	await page.open(wanted.page);
	await timelineByMouse(page, wanted);
	await timelineByKeys(page, wanted);
	const rows = () => page.evaluate(() => window.proflet.timeline.rows.map(({row, level}) => [level, row.name, row.samples]));
	const before = await rows(), at = await page.evaluate(() => window.proflet.timeline.rows.findIndex(({row}) => window.proflet.timeline.kidsOf(row).length > 1));

	check('each process has a row', before.some(([, name]) => name === wanted.process), before.map(([, name]) => name).join(' ').slice(0, 100));
	equal('their samples are all that there are', before.reduce((sum, [, , n]) => sum + n, 0), wanted.times.length);
	await page.evaluate(i => document.querySelectorAll('#track-names button')[i].focus(), at);
	await page.press('Enter');
	const opened = await rows(), parts = opened.filter(([level]) => level === 1);

	check('Enter opens one: its PIDs or threads have its samples', parts.length > 1 && parts.reduce((sum, [, , n]) => sum + n, 0) === before[at][2],
		`${before[at][1]}: ${parts.length}`);
	await page.tab.select('#process', wanted.process);
	await page.settle();
	equal('one process: the strip follows', await page.evaluate(() => window.proflet.timeline.sums.reduce((a, b) => a + b, 0)), await page.evaluate(() => window.proflet.tree.root.total));
	await page.tab.select('#process', '');
	await page.settle();
	await page.open(wanted.shapes);
	check('a recording without times has no strip, and says why', await page.evaluate(() => !document.getElementById('timeline').checkVisibility() &&
		document.getElementById('facts').textContent.includes('Timelinenone')));
	await page.open(wanted.page, '#span=10-3');
	equal('a span that cannot be is none', await page.evaluate(() => window.proflet.state.span), '');
}

async function recording(page, wanted) {
	await page.size(1280, 800);
	await page.prefer({});
	await page.open(wanted.page);
	await drawn(page, wanted);
	await page.screenshot('light');
	await kinds(page, 'light', wanted);
	for (const part of [zoom, search, grouping, keyboard, copying])
		await part(page, wanted);
	await page.prefer({scheme: 'dark'});
	const [r, g, b] = await page.evaluate(() => window.proflet.painter.theme.background.match(/\w\w/g).map(v => parseInt(v, 16)));

	check('dark: the background is', luminance([r, g, b]) < 0.02);
	await kinds(page, 'dark', wanted);
	await page.screenshot('dark');
	await page.prefer({scheme: 'light'});
	await page.size(400, 700);
	await drag(page, 0.2, 0.7);
	await page.screenshot('narrow');
	check('400 pixels wide: nothing sticks out', await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
	await page.size(1280, 800);
}

async function shapes(page, wanted) {
	await page.open(wanted.shapes);
	await wide(page);
	await deep(page);
}

const boxesNamed = (page, name, process) => page.evaluate(({n, p}) => {
	const inProcess = node => node && (node.name === p || inProcess(node.parent));

	return window.proflet.chart.rows.flat().filter(b => !b.rest && b.node.name === n && inProcess(b.node)).length;
}, {n: name, p: process});

async function languageColours(page, theme) {
	const text = await page.evaluate(() => window.proflet.painter.theme.text.match(/\w\w/g).map(v => parseInt(v, 16)));
	const runtimes = await page.evaluate(() => Object.entries(RUNTIMES).map(([name, {hue}]) => [name, hue]));
	const wrong = [];

	for (const [name, hue] of runtimes) {
		const fill = await page.pixel(await page.box({name, under: 'scripts'})), found = hueOf(fill);

		if (Math.abs((found - hue + 540) % 360 - 180) > 8 || contrast(fill, text) < AA)
			wrong.push(`${name}: hue ${found.toFixed(0)}, contrast ${contrast(fill, text).toFixed(1)}`);
	}
	check(`${theme}: each of ${runtimes.length} language runtimes has its colour, and text on it can be read`, !wrong.length, wrong.join(', '));
}

async function languages(page, wanted) {
	await page.prefer({scheme: 'dark'});
	await page.open(wanted.languages);
	await languageColours(page, 'dark');
	await page.screenshot('languages-dark');
	await page.prefer({scheme: 'light'});
	await page.settle();
	await languageColours(page, 'light');
	await page.screenshot('languages');
	check('the legend names the languages', (await page.text('#legend')).includes('Python'));
	const total = await page.evaluate(() => window.proflet.tree.root.total);
	const counts = async () => [await boxesNamed(page, 'main', 'scripts'), await boxesNamed(page, 'main', 'plain'),
		await boxesNamed(page, 'cpython', 'scripts')];

	equal('native frames are shown first', await counts(), [1, 1, 1]);
	await page.press('n');
	equal('n: they are gone where a stack has functions of a language', await counts(), [0, 1, 1]);
	equal('and no sample is', await page.evaluate(() => window.proflet.tree.root.total), total);
	await page.screenshot('languages-brief');
	const hash = await page.evaluate(() => location.hash);

	await page.open(wanted.languages, hash);
	equal('the address brings that back', await counts(), [0, 1, 1]);
	await page.evaluate(() => document.querySelector('#native input:checked').focus());
	await page.press('ArrowLeft');
	equal('the switch obeys the keyboard', await counts(), [1, 1, 1]);
	await page.open(wanted.shapes);
	check('a page without languages has no such switch', await page.evaluate(() => !document.getElementById('native').checkVisibility()));
}

async function differenceColours(page, theme, wanted) {
	const text = await page.evaluate(() => window.proflet.painter.theme.text.match(/\w\w/g).map(v => parseInt(v, 16)));
	const fills = [];

	for (const name of [wanted.more, wanted.less, 'all'])
		fills.push(await page.pixel(await page.box({name})));
	const [more, less] = fills.map(hueOf), [r, g, b] = fills[2];

	check(`${theme}: red takes more, blue less, grey is noise`, (more < 25 || more > 340) && less > 200 && less < 230 && Math.max(r, g, b) - Math.min(r, g, b) < 16,
		`hues ${more.toFixed(0)}, ${less.toFixed(0)}; ${fills[2]}`);
	check(`${theme}: text on them can be read`, fills.every(fill => contrast(fill, text) >= AA), fills.map(fill => contrast(fill, text).toFixed(1)));
}

async function differenceTable(page, wanted) {
	await page.press('t');
	const cells = await page.evaluate(() => [...document.querySelectorAll('#top tbody tr')].map(row => [...row.children].map(c => c.textContent)));
	const shown = wanted.rows.map(row => cells.find(c => c[5] === row[4]) || []).map(c => [c[0], c[1], c[2], c[3], c[5]]);

	check('the terminal names functions that changed', wanted.rows.length >= 2, wanted.rows.length);
	equal('the table has the numbers that the terminal shows', shown, wanted.rows);
	equal('what takes more comes first', cells[0][5], wanted.more);
	await page.screenshot('difference-top');
	await page.press('t');
}

async function difference(page, wanted) {
	const width = () => page.evaluate(() => window.proflet.tree.root.total);

	await page.size(1280, 800);
	for (const scheme of ['dark', 'light']) {
		await page.prefer({scheme});
		await page.open(wanted.page);
		await differenceColours(page, scheme, wanted);
		await page.screenshot(`difference-${scheme}`);
	}
	equal('two recordings: widths of the second', await width(), wanted.samples[1]);
	const after = await page.box({name: wanted.more});

	await page.press('w');
	equal('w: widths of the first', await width(), wanted.samples[0]);
	check('what takes more was narrower', (await page.box({name: wanted.more})).w < after.w - 20);
	await page.press('w');
	await page.clickBox({name: wanted.more});
	const text = await page.text('#detail-numbers');

	check('a frame says its shares and the interval', /^A \d+\.\d\d % · B \d+\.\d\d % · \+\d+\.\d\d % of all · 95 % interval \+\d+\.\d\d % … \+\d+\.\d\d %/.test(text), text);
	await page.press('Escape');
	await differenceTable(page, wanted);
	await page.size(400, 700);
	await page.screenshot('difference-narrow');
	check('400 pixels wide: nothing of two recordings sticks out', await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
	await page.size(1280, 800);
}

async function many(page, wanted) {
	const times = [];

	for (let i = 0; i < 3; i++)
		times.push(await page.open(wanted.many));
	await page.screenshot('many');
	const begin = performance.now();

	await page.press('/');
	await page.tab.keyboard.type('^order_');
	await page.tab.waitForFunction(() => window.proflet.state.search === '^order_', {polling: 20});
	await page.settle();
	const searched = performance.now() - begin;

	await page.press('Escape');
	const spanned = await page.evaluate(() => {
		const start = performance.now();

		window.proflet.set({span: '100-500'});
		return performance.now() - start;
	});

	check(`${wanted.stacks} stacks: a span of time has a part of them`, await page.evaluate(() =>
		window.proflet.tree.root.total > 0 && window.proflet.tree.root.total < window.proflet.profile.info.samples));
	check(`${wanted.stacks} stacks: drawn`, await page.evaluate(() => window.proflet.chart.rows.length > 20),
		`in ${times.map(t => (t / 1000).toFixed(2)).join(', ')} s; a search with its typing ${(searched / 1000).toFixed(2)} s; a span ${(spanned / 1000).toFixed(2)} s`);
	await page.screenshot('many-span');
}

async function main() {
	const [chromium, folder] = process.argv.slice(2);
	const page = await Page.launch(chromium, folder);

	try {
		for await (const line of readline.createInterface({input: process.stdin})) {
			const wanted = JSON.parse(line);

			if (wanted.many)
				await many(page, wanted);
			else if (wanted.difference)
				await difference(page, wanted.difference);
			else {
				await recording(page, wanted);
				await timeline(page, wanted);
				await shapes(page, wanted);
				await languages(page, wanted);
			}
			equal('the console said nothing, nothing was thrown, nothing asked for', page.complaints, []);
		}
	} finally {
		await page.close();
	}
}

main().catch(e => {
	check('the browser did all that was asked', false, e.stack);
	process.exitCode = 1;
});
