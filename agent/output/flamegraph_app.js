// SPDX-License-Identifier: Apache-2.0
// The page: its state, the controls that change it, and the address (#search=...&zoom=...) that keeps it.
'use strict';

const DEFAULTS = {tab: 'flame', search: '', container: '', process: '', rows: 'cp', layout: 'icicle', order: 'callees', colour: 'kind', width: 'b', native: 'show', sort: 'self', span: '', zoom: ''};
const DIFFERENCE_DEFAULTS = {...DEFAULTS, rows: 'p', colour: 'change', sort: 'change'}; // containers have other ids then
const ROWS = {container: 'c', process: 'p', pid: 'i', thread: 't'};
const CHOICES = {layout: ['icicle', 'flame'], order: ['callees', 'callers'], colour: ['kind', 'module', 'change'], width: ['b', 'a'], native: ['show', 'hide']};

class Page {
	constructor(profile) {
		this.profile = profile;
		this.shown = profile; // the same, or without native frames
		this.defaults = profile.difference ? DIFFERENCE_DEFAULTS : DEFAULTS;
		this.state = {...this.defaults};
		this.painter = new Painter($('canvas'), profile);
		this.chart = new Chart({scroller: $('scroller'), spacer: $('spacer'), canvas: $('canvas')}, this.painter, {
			hover: (box, e) => this.info.showTip(box, e, this.tree, this.search),
			select: node => this.showDetails(node),
			zoom: (node, part) => this.zoom(node, part),
			move: node => this.moved(node),
		});
		this.input = new Input(this.chart);
		this.table = new FunctionTable($('top'), profile, {
			pick: f => this.set({search: `^${escapeRegex(profile.name[f])}$`, tab: 'flame', zoom: ''}),
			sort: column => this.set({sort: column}),
		});
		this.info = new Info(profile);
		this.timeline = profile.times && !profile.difference ? new Timeline(profile, {select: span => this.set({span: encodeSpan(span)})}) : null;
		for (const help of document.querySelectorAll('dialog .timeline'))
			help.hidden = !this.timeline;
		this.fillSelect('container', 'All containers', profile.groups, g => [g.container, g.containerLabel]);
		$('native').hidden = $('native-help').hidden = $('native-key').hidden = !hasLanguages(profile);
		for (const id of profile.difference ? [] : ['width', 'width-help', 'width-key', 'colour-change'])
			$(id).remove();
		this.listen();
		this.readAddress();
		if (!profile.info.samples)
			$('scroller').replaceChildren(element('p', 'notice', 'No samples were taken: nothing ran while the recording lasted.'));
	}

