// SPDX-License-Identifier: Apache-2.0
//
// An application of Express: routes, JSON, regular expressions, a template, promises.
//
//	server.js PORT
'use strict';
const crypto = require('crypto');
const express = require('express');

const app = express();
app.set('view engine', 'pug');
app.set('views', __dirname);
app.enable('view cache');
app.use(express.json());

class Item {
  constructor(order, i) {
    this.name = `item-${(order * 31 + i) % 97}`;
    this.count = (i % 5) + 1;
    this.price = ((order * 7919 + i) % 1000) / 10;
  }

  get total() {
    return this.count * this.price;
  }
}

function order(id) {
  const items = Array.from({ length: (id % 9) + 3 }, (_, i) => new Item(id, i)).sort((a, b) => a.name.localeCompare(b.name));
  return { id, items, total: items.reduce((sum, item) => sum + item.total, 0) };
}

function orders(n) {
  return Array.from({ length: n }, (_, i) => order(i)).sort((a, b) => a.total - b.total);
}

async function digest(text) {
  await null;
  return crypto.createHash('sha256').update(text).digest('hex');
}

app.get('/orders/:n', async (req, res) => {
  const found = orders(Number(req.params.n));
  res.json({ digest: await digest(JSON.stringify(found)), found });
});

app.get('/page/:n', (req, res) => res.render('page', { title: 'Orders', orders: orders(Number(req.params.n)) }));

app.get('/words/:n', (req, res) => {
  const text = Array.from({ length: Number(req.params.n) }, (_, i) => `word-${i % 37} other${i}`).join(' ');
  const sums = new Map();
  for (const [, word, number] of text.matchAll(/(\w+)-(\d+)/g)) sums.set(word + number, (sums.get(word + number) || 0) + Number(number));
  res.json(Object.fromEntries([...sums].sort()));
});

app.post('/sum', (req, res) => {
  const values = req.body.values.slice().sort((a, b) => a - b);
  res.json({ name: req.body.name, values, sum: values.reduce((a, b) => a + b, 0) });
});

app.listen(Number(process.argv[2]), '127.0.0.1');
process.on('SIGTERM', () => process.exit(0));
