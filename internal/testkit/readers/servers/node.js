// Node's own server, and what parses cookies, queries and methods in Express. Answers with what it reads.
// Usage: node.js PORT [express]
'use strict';

const port = Number(process.argv[2]);
if (process.argv[3] === 'express') {
  const express = require('express');
  const app = express();
  app.use(require('cookie-parser')());
  app.use((request, response) => {
    let path = request.path;
    try {
      path = decodeURIComponent(path);
    } catch {
      // It stays as it is.
    }
    response.json({
      path,
      query: typeof request.query.key === 'string' ? request.query.key : '',
      cookie: request.cookies.session || '',
      header: request.get('X-Api-Key') || '',
      method: request.method,
      override: request.get('X-HTTP-Method-Override') || '',
      host: request.hostname,
    });
  });
  app.listen(port, '127.0.0.1');
} else {
  require('node:http').createServer((request, response) => {
    const url = new URL(request.url, 'http://a.example');
    const cookies = {};
    for (const pair of (request.headers.cookie || '').split(';')) { // as in many a tutorial
      const [name, ...value] = pair.split('=');
      cookies[name.trim()] ??= value.join('=').trim();
    }
    let path = url.pathname;
    try {
      path = decodeURIComponent(path);
    } catch {
      // It stays as it is.
    }
    response.end(JSON.stringify({
      path,
      query: url.searchParams.get('key') || '',
      cookie: cookies.session || '',
      header: request.headers['x-api-key'] || '',
      method: request.method,
      override: (request.headers['x-http-method-override'] || '').trim(),
      host: request.headers.host || '',
    }));
  }).listen(port, '127.0.0.1');
}
