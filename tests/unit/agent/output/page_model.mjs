// SPDX-License-Identifier: Apache-2.0
// Loads the data of a page and the functions of its program that need no document.
import fs from 'node:fs';
import vm from 'node:vm';

const NAMES = ['decodeProfile', 'Tree', 'Search', 'sumFunctions', 'sumKinds', 'compactName', 'encodePath', 'decodePath', 'decodeNumbers',
	'KIND', 'RUNTIMES', 'THEMES', 'hasLanguages', 'hideNative', 'moduleText', 'runtimeOf', 'withinSpan', 'columnsOf',
	'weigh', 'Comparison'];

export function load(path) {
	const page = fs.readFileSync(path, 'utf8');
	const program = page.match(/<script nonce="\w+">\n(.*)<\/script>/s)[1];
	const context = vm.createContext({});

	// everything but the last statement, which starts the page
	vm.runInContext(`${program.replace(/window\.proflet = .*$/m, '')}\nglobalThis.model = {${NAMES}};`, context);
	return {data: JSON.parse(page.match(/id="profile">(.*?)<\/script>/s)[1]), model: context.model};
}
