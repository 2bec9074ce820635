// SPDX-License-Identifier: Apache-2.0
// A plain @grpc/grpc-js server for tests. Options, files and last line as tests/support/grpc/core.py; node_modules is
// found through NODE_PATH.
'use strict';
const fs = require('fs');
const path = require('path');
const { parseArgs } = require('util');
const grpc = require('@grpc/grpc-js');

const text = { type: 'string' };
const { values: options } = parseArgs({
  options: {
    listen: text, dir: text, cert: text, key: text, 'client-ca': text, 'max-age': text, delay: text, compress: text,
    busy: text, text, details: text,
  },
});
const busy = Number(options.busy || 0);
const account = { calls: 0, failed: 0, bytes: 0, peers: 0 };
const peers = new Set();
const same = (bytes) => bytes;
const emptyPartialSuccess = Buffer.from('0a00'.repeat(100), 'hex');

function keep(request, peer) {
  account.peers = peers.add(peer).size;
  account.calls += 1;
  account.bytes += request.length;
  const refused = account.calls <= busy;
  account.failed += refused ? 1 : 0;
  const base = path.join(options.dir, String(account.calls).padStart(6, '0'));
  fs.writeFileSync(base + '.otlp', request);
  fs.writeFileSync(base + '.status', refused ? 'Unavailable\n' : 'OK\n');
  return refused;
}

function refusal() {
  const metadata = new grpc.Metadata();
  metadata.set('grpc-status-details-bin', Buffer.from(options.details || '', 'hex'));
  return { code: grpc.status.UNAVAILABLE, details: options.text || '', metadata };
}

function answer(call, done) {
  const refused = keep(call.request, call.getPeer());
  setTimeout(() => {
    if (refused) done(refusal());
    else done(null, options.compress ? emptyPartialSuccess : Buffer.alloc(0));
  }, Number(options.delay || 0) * 1000);
}

function credentials() {
  if (!options.cert) return grpc.ServerCredentials.createInsecure();
  const authority = options['client-ca'] ? fs.readFileSync(options['client-ca']) : null;
  const pair = { private_key: fs.readFileSync(options.key), cert_chain: fs.readFileSync(options.cert) };
  return grpc.ServerCredentials.createSsl(authority, [pair], authority !== null);
}

const settings = {};
if (options['max-age']) settings['grpc.max_connection_age_ms'] = Number(options['max-age']) * 1000;
if (options.compress) settings['grpc.default_compression_algorithm'] = { deflate: 1, gzip: 2 }[options.compress];
const server = new grpc.Server(settings);
server.addService({
  Export: {
    path: '/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export',
    requestStream: false, responseStream: false, requestSerialize: same, requestDeserialize: same,
    responseSerialize: same, responseDeserialize: same,
  },
}, { Export: answer });
server.bindAsync(options.listen, credentials(), (error) => {
  if (error) throw error;
});
process.on('SIGTERM', () => {
  server.tryShutdown(() => {
    console.log(JSON.stringify(account));
    process.exit(0);
  });
});