	listen() {
		let timer = 0;

		for (const id of ['container', 'process'])
			$(id).addEventListener('change', e => this.set({[id]: e.target.value}));
		for (const [row, letter] of Object.entries(ROWS))
			$(`row-${row}`).addEventListener('change', () => this.set({rows: this.toggled(letter)}));
		for (const name of Object.keys(CHOICES))
			for (const input of document.getElementsByName(name))
				input.addEventListener('change', () => this.set({[name]: input.value}));
		for (const tab of ['flame', 'top'])
			$(`tab-${tab}`).addEventListener('click', () => this.set({tab}));
		$('search').addEventListener('input', e => {
			clearTimeout(timer);
			timer = setTimeout(() => this.set({search: e.target.value}), 120);
		});
		$('search').addEventListener('keydown', e => {
			if (e.key === 'Enter')
				$('canvas').focus();
		});
		$('help-open').addEventListener('click', () => $('help').showModal());
		$('act-zoom').addEventListener('click', () => this.zoom(this.detailed));
		$('act-name').addEventListener('click', e => copyText(this.detailed.name, e.target));
		$('act-search').addEventListener('click', () => this.set({search: `^${escapeRegex(this.detailed.name)}$`}));
		$('act-copy').addEventListener('click', e => copyText(this.info.stackText(this.detailed, this.tree), e.target));
		document.addEventListener('keydown', e => this.key(e));
		document.addEventListener('copy', e => this.copy(e));
		addEventListener('hashchange', () => this.readAddress());
		matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
			this.painter.setTheme();
			this.chart.requestDraw();
		});
		if (matchMedia('(max-width: 720px)').matches)
			$('options').open = false;
	}

	toggled(letter) {
		const rows = this.state.rows;

		return rows.includes(letter) ? rows.replace(letter, '') : rows + letter;
	}

	key(e) {
		const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName) && e.target.type !== 'checkbox' && e.target.type !== 'radio';
		const {state} = this;

		if (e.ctrlKey || e.metaKey || e.altKey || $('help').open)
			return;
		if (e.key === 'Escape') {
			this.escape();
			return;
		}
		const keys = {
			'/': () => $('search').select(),
			'?': () => $('help').showModal(),
			t: () => this.set({tab: state.tab === 'top' ? 'flame' : 'top'}),
			c: () => this.set({order: state.order === 'callers' ? 'callees' : 'callers'}),
			i: () => this.set({layout: state.layout === 'flame' ? 'icicle' : 'flame'}),
			w: () => this.profile.difference && this.set({width: state.width === 'b' ? 'a' : 'b'}),
			n: () => this.set({native: state.native === 'hide' ? 'show' : 'hide'}),
		};

		if (typing || !keys[e.key])
			return;
		e.preventDefault();
		keys[e.key]();
	}

	// Ctrl+C on the graph, unless text is selected.
	copy(e) {
		if (document.activeElement !== $('canvas') || String(getSelection()))
			return;
		e.clipboardData.setData('text/plain', this.detailed.name);
		e.preventDefault();
		sayCopied($('act-name'));
	}

	escape() {
		if (this.state.search || $('search').value)
			this.set({search: ''});
		else if (this.chart.selected && this.chart.selected !== this.chart.zoomed)
			this.chart.select(null);
		else if (this.chart.zoomed === this.tree.root && !this.chart.part)
			this.set({span: ''});
		else
			this.zoom(this.tree.root);
		if (document.activeElement === $('search'))
			$('canvas').focus();
	}

	// The address is untrusted text: unknown keys and values fall back to the defaults.
	readAddress() {
		const given = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
		const state = {...this.defaults}, columns = this.profile.difference ? CHANGE_COLUMNS : COLUMNS;

		for (const key of Object.keys(DEFAULTS))
			if (Object.hasOwn(given, key))
				state[key] = given[key];
		for (const [key, values] of Object.entries(CHOICES))
			if (!values.includes(state[key]))
				state[key] = this.defaults[key];
		if (!columns.some(c => c.id === state.sort))
			state.sort = this.defaults.sort;
		if (!this.timeline || !decodeSpan(state.span, this.profile.times))
			state.span = '';
		if (!this.profile.difference && state.colour === 'change')
			state.colour = this.defaults.colour;
		this.state = state;
		this.apply(Object.keys(DEFAULTS));
	}

	// `always`: settings to treat as changed even if they are not.
	set(changes, always = '') {
		const changed = Object.keys(changes).filter(k => k === always || this.state[k] !== changes[k]);

		Object.assign(this.state, changes);
		this.apply(changed);
		this.writeAddress();
	}

	writeAddress() {
		const kept = Object.entries(this.state).filter(([key, value]) => value !== this.defaults[key]);

		history.replaceState(null, '', `#${new URLSearchParams(kept)}`);
	}

	apply(changed) {
		const is = (...keys) => keys.some(k => changed.includes(k)), {state} = this;

		if (is('native', 'width', 'span'))
			this.choose();
		if (is('container'))
			this.offerProcesses();
		if (is('order') && !is('zoom')) // the stacks are inverted: only the rows above them remain
			state.zoom = state.zoom.split('/').filter(key => !/^\d/.test(key)).join('/');
		this.showControls();
		if (is('rows', 'order', 'container', 'process', 'native', 'width', 'span')) {
			const rows = Object.fromEntries(Object.entries(ROWS).map(([row, letter]) => [row, state.rows.includes(letter)]));

			this.tree = new Tree(this.shown, {rows, callers: state.order === 'callers', container: state.container, process: state.process});
			this.chart.search = this.search = new Search(this.shown, this.tree, state.search);
			this.chart.flame = state.layout === 'flame';
			this.chart.setTree(this.tree, this.tree.find(decodePath(state.zoom)));
			state.zoom = encodePath(this.chart.zoomed);
			this.showLegend();
		} else if (is('search')) {
			this.chart.search = this.search = new Search(this.shown, this.tree, state.search);
		}
		if (is('colour')) {
			this.painter.setColour(state.colour);
			this.showLegend();
			$('legend').classList.toggle('by-module', state.colour === 'module');
		}
		if (is('layout')) {
			this.chart.flame = state.layout === 'flame';
			this.chart.setZoom(this.chart.zoomed, false, this.chart.part);
		}
		if (is('zoom') && !is('rows')) {
			this.chart.selected = null;
			this.chart.setZoom(this.tree.find(decodePath(state.zoom)), true, this.part);
		}
		if (state.tab === 'top' && is('tab', 'search', 'container', 'process', 'sort', 'rows', 'order', 'native', 'width', 'span')) {
			this.table.column = state.sort;
			this.table.show(this.tree.groups, this.search);
		}
		if (this.timeline)
			this.followTime(changed);
		this.chart.requestDraw();
		this.showMatched();
		this.showCrumbs();
		this.showDetails(this.chart.selected || this.chart.zoomed);
	}

	// The trees without native frames are made when they are first wanted.
	choose() {
		const span = decodeSpan(this.state.span, this.profile.times);
		let shown = span ? withinSpan(this.profile, span) : this.profile;

		if (this.state.native === 'hide' && hasLanguages(this.profile))
			shown = span ? hideNative(shown) : this.brief = this.brief || hideNative(shown);
		if (shown.difference)
			this.compare(shown);
		else
			this.table.profile = this.shown = shown;
	}

	compare(profile) {
		this.shown = weigh(profile, this.state.width);
		const comparison = new Comparison(this.shown);

		if (!this.info.comparison) {
			const {self, total} = comparison.functions(profile.groups);

			this.info.showChanges(self);
			this.painter.most = Math.max(0.01, ...total.filter(change => change.certain).map(change => Math.abs(change.by)));
		}
		this.table.profile = this.shown;
		this.painter.comparison = this.info.comparison = this.table.comparison = comparison;
	}

	followTime(changed) {
		const {timeline, state, search} = this;

		if (changed.includes('container') || changed.includes('process'))
			timeline.show(selectGroups(this.profile, state));
		// nodes are those of the recording unless some are hidden
		timeline.matched = search.active && state.native === 'show' ? matchedColumns(this.profile, search) : null;
		timeline.setSpan(decodeSpan(state.span, this.profile.times));
	}

	showLegend() {
		if (this.state.colour === 'change')
			this.info.showScale(this.painter.most);
		else
			this.info.showLegend(this.shown, this.tree.groups);
	}

	// `part`: see Chart.setZoom.
	zoom(node, part) {
		this.part = part;
		this.set({zoom: encodePath(node)}, 'zoom');
		this.part = undefined;
		this.chart.selected = node;
	}

	// The user moved the window. Browsers limit how often an address changes, so it changes only with the node.
	moved(node) {
		const zoom = encodePath(node);

		if (zoom !== this.state.zoom) {
			this.state.zoom = zoom;
			this.writeAddress();
			this.showMatched();
		}
		this.showCrumbs();
	}

	showControls() {
		const {state} = this;

		for (const id of ['container', 'process', 'search'])
			if ($(id).value !== state[id])
				$(id).value = state[id];
		for (const [row, letter] of Object.entries(ROWS))
			$(`row-${row}`).checked = state.rows.includes(letter);
		$('row-pid').disabled = !state.rows.includes('p');
		for (const name of Object.keys(CHOICES))
			for (const input of document.getElementsByName(name))
				input.checked = input.value === state[name];
		for (const tab of ['flame', 'top']) {
			const on = (state.tab === 'top') === (tab === 'top');

			$(`tab-${tab}`).setAttribute('aria-selected', on);
			$(tab).hidden = !on;
		}
	}

	// The processes of the chosen container. An unknown choice counts as none.
	offerProcesses() {
		const {state, profile} = this;

		if (!profile.groups.some(g => g.container === state.container))
			state.container = '';
		const groups = selectGroups(profile, {container: state.container});

		if (!groups.some(g => g.process === state.process))
			state.process = '';
		this.fillSelect('process', 'All processes', groups, g => [g.process, g.process]);
	}

	fillSelect(id, all, groups, of) {
		const samples = new Map(), labels = new Map();

		for (const g of groups) {
			const [value, label] = of(g);

			samples.set(value, (samples.get(value) || 0) + g.samples);
			labels.set(value, label);
		}
		$(id).replaceChildren(new Option(`${all} (${samples.size})`, ''));
		for (const [value, n] of [...samples].sort((a, b) => b[1] - a[1]))
			$(id).append(new Option(`${labels.get(value)}  ${formatPercent(n, this.profile.info.samples)}`, value));
	}

	showMatched() {
		const {search} = this, node = this.chart.zoomed, field = $('matched');

		$('search').setAttribute('aria-invalid', search.error);
		field.textContent = '';
		if (search.error)
			field.textContent = 'not a regular expression';
		if (!search.active)
			return;
		const n = search.samplesIn(node);

		field.append(element('b', '', formatPercent(n, node.total)), ` matched · ${formatSamples(n)}`);
		field.title = `${formatCount(search.nFunctions)} function${search.nFunctions === 1 ? '' : 's'}; the samples are those of the stacks shown that have a match`;
	}

	showCrumbs() {
		const path = pathOf(this.chart.zoomed), crumbs = $('crumbs');
		const shown = path.length > 8 ? [...path.slice(0, 4), null, ...path.slice(-3)] : path;

		crumbs.hidden = path.length < 2 && !this.chart.part;
		crumbs.replaceChildren(...shown.map((node, i) => {
			if (!node)
				return element('span', '', `… ${path.length - 7} more`);
			const button = element('button', '', node.frame && node.kind !== KIND.KERNEL ? compactName(node.label) : node.label);

			button.type = 'button';
			button.title = node.name;
			if (i === shown.length - 1)
				button.setAttribute('aria-current', 'location');
			button.addEventListener('click', () => this.zoom(node));
			return button;
		}));
		if (this.chart.part)
			crumbs.append(element('span', '', 'a part of it: drag to move'));
		const reset = element('button', 'reset', 'Reset zoom');

		reset.type = 'button';
		reset.addEventListener('click', () => this.zoom(this.tree.root));
		crumbs.append(reset);
	}

	showDetails(node) {
		this.detailed = node || this.chart.zoomed;
		this.info.showDetails(this.detailed, this.tree);
		$('act-zoom').disabled = this.detailed === this.chart.zoomed;
		$('act-search').disabled = this.detailed.kind === KIND.ALL;
	}
}

