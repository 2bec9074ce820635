// SPDX-License-Identifier: Apache-2.0
// The table of functions. Every cell is made with textContent: names are never parsed as HTML.
'use strict';

const TABLE_ROWS = 300; // shown before "show more"

const COLUMNS = [
	{id: 'self', title: 'Self %', number: true, hint: 'samples that ended in the function'},
	{id: 'selfSamples', title: 'Self', number: true, wide: true, by: 'self', hint: 'samples that ended in the function'},
	{id: 'total', title: 'Total %', number: true, hint: 'samples with the function anywhere on the stack'},
	{id: 'totalSamples', title: 'Total', number: true, wide: true, by: 'total', hint: 'samples with the function anywhere on the stack'},
	{id: 'name', title: 'Function'},
	{id: 'module', title: 'Module'},
];

// Where two recordings are compared.
const CHANGE_COLUMNS = [
	{id: 'a', title: 'Self A', number: true, wide: true, by: 'b', hint: 'share of all samples before: of a function\u2019s own code'},
	{id: 'b', title: 'Self B', number: true, wide: true, hint: 'share of all samples after: of a function\u2019s own code'},
	{id: 'change', title: 'Change', number: true, hint: 'change of that share: those that certainly grew, those that certainly shrank, noise'},
	{id: 'interval', title: '95 % interval', number: true, wide: true, by: 'change', hint: 'change: in which the difference lies'},
	{id: 'totalChange', title: 'Total', number: true, hint: 'change with all that a function calls'},
	{id: 'name', title: 'Function'},
	{id: 'module', title: 'Module'},
];

function element(tag, className, text) {
	const e = document.createElement(tag);

	if (className)
		e.className = className;
	if (text !== undefined)
		e.textContent = text;
	return e;
}

function formatCount(n) {
	return n.toLocaleString('en');
}

function formatSamples(n) {
	return `${formatCount(n)} sample${n === 1 ? '' : 's'}`;
}

function formatPercent(part, whole) {
	const p = whole ? 100 * part / whole : 0;

	return `${p >= 99.95 || p === 0 ? p.toFixed(0) : p < 0.1 ? p.toFixed(3) : p < 10 ? p.toFixed(2) : p.toFixed(1)}%`;
}

// The text for a function's module: of a file, its last component, for functions of a language runtime the source file.
function moduleText(profile, f) {
	const runtime = profile.runtime[f];

	return runtime ? baseName(profile.file[f] || runtime) : baseName(profile.modules[profile.module[f]][0]);
}

function baseName(path) {
	return path.slice(path.lastIndexOf('/') + 1) || path;
}

class FunctionTable {
	// on: {pick(functionId), sort(column)}
	constructor(section, profile, on) {
		this.section = section;
		this.profile = profile;
		this.on = on;
		this.comparison = null; // of two recordings
		this.column = 'self';
		this.limit = TABLE_ROWS;
	}

	get columns() {
		return this.comparison ? CHANGE_COLUMNS : COLUMNS;
	}

	// Of two recordings: what functions have changed.
	showChanges(groups, search) {
		const {self, total} = this.comparison.functions(groups);

		this.entries = [];
		for (let f = 1; f < this.profile.name.length; f++)
			if ((total[f].a || total[f].b) && (!search.active || search.hit[f]))
				this.entries.push({f, self: self[f], total: total[f], name: this.profile.name[f], module: moduleText(this.profile, f)});
		this.longest = this.entries.reduce((most, e) => Math.max(most, Math.abs(e.self.by), Math.abs(e.total.by)), 0);
		this.render();
	}

	show(groups, search) {
		if (this.comparison) {
			this.showChanges(groups, search);
			return;
		}
		const sums = sumFunctions(this.profile, groups);

		this.samples = groups.reduce((sum, g) => sum + g.samples, 0);
		this.entries = [];
		for (let f = 1; f < this.profile.name.length; f++) {
			if (!sums.total[f] || search.active && !search.hit[f])
				continue;
			this.entries.push({f, self: sums.self[f], total: sums.total[f], name: this.profile.name[f],
				module: moduleText(this.profile, f)});
		}
		this.longest = {self: 0, total: 0};
		for (const e of this.entries)
			for (const key of ['self', 'total'])
				this.longest[key] = Math.max(this.longest[key], e[key]);
		this.render();
	}

	compare(a, b) {
		const byText = (x, y) => x < y ? -1 : x > y ? 1 : 0;

		if (this.comparison)
			return this.compareChanges(a, b) || byText(a.name, b.name);
		if (this.column === 'name' || this.column === 'module')
			return byText(a[this.column], b[this.column]) || b.self - a.self || a.f - b.f;
		return b[this.column] - a[this.column] || b.self - a.self || b.total - a.total || byText(a.name, b.name);
	}

