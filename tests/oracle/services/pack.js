// SPDX-License-Identifier: Apache-2.0
'use strict';
const webpack = require('webpack');

webpack(require('./webpack.config.js')).run((error, stats) => {
  if (!error && !stats.hasErrors()) return;
  console.error(error || stats.toString());
  process.exitCode = 1;
});
