// SPDX-License-Identifier: MIT
// Servers of Node and their clients, which print "NAME VALUE" lines. usage: node.js serve|ask ADDRESS
// 8001 HTTP by a cluster of workers, 8002 HTTP/2 with TLS, 8003 an echo, 8004 never answers.
'use strict';
const cluster = require('cluster');
const crypto = require('crypto');
const fs = require('fs');
const http = require('http');
const http2 = require('http2');
const net = require('net');
const [, , how, host] = process.argv;

const content = (n, size) => crypto.createHash('sha256').update(String(n)).digest('hex').repeat(size / 64 + 1).slice(0, size);
const digest = (data) => crypto.createHash('sha256').update(data).digest('hex').slice(0, 16);

function serveWeb() {
  http.createServer((request, response) => {
    if (request.method === 'POST') {
      const hash = crypto.createHash('sha256');
      request.on('data', (data) => hash.update(data));
      request.on('end', () => response.end(hash.digest('hex').slice(0, 16)));
    } else {
      response.end(content(1, Number(request.url.slice(1))));
    }
  }).listen(8001, host);
}

function serve() {
  if (cluster.isWorker) return serveWeb();
  for (let i = 0; i < 3; i++) cluster.fork();
  const tls = { key: fs.readFileSync('key.pem'), cert: fs.readFileSync('cert.pem') };
  http2.createSecureServer(tls, (request, response) => response.end(content(2, Number(request.url.slice(1))))).listen(8002, host);
  net.createServer({ allowHalfOpen: true }, (socket) => {
    socket.on('error', () => {});
    socket.pipe(socket);
  }).listen(8003, host);
  net.createServer((socket) => socket.on('error', () => {})).listen(8004, host);
  process.on('SIGTERM', () => {
    for (const worker of Object.values(cluster.workers)) worker.kill();
    process.exit(0);
  });
}

const read = (stream) => new Promise((resolve, reject) => {
  const parts = [];
  stream.on('data', (data) => parts.push(data));
  stream.on('end', () => resolve(Buffer.concat(parts)));
  stream.on('error', reject);
});

function web(path, options = {}) {
  return new Promise((resolve, reject) => {
    const request = http.request({ host, port: 8001, path, ...options }, (response) => resolve(read(response)));
    request.on('error', reject);
    request.end(options.body);
  });
}

async function echo(data) {
  const socket = net.connect({ host, port: 8003, allowHalfOpen: true });
  socket.end(data);
  return (await read(socket)).equals(Buffer.from(data));
}

const failure = (options) => new Promise((resolve) => {
  const socket = net.connect({ host, ...options });
  socket.on('error', (error) => resolve(error.code));
  socket.on('timeout', () => { resolve('timeout'); socket.destroy(); });
  socket.setTimeout(500);
});

async function ask() {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 5 });
  console.log('get', digest(await web('/3000000')));
  console.log('post', String(await web('/', { method: 'POST', body: content(3, 2000000) })), digest(content(3, 2000000)));
  const kept = await Promise.all([...Array(60).keys()].map((n) => web('/' + n * 100, { agent })));
  console.log('keepalive', digest(Buffer.concat(kept)));
  agent.destroy();
  const fresh = await Promise.all([...Array(60).keys()].map((n) => web('/' + n * 100, { agent: false })));
  console.log('fresh', digest(Buffer.concat(fresh)));
  const session = http2.connect('https://' + host + ':8002', { rejectUnauthorized: false });
  const streams = await Promise.all([...Array(20).keys()].map((n) => read(session.request({ ':path': '/' + n * 10000 }))));
  console.log('http2', digest(Buffer.concat(streams)));
  session.close();
  console.log('echo', await echo(content(4, 5000000)));
  console.log('echo.many', (await Promise.all([...Array(30).keys()].map((n) => echo(content(n, 1000 * n))))).filter(Boolean).length);
  console.log('refused', await failure({ port: 8009 }));
  console.log('timeout', await failure({ port: 8004 }));
  const socket = net.connect({ host, port: 8003 });
  await new Promise((resolve) => socket.on('connect', resolve));
  console.log('names', socket.remoteAddress, socket.remotePort, socket.remoteFamily, socket.localAddress);
  socket.setNoDelay(true);
  socket.setKeepAlive(true, 1000);
  socket.resetAndDestroy();
  await new Promise((resolve) => socket.on('close', resolve));
  console.log('after', await echo('one more'));
}

if (how === 'serve') serve();
else ask().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