	// Those that certainly grew, those that certainly shrank, and the others; each by the size of the change.
	compareChanges(a, b) {
		const what = this.column === 'totalChange' ? 'total' : 'self';
		const rank = e => e[what].certain ? Number(e[what].by < 0) : 2;

		if (this.column === 'name' || this.column === 'module')
			return a[this.column] < b[this.column] ? -1 : a[this.column] > b[this.column] ? 1 : 0;
		if (this.column === 'b')
			return b.self.b - a.self.b;
		return rank(a) - rank(b) || Math.abs(b[what].by) - Math.abs(a[what].by);
	}

	render() {
		const table = element('table'), body = element('tbody');

		this.entries.sort((a, b) => this.compare(a, b));
		table.append(this.head(), body);
		for (const entry of this.entries.slice(0, this.limit))
			body.append(this.row(entry));
		this.section.replaceChildren(table);
		if (!this.entries.length)
			this.section.append(element('p', 'notice', 'No function matches.'));
		if (this.entries.length > this.limit)
			this.section.append(this.more());
	}

	more() {
		const button = element('button', 'more', `Show all ${formatCount(this.entries.length)} functions`);

		button.type = 'button';
		button.addEventListener('click', () => {
			this.limit = Infinity;
			this.render();
		});
		return button;
	}

	head() {
		const head = element('thead'), row = element('tr');

		for (const column of this.columns) {
			const th = element('th', `${column.id} ${column.wide ? 'number wide' : column.number ? 'number' : ''}`);
			const button = element('button', '', column.title);
			const by = column.by || column.id;

			th.scope = 'col';
			button.type = 'button';
			button.title = `Sort by ${column.hint || column.title.toLowerCase()}`;
			button.addEventListener('click', () => this.on.sort(by));
			if (column.id === this.column)
				th.setAttribute('aria-sort', column.number ? 'descending' : 'ascending');
			th.append(button);
			row.append(th);
		}
		head.append(row);
		return head;
	}

	// The bar compares with the longest of the column, the number with all samples.
	percentCell(samples, longest) {
		const cell = element('td', 'number share'), bar = element('i');

		bar.style.width = `${longest ? 48 * samples / longest : 0}%`; // of the cell; the number has the rest
		cell.append(bar, element('span', '', formatPercent(samples, this.samples)));
		return cell;
	}

	// A bar from the middle, to the right for what takes more.
	changeCell(change) {
		const kind = !change.certain ? 'noise' : change.by > 0 ? 'grew' : 'shrank';
		const cell = element('td', `number share ${kind}`), bar = element('i');
		const width = this.longest ? 17 * Math.abs(change.by) / this.longest : 0; // of the cell; the number has the rest

		bar.style.width = `${width}%`;
		bar.style.left = `${change.by > 0 ? 22 : 22 - width}%`;
		cell.title = change.certain ? '' : 'noise';
		cell.append(bar, element('span', '', formatChange(change.by)));
		return cell;
	}

	numberCells({self, total}) {
		if (!this.comparison)
			return [this.percentCell(self, this.longest.self), element('td', 'number wide', formatCount(self)),
				this.percentCell(total, this.longest.total), element('td', 'number wide', formatCount(total))];
		const percent = share => element('td', 'number wide', `${(100 * share).toFixed(2)} %`);
		const [low, high] = self.interval || [];
		const interval = element('td', 'number wide interval', self.interval ? `${formatChange(low)} … ${formatChange(high)}` : '–');

		return [percent(self.a), percent(self.b), this.changeCell(self), interval, this.changeCell(total)];
	}

	row(entry) {
		const {profile} = this, row = element('tr'), name = element('td', 'name');
		const button = element('button', ['native', 'kernel', 'ending', 'go', 'jit', 'runtime'][profile.kind[entry.f]], entry.name);
		const module = element('td', 'module', entry.module);

		button.type = 'button';
		button.title = `${entry.name}\nClick: find it in the flame graph`;
		button.addEventListener('click', () => this.on.pick(entry.f));
		name.append(button);
		if (profile.runtime[entry.f])
			button.style.setProperty('--hue', runtimeOf(profile.runtime[entry.f]).hue);
		module.title = profile.runtime[entry.f] ? profile.file[entry.f] || '' : profile.modules[profile.module[entry.f]][0];
		row.append(...this.numberCells(entry), name, module);
		return row;
	}
}
