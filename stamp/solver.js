// The stamp solver of weir: pays a challenge in Web Workers, in plain JavaScript, without any outside resource.
//
//   weirStamp.solve(challenge, {workers, progress(share, done, expected), signal, script}) -> Promise of the stamp
//   weirStamp.read(challenge) -> {algorithm, work, expires}
//
// A worker is this very script again, by the address that the page loaded it from or that options.script names, so that a policy of
// script-src and worker-src 'self' suffices. Where the script stands inside the page, it is a blob: and worker-src needs that.
(function solver(root) {
'use strict';

const ROUNDS = Int32Array.of(
0x428a2f98,0x71374491,0xb5c0fbcf,0xe9b5dba5,0x3956c25b,0x59f111f1,0x923f82a4,0xab1c5ed5,0xd807aa98,0x12835b01,0x243185be,0x550c7dc3,0x72be5d74,
0x80deb1fe,0x9bdc06a7,0xc19bf174,0xe49b69c1,0xefbe4786,0x0fc19dc6,0x240ca1cc,0x2de92c6f,0x4a7484aa,0x5cb0a9dc,0x76f988da,0x983e5152,0xa831c66d,
0xb00327c8,0xbf597fc7,0xc6e00bf3,0xd5a79147,0x06ca6351,0x14292967,0x27b70a85,0x2e1b2138,0x4d2c6dfc,0x53380d13,0x650a7354,0x766a0abb,0x81c2c92e,
0x92722c85,0xa2bfe8a1,0xa81a664b,0xc24b8b70,0xc76c51a3,0xd192e819,0xd6990624,0xf40e3585,0x106aa070,0x19a4c116,0x1e376c08,0x2748774c,0x34b0bcb5,
0x391c0cb3,0x4ed8aa4a,0x5b9cca4f,0x682e6ff3,0x748f82ee,0x78a5636f,0x84c87814,0x8cc70208,0x90befffa,0xa4506ceb,0xbef9a3f7,0xc67178f2);
const IV = Int32Array.of(0x6a09e667,0xbb67ae85,0x3c6ef372,0xa54ff53a,0x510e527f,0x9b05688c,0x1f83d9ab,0x5be0cd19);
const W = new Int32Array(64);
const PRIME = BigInt('0xfc3280a656b358aace634bbd2aa09f3c89d1b6f1abb05e37b69f159787e46e94554ce1ea19e19e8cb6d3e22190f43efa0664a8c8a933b9c538b239a26ea1afecc22f6f9806aa445fb805c450f08b4adb86c7e2e93b937816093fb9a90c64d967');
const NAMES = [, 'sha256-k', 'dlog', 'dlog-classic', 'argon2id'], PARTS = 16, CHUNK = 1 << 14;

// compress hashes the block in W[0..15] into the state.
function compress(s) {
  const K = ROUNDS;
  for (let i = 16; i < 64; i++) {
    const x = W[i - 15], y = W[i - 2];
    W[i] = W[i - 16] + W[i - 7] + ((x >>> 7 | x << 25) ^ (x >>> 18 | x << 14) ^ x >>> 3) + ((y >>> 17 | y << 15) ^ (y >>> 19 | y << 13) ^ y >>> 10) | 0;
  }
  let a = s[0], b = s[1], c = s[2], d = s[3], e = s[4], f = s[5], g = s[6], h = s[7];
  for (let i = 0; i < 64; i++) {
    const t = h + ((e >>> 6 | e << 26) ^ (e >>> 11 | e << 21) ^ (e >>> 25 | e << 7)) + (g ^ e & (f ^ g)) + K[i] + W[i] | 0;
    const u = ((a >>> 2 | a << 30) ^ (a >>> 13 | a << 19) ^ (a >>> 22 | a << 10)) + (a & b | c & (a | b)) | 0;
    h = g; g = f; f = e; e = d + t | 0; d = c; c = b; b = a; a = t + u | 0;
  }
  s[0] = s[0] + a | 0; s[1] = s[1] + b | 0; s[2] = s[2] + c | 0; s[3] = s[3] + d | 0;
  s[4] = s[4] + e | 0; s[5] = s[5] + f | 0; s[6] = s[6] + g | 0; s[7] = s[7] + h | 0;
}

// sha256 hashes bytes; only for what is short.
function sha256(bytes) {
  const n = bytes.length, padded = new Uint8Array((n + 72 >> 6) << 6), s = Int32Array.from(IV);
  padded.set(bytes);
  padded[n] = 128;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 4, n * 8);
  for (let at = 0; at < padded.length; at += 64) {
    for (let i = 0; i < 16; i++) W[i] = view.getInt32(at + 4 * i);
    compress(s);
  }
  const out = new DataView(new ArrayBuffer(32));
  s.forEach((v, i) => out.setInt32(4 * i, v));
  return new Uint8Array(out.buffer);
}

// search tries counters of a part of sha256-k and returns the one that fits, or -1. It is where all the time goes: the block is kept in
// sixteen variables, sixteen rounds at a time, and what the seed alone decides is done once.
function search(job) {
  const high = job.target[0], low = job.target[1], z = job.seed, K = ROUNDS;
  let a = IV[0], b = IV[1], c = IV[2], d = IV[3], e = IV[4], f = IV[5], g = IV[6], h = IV[7], t = 0;
  for (let i = 0; i < 8; i++) {
    t = h + ((e >>> 6 | e << 26) ^ (e >>> 11 | e << 21) ^ (e >>> 25 | e << 7)) + (g ^ e & (f ^ g)) + K[i] + z[i] | 0;
    const u = ((a >>> 2 | a << 30) ^ (a >>> 13 | a << 19) ^ (a >>> 22 | a << 10)) + (a & b | c & (a | b)) | 0;
    h = g; g = f; f = e; e = d + t | 0; d = c; c = b; b = a; a = t + u | 0;
  }
  const A = a, B = b, C = c, D = d, E = e, F = f, G = g, H = h;
  const z0 = z[0] | 0, z1 = z[1] | 0, z2 = z[2] | 0, z3 = z[3] | 0, z4 = z[4] | 0, z5 = z[5] | 0, z6 = z[6] | 0, z7 = z[7] | 0, part = job.part | 0;
  // Chunks are aligned: the upper half of the counter stays.
  const upper = job.from / 4294967296 | 0, lower = job.from | 0, count = job.count | 0, iv0 = IV[0], iv1 = IV[1];
  for (let n = 0; n < count; n = n + 1 | 0) {
    let w0 = z0, w1 = z1, w2 = z2, w3 = z3, w4 = z4, w5 = z5, w6 = z6, w7 = z7, w8 = 0, w9 = part;
    let wa = upper, wb = lower + n | 0, wc = -2147483648, wd = 0, we = 0, wf = 384;
    a = A; b = B; c = C; d = D; e = E; f = F; g = G; h = H;
    t = h + ((e >>> 6 | e << 26) ^ (e >>> 11 | e << 21) ^ (e >>> 25 | e << 7)) + (g ^ e & (f ^ g)) + K[8] + w8 | 0; d = d + t | 0; h = t + ((a >>> 2 | a << 30) ^ (a >>> 13 | a << 19) ^ (a >>> 22 | a << 10)) + (a & b | c & (a | b)) | 0;
    t = g + ((d >>> 6 | d << 26) ^ (d >>> 11 | d << 21) ^ (d >>> 25 | d << 7)) + (f ^ d & (e ^ f)) + K[9] + w9 | 0; c = c + t | 0; g = t + ((h >>> 2 | h << 30) ^ (h >>> 13 | h << 19) ^ (h >>> 22 | h << 10)) + (h & a | b & (h | a)) | 0;
    t = f + ((c >>> 6 | c << 26) ^ (c >>> 11 | c << 21) ^ (c >>> 25 | c << 7)) + (e ^ c & (d ^ e)) + K[10] + wa | 0; b = b + t | 0; f = t + ((g >>> 2 | g << 30) ^ (g >>> 13 | g << 19) ^ (g >>> 22 | g << 10)) + (g & h | a & (g | h)) | 0;
    t = e + ((b >>> 6 | b << 26) ^ (b >>> 11 | b << 21) ^ (b >>> 25 | b << 7)) + (d ^ b & (c ^ d)) + K[11] + wb | 0; a = a + t | 0; e = t + ((f >>> 2 | f << 30) ^ (f >>> 13 | f << 19) ^ (f >>> 22 | f << 10)) + (f & g | h & (f | g)) | 0;
    t = d + ((a >>> 6 | a << 26) ^ (a >>> 11 | a << 21) ^ (a >>> 25 | a << 7)) + (c ^ a & (b ^ c)) + K[12] + wc | 0; h = h + t | 0; d = t + ((e >>> 2 | e << 30) ^ (e >>> 13 | e << 19) ^ (e >>> 22 | e << 10)) + (e & f | g & (e | f)) | 0;
    t = c + ((h >>> 6 | h << 26) ^ (h >>> 11 | h << 21) ^ (h >>> 25 | h << 7)) + (b ^ h & (a ^ b)) + K[13] + wd | 0; g = g + t | 0; c = t + ((d >>> 2 | d << 30) ^ (d >>> 13 | d << 19) ^ (d >>> 22 | d << 10)) + (d & e | f & (d | e)) | 0;
    t = b + ((g >>> 6 | g << 26) ^ (g >>> 11 | g << 21) ^ (g >>> 25 | g << 7)) + (a ^ g & (h ^ a)) + K[14] + we | 0; f = f + t | 0; b = t + ((c >>> 2 | c << 30) ^ (c >>> 13 | c << 19) ^ (c >>> 22 | c << 10)) + (c & d | e & (c | d)) | 0;
    t = a + ((f >>> 6 | f << 26) ^ (f >>> 11 | f << 21) ^ (f >>> 25 | f << 7)) + (h ^ f & (g ^ h)) + K[15] + wf | 0; e = e + t | 0; a = t + ((b >>> 2 | b << 30) ^ (b >>> 13 | b << 19) ^ (b >>> 22 | b << 10)) + (b & c | d & (b | c)) | 0;
    for (let k = 16; k < 64; k += 16) {
    w0 = w0 + w9 + ((w1 >>> 7 | w1 << 25) ^ (w1 >>> 18 | w1 << 14) ^ w1 >>> 3) + ((we >>> 17 | we << 15) ^ (we >>> 19 | we << 13) ^ we >>> 10) | 0;
    t = h + ((e >>> 6 | e << 26) ^ (e >>> 11 | e << 21) ^ (e >>> 25 | e << 7)) + (g ^ e & (f ^ g)) + K[k] + w0 | 0; d = d + t | 0; h = t + ((a >>> 2 | a << 30) ^ (a >>> 13 | a << 19) ^ (a >>> 22 | a << 10)) + (a & b | c & (a | b)) | 0;
    w1 = w1 + wa + ((w2 >>> 7 | w2 << 25) ^ (w2 >>> 18 | w2 << 14) ^ w2 >>> 3) + ((wf >>> 17 | wf << 15) ^ (wf >>> 19 | wf << 13) ^ wf >>> 10) | 0;
    t = g + ((d >>> 6 | d << 26) ^ (d >>> 11 | d << 21) ^ (d >>> 25 | d << 7)) + (f ^ d & (e ^ f)) + K[k + 1] + w1 | 0; c = c + t | 0; g = t + ((h >>> 2 | h << 30) ^ (h >>> 13 | h << 19) ^ (h >>> 22 | h << 10)) + (h & a | b & (h | a)) | 0;
    w2 = w2 + wb + ((w3 >>> 7 | w3 << 25) ^ (w3 >>> 18 | w3 << 14) ^ w3 >>> 3) + ((w0 >>> 17 | w0 << 15) ^ (w0 >>> 19 | w0 << 13) ^ w0 >>> 10) | 0;
    t = f + ((c >>> 6 | c << 26) ^ (c >>> 11 | c << 21) ^ (c >>> 25 | c << 7)) + (e ^ c & (d ^ e)) + K[k + 2] + w2 | 0; b = b + t | 0; f = t + ((g >>> 2 | g << 30) ^ (g >>> 13 | g << 19) ^ (g >>> 22 | g << 10)) + (g & h | a & (g | h)) | 0;
    w3 = w3 + wc + ((w4 >>> 7 | w4 << 25) ^ (w4 >>> 18 | w4 << 14) ^ w4 >>> 3) + ((w1 >>> 17 | w1 << 15) ^ (w1 >>> 19 | w1 << 13) ^ w1 >>> 10) | 0;
    t = e + ((b >>> 6 | b << 26) ^ (b >>> 11 | b << 21) ^ (b >>> 25 | b << 7)) + (d ^ b & (c ^ d)) + K[k + 3] + w3 | 0; a = a + t | 0; e = t + ((f >>> 2 | f << 30) ^ (f >>> 13 | f << 19) ^ (f >>> 22 | f << 10)) + (f & g | h & (f | g)) | 0;
    w4 = w4 + wd + ((w5 >>> 7 | w5 << 25) ^ (w5 >>> 18 | w5 << 14) ^ w5 >>> 3) + ((w2 >>> 17 | w2 << 15) ^ (w2 >>> 19 | w2 << 13) ^ w2 >>> 10) | 0;
    t = d + ((a >>> 6 | a << 26) ^ (a >>> 11 | a << 21) ^ (a >>> 25 | a << 7)) + (c ^ a & (b ^ c)) + K[k + 4] + w4 | 0; h = h + t | 0; d = t + ((e >>> 2 | e << 30) ^ (e >>> 13 | e << 19) ^ (e >>> 22 | e << 10)) + (e & f | g & (e | f)) | 0;
    w5 = w5 + we + ((w6 >>> 7 | w6 << 25) ^ (w6 >>> 18 | w6 << 14) ^ w6 >>> 3) + ((w3 >>> 17 | w3 << 15) ^ (w3 >>> 19 | w3 << 13) ^ w3 >>> 10) | 0;
    t = c + ((h >>> 6 | h << 26) ^ (h >>> 11 | h << 21) ^ (h >>> 25 | h << 7)) + (b ^ h & (a ^ b)) + K[k + 5] + w5 | 0; g = g + t | 0; c = t + ((d >>> 2 | d << 30) ^ (d >>> 13 | d << 19) ^ (d >>> 22 | d << 10)) + (d & e | f & (d | e)) | 0;
    w6 = w6 + wf + ((w7 >>> 7 | w7 << 25) ^ (w7 >>> 18 | w7 << 14) ^ w7 >>> 3) + ((w4 >>> 17 | w4 << 15) ^ (w4 >>> 19 | w4 << 13) ^ w4 >>> 10) | 0;
    t = b + ((g >>> 6 | g << 26) ^ (g >>> 11 | g << 21) ^ (g >>> 25 | g << 7)) + (a ^ g & (h ^ a)) + K[k + 6] + w6 | 0; f = f + t | 0; b = t + ((c >>> 2 | c << 30) ^ (c >>> 13 | c << 19) ^ (c >>> 22 | c << 10)) + (c & d | e & (c | d)) | 0;
    w7 = w7 + w0 + ((w8 >>> 7 | w8 << 25) ^ (w8 >>> 18 | w8 << 14) ^ w8 >>> 3) + ((w5 >>> 17 | w5 << 15) ^ (w5 >>> 19 | w5 << 13) ^ w5 >>> 10) | 0;
    t = a + ((f >>> 6 | f << 26) ^ (f >>> 11 | f << 21) ^ (f >>> 25 | f << 7)) + (h ^ f & (g ^ h)) + K[k + 7] + w7 | 0; e = e + t | 0; a = t + ((b >>> 2 | b << 30) ^ (b >>> 13 | b << 19) ^ (b >>> 22 | b << 10)) + (b & c | d & (b | c)) | 0;
    w8 = w8 + w1 + ((w9 >>> 7 | w9 << 25) ^ (w9 >>> 18 | w9 << 14) ^ w9 >>> 3) + ((w6 >>> 17 | w6 << 15) ^ (w6 >>> 19 | w6 << 13) ^ w6 >>> 10) | 0;
    t = h + ((e >>> 6 | e << 26) ^ (e >>> 11 | e << 21) ^ (e >>> 25 | e << 7)) + (g ^ e & (f ^ g)) + K[k + 8] + w8 | 0; d = d + t | 0; h = t + ((a >>> 2 | a << 30) ^ (a >>> 13 | a << 19) ^ (a >>> 22 | a << 10)) + (a & b | c & (a | b)) | 0;
    w9 = w9 + w2 + ((wa >>> 7 | wa << 25) ^ (wa >>> 18 | wa << 14) ^ wa >>> 3) + ((w7 >>> 17 | w7 << 15) ^ (w7 >>> 19 | w7 << 13) ^ w7 >>> 10) | 0;
    t = g + ((d >>> 6 | d << 26) ^ (d >>> 11 | d << 21) ^ (d >>> 25 | d << 7)) + (f ^ d & (e ^ f)) + K[k + 9] + w9 | 0; c = c + t | 0; g = t + ((h >>> 2 | h << 30) ^ (h >>> 13 | h << 19) ^ (h >>> 22 | h << 10)) + (h & a | b & (h | a)) | 0;
    wa = wa + w3 + ((wb >>> 7 | wb << 25) ^ (wb >>> 18 | wb << 14) ^ wb >>> 3) + ((w8 >>> 17 | w8 << 15) ^ (w8 >>> 19 | w8 << 13) ^ w8 >>> 10) | 0;
    t = f + ((c >>> 6 | c << 26) ^ (c >>> 11 | c << 21) ^ (c >>> 25 | c << 7)) + (e ^ c & (d ^ e)) + K[k + 10] + wa | 0; b = b + t | 0; f = t + ((g >>> 2 | g << 30) ^ (g >>> 13 | g << 19) ^ (g >>> 22 | g << 10)) + (g & h | a & (g | h)) | 0;
    wb = wb + w4 + ((wc >>> 7 | wc << 25) ^ (wc >>> 18 | wc << 14) ^ wc >>> 3) + ((w9 >>> 17 | w9 << 15) ^ (w9 >>> 19 | w9 << 13) ^ w9 >>> 10) | 0;
    t = e + ((b >>> 6 | b << 26) ^ (b >>> 11 | b << 21) ^ (b >>> 25 | b << 7)) + (d ^ b & (c ^ d)) + K[k + 11] + wb | 0; a = a + t | 0; e = t + ((f >>> 2 | f << 30) ^ (f >>> 13 | f << 19) ^ (f >>> 22 | f << 10)) + (f & g | h & (f | g)) | 0;
    wc = wc + w5 + ((wd >>> 7 | wd << 25) ^ (wd >>> 18 | wd << 14) ^ wd >>> 3) + ((wa >>> 17 | wa << 15) ^ (wa >>> 19 | wa << 13) ^ wa >>> 10) | 0;
    t = d + ((a >>> 6 | a << 26) ^ (a >>> 11 | a << 21) ^ (a >>> 25 | a << 7)) + (c ^ a & (b ^ c)) + K[k + 12] + wc | 0; h = h + t | 0; d = t + ((e >>> 2 | e << 30) ^ (e >>> 13 | e << 19) ^ (e >>> 22 | e << 10)) + (e & f | g & (e | f)) | 0;
    wd = wd + w6 + ((we >>> 7 | we << 25) ^ (we >>> 18 | we << 14) ^ we >>> 3) + ((wb >>> 17 | wb << 15) ^ (wb >>> 19 | wb << 13) ^ wb >>> 10) | 0;
    t = c + ((h >>> 6 | h << 26) ^ (h >>> 11 | h << 21) ^ (h >>> 25 | h << 7)) + (b ^ h & (a ^ b)) + K[k + 13] + wd | 0; g = g + t | 0; c = t + ((d >>> 2 | d << 30) ^ (d >>> 13 | d << 19) ^ (d >>> 22 | d << 10)) + (d & e | f & (d | e)) | 0;
    we = we + w7 + ((wf >>> 7 | wf << 25) ^ (wf >>> 18 | wf << 14) ^ wf >>> 3) + ((wc >>> 17 | wc << 15) ^ (wc >>> 19 | wc << 13) ^ wc >>> 10) | 0;
    t = b + ((g >>> 6 | g << 26) ^ (g >>> 11 | g << 21) ^ (g >>> 25 | g << 7)) + (a ^ g & (h ^ a)) + K[k + 14] + we | 0; f = f + t | 0; b = t + ((c >>> 2 | c << 30) ^ (c >>> 13 | c << 19) ^ (c >>> 22 | c << 10)) + (c & d | e & (c | d)) | 0;
    wf = wf + w8 + ((w0 >>> 7 | w0 << 25) ^ (w0 >>> 18 | w0 << 14) ^ w0 >>> 3) + ((wd >>> 17 | wd << 15) ^ (wd >>> 19 | wd << 13) ^ wd >>> 10) | 0;
    t = a + ((f >>> 6 | f << 26) ^ (f >>> 11 | f << 21) ^ (f >>> 25 | f << 7)) + (h ^ f & (g ^ h)) + K[k + 15] + wf | 0; e = e + t | 0; a = t + ((b >>> 2 | b << 30) ^ (b >>> 13 | b << 19) ^ (b >>> 22 | b << 10)) + (b & c | d & (b | c)) | 0;
    }
    const v = a + iv0 >>> 0;
    if (v < high || v === high && (b + iv1 >>> 0) < low) return job.from + n;
  }
  return -1;
}

function power(a, n, p) {
  let r = 1n;
  for (; n > 0n; n >>= 1n) { if (n & 1n) r = r * a % p; a = a * a % p; }
  return r;
}

// logarithm finds x with a^x = b by baby steps and giant steps.
function logarithm(job, tell) {
  const {p, a, b, width} = job, key = e => Number(BigInt.asUintN(48, e)), steps = new Map();
  const m = Math.max(1, Math.min(Math.ceil(Math.sqrt(Number(width) / 2)), 1 << 21)), M = BigInt(m);
  let e = b, done = 0;
  const count = () => { if (++done % 16384 === 0) tell(16384); };
  for (let j = 1; j <= m; j++, count()) { e = e * a % p; steps.set(key(e), j); }
  const giant = power(a, M, p);
  e = 1n;
  for (let i = 1n; i * M <= width + M; i++, count()) {
    e = e * giant % p;
    const j = steps.get(key(e));
    if (j !== undefined) {
      const x = i * M - BigInt(j);
      if (x < width && power(a, x, p) === b) return x;
    }
  }
  throw new Error('stamp: no solution');
}

// Inside a worker: work on what comes.
if (typeof document === 'undefined' && typeof root.postMessage === 'function') {
  root.onmessage = e => {
    const job = e.data;
    try {
      if (job.seed) root.postMessage({job: job.id, found: search(job)});
      else root.postMessage({x: logarithm(job, n => root.postMessage({done: n}))});
    } catch (err) { root.postMessage({error: String(err.message || err)}); }
  };
  return;
}

const script = typeof document !== 'undefined' && document.currentScript ? document.currentScript.src : '';

function decode(text) {
  const raw = atob(text.replace(/-/g, '+').replace(/_/g, '/'));
  return Uint8Array.from(raw, c => c.charCodeAt(0));
}

function encode(bytes) {
  return btoa(String.fromCharCode(...bytes)).replace(/\+/g, '-').replace(/\//g, '_').replace(/=/g, '');
}

const number = bytes => bytes.reduce((n, b) => n << 8n | BigInt(b), 0n);

function bytesOf(n, length) {
  const b = new Uint8Array(length);
  for (let i = length - 1; i >= 0; i--, n >>= 8n) b[i] = Number(n & 255n);
  return b;
}

// read takes a challenge apart.
function read(text) {
  const b = decode(text);
  if (b[0] !== 1 || !NAMES[b[1]]) throw new Error('stamp: not a challenge');
  const fields = [];
  for (let at = 44, i = 0; i < 3; i++) { fields.push(b.slice(at + 1, at + 1 + b[at])); at += 1 + b[at]; }
  const seed = new Uint8Array(32), work = number(b.slice(20, 28));
  seed.set(b.slice(28, 44));
  seed.set(b.slice(-16), 16);
  return {algorithm: NAMES[b[1]], work: Number(work), expires: new Date(Number(number(b.slice(10, 16)))),
    exact: work, nonce: b.slice(28, 44), seed, message: fields[0], client: fields[1], data: fields[2]};
}

// digest hashes parts with their lengths under a label.
function digest(label, n, parts) {
  const b = [label.length, ...[...label].map(c => c.charCodeAt(0)), ...bytesOf(BigInt(n), 4)];
  for (const p of parts) b.push(p.length >> 8, p.length & 255, ...p);
  return sha256(Uint8Array.from(b));
}

function squared(p, value) {
  for (let n = 0; ; n++) {
    let v = value(n) % p;
    v = v * v % p;
    if (v > 1n) return v;
  }
}

function logarithmJob(c) {
  if (c.algorithm === 'dlog') {
    const wide = n => number([0, 1, 2].flatMap(i => [...digest('weir dlog a', 3 * n + i, [c.nonce, c.message, c.client])]));
    return {p: PRIME, a: squared(PRIME, wide), b: number(c.data), width: (2n * c.exact) ** 2n / 9n};
  }
  const p = number(c.data), of = label => squared(p, n => number(digest(label, n, [c.message, c.client]).slice(0, 8)));
  return {p, a: of('weir classic f'), b: of('weir classic g'), width: p >> 1n};
}

function solve(challenge, options) {
  const o = options || {}, staff = [];
  let address = '';
  const start = () => {
    let url = o.script || script;
    if (!url) url = address = address || URL.createObjectURL(new Blob(['(' + solver + ')(self)'], {type: 'text/javascript'}));
    const w = new Worker(url);
    staff.push(w);
    return w;
  };
  return new Promise((resolve, reject) => {
    const c = read(challenge);
    const expected = c.algorithm === 'dlog-classic' ? 1.5 * Math.sqrt(c.work / 2) : c.work;
    let done = 0;
    const tell = n => { done += n; if (o.progress) o.progress(Math.min(done / expected, 0.99), done, expected); };
    const fail = e => reject(e instanceof Error ? e : new Error(e.message || 'stamp: the worker does not start'));
    if (o.signal) {
      if (o.signal.aborted) return fail(new Error('stamp: aborted'));
      o.signal.addEventListener('abort', () => fail(new Error('stamp: aborted')));
    }
    if (c.algorithm === 'argon2id') return fail(new Error('stamp: a browser cannot do argon2id'));
    if (c.algorithm !== 'sha256-k') {
      const w = start();
      w.onerror = fail;
      w.onmessage = e => {
        if (e.data.error) return fail(new Error(e.data.error));
        if (e.data.done) return tell(e.data.done);
        const job = logarithmJob(c), x = bytesOf(e.data.x, c.algorithm === 'dlog' ? 16 : 8);
        resolve(challenge + '.' + encode(c.algorithm === 'dlog' ? x : [...bytesOf(job.a, 8), ...x]));
      };
      return w.postMessage(logarithmJob(c));
    }
    const t = c.exact <= 16n ? (1n << 64n) - 1n : (16n << 64n) / c.exact, view = new DataView(c.seed.buffer);
    const seed = Array.from({length: 8}, (_, i) => view.getInt32(4 * i)), target = [Number(t >> 32n), Number(t & 0xffffffffn)];
    const parts = Array.from({length: PARTS}, (_, part) => ({part, next: 0, busy: 0, found: -1}));
    // hand gives a worker a chunk of the unsolved part that the fewest work on.
    const hand = w => {
      const open = parts.filter(p => p.found < 0);
      if (!open.length) {
        const out = parts.flatMap(p => [...bytesOf(BigInt(p.found), 6)]);
        return resolve(challenge + '.' + encode(out));
      }
      const p = open.reduce((best, p) => p.busy < best.busy ? p : best);
      p.busy++;
      w.job = {id: p.part, seed, target, part: p.part, from: p.next, count: CHUNK};
      p.next += CHUNK;
      w.postMessage(w.job);
    };
    const n = Math.max(1, Math.min(o.workers || (root.navigator && navigator.hardwareConcurrency) || 2, PARTS));
    for (let i = 0; i < n; i++) {
      const w = start();
      w.onerror = fail;
      w.onmessage = e => {
        if (e.data.error) return fail(new Error(e.data.error));
        const p = parts[e.data.job], found = e.data.found;
        p.busy--;
        if (found >= 0 && p.found < 0) p.found = found;
        tell(found >= 0 ? found - w.job.from + 1 : CHUNK);
        hand(w);
      };
      hand(w);
    }
  }).finally(() => {
    staff.forEach(w => w.terminate());
    if (address) URL.revokeObjectURL(address);
  });
}

root.weirStamp = {solve, read};
if (typeof module === 'object' && module.exports) module.exports = {solve, read, search, sha256, logarithm, logarithmJob};
})(typeof self !== 'undefined' ? self : globalThis);
