// SPDX-License-Identifier: Apache-2.0
// Minimizes in the process itself: its profile is one.
const Terser = require('terser-webpack-plugin');

module.exports = {
  mode: 'production',
  entry: './bundle.js',
  devtool: 'source-map',
  performance: { hints: false },
  optimization: { minimizer: [new Terser({ parallel: false })] },
};