function escapeRegex(s) {
	return s.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}

function encodeSpan(span) {
	return span ? `${span.from}-${span.to}` : '';
}

// {from, to} in columns; null: all of the time, or no such span.
function decodeSpan(text, times) {
	const [, from, to] = (/^(\d{1,5})-(\d{1,5})$/.exec(text) || []).map(Number);

	return from < to && to <= times.columns ? {from, to} : null;
}

function encodePath(node) {
	return pathOf(node).slice(1).map(n => encodeURIComponent(n.key)).join('/');
}

function decodePath(text) {
	try {
		return text ? text.split('/').map(decodeURIComponent) : [];
	} catch {
		return []; // a broken % sequence
	}
}

// Some browsers deny the clipboard to pages opened from disk; the old interface works there.
async function copyText(text, button) {
	try {
		await navigator.clipboard.writeText(text);
	} catch {
		const area = element('textarea');

		area.value = text;
		document.body.append(area);
		area.select();
		document.execCommand('copy');
		area.remove();
	}
	sayCopied(button);
}

function sayCopied(button) {
	button.dataset.label = button.dataset.label || button.textContent;
	button.textContent = 'Copied';
	setTimeout(() => { button.textContent = button.dataset.label; }, 1200);
}

window.proflet = new Page(decodeProfile(JSON.parse($('profile').textContent)));
