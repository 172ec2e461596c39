// The stamp solver of weir: pays a challenge in Web Workers, without any outside resource. All of it is plain JavaScript, but for eqs60, which
// takes WebAssembly where the browser has it and the policy that this script is served with allows it ('wasm-unsafe-eval').
//
//   weirStamp.solve(challenge, {workers, progress(share, done, expected), signal, script}) -> Promise of the stamp
//   weirStamp.read(challenge) -> {algorithm, work, expires, lifetime}
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
const NAMES = [, 'sha256-k', 'dlog', 'dlog-classic', , 'eqs60'];

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

// search tries counters of a part of sha256-k and returns the one that fits, or -1. A browser that finds a function worth the effort puts
// the faster one in place at the next call: so these are many and short.
function search(job) {
  for (let at = 0; at < job.count; at += 256) {
    const found = attempt(job, job.from + at, Math.min(256, job.count - at));
    if (found >= 0) return found;
  }
  return -1;
}

// attempt is where all the time goes. From one counter to the next only one word of the block changes, w11: eleven rounds, and whatever
// of the schedule does not depend on it, are done once. The other rounds stand here one by one.
const fixed = new Int32Array(40), sums = new Int32Array(40);
function attempt(job, from, count) {
  const high = job.target[0], low = job.target[1], lower = from | 0, iv0 = IV[0], iv1 = IV[1], K = ROUNDS, s = sums;
  fixed.set(job.seed);
  fixed[9] = job.part; fixed[10] = from / 4294967296; fixed[12] = 1 << 31; fixed[15] = 384;
  for (let i = 16; i < 40; i++) {
    const x = fixed[i - 15], y = fixed[i - 2];
    s[i] = fixed[i - 16] + fixed[i - 7] + ((x >>> 7 | x << 25) ^ (x >>> 18 | x << 14) ^ x >>> 3) + ((y >>> 17 | y << 15) ^ (y >>> 19 | y << 13) ^ y >>> 10);
    if (i < 18 || i < 24 && i & 1) fixed[i] = s[i];
  }
  const c16 = s[16], c17 = s[17], c18 = s[18], c19 = s[19], c20 = s[20], c21 = s[21], c22 = s[22], c23 = s[23], c24 = s[24], c25 = s[25], c26 = s[26], c27 = s[27],
    c28 = s[28], c30 = s[30], c31 = s[31], c32 = s[32], c33 = s[33], c34 = s[34], c35 = s[35], c36 = s[36], c37 = s[37], c38 = s[38], c39 = s[39];
  let a = IV[0], b = IV[1], c = IV[2], d = IV[3], e = IV[4], f = IV[5], g = IV[6], h = IV[7], t = 0, x = 0, m = 0, p = 0, q = 0;
  for (let i = 0; i < 12; i++) {
    t = h + ((e >>> 6 | e << 26) ^ (e >>> 11 | e << 21) ^ (e >>> 25 | e << 7)) + (g ^ e & (f ^ g)) + K[i] + fixed[i] | 0;
    const u = ((a >>> 2 | a << 30) ^ (a >>> 13 | a << 19) ^ (a >>> 22 | a << 10)) + (a & b | c & (a | b)) | 0;
    h = g; g = f; f = e; e = d + t | 0; d = c; c = b; b = a; a = t + u | 0;
  }
  const A = a, B = b, C = c, D = d, E = e, F = f, G = g, H = h;
  for (let n = 0; n < count; n = n + 1 | 0) {
    const w11 = lower + n | 0;
    // After twelve rounds the letters stand four places on.
    e = A + w11 | 0; f = B; g = C; h = D; a = E + w11 | 0; b = F; c = G; d = H; m = B ^ C;
    x = (a >>> 14 | a << 18) ^ a; x = (x >>> 5 | x << 27) ^ a; t = d + 0xf2be5d74 + (c ^ a & (b ^ c)) + (x >>> 6 | x << 26) | 0; h = h + t | 0; x = (e >>> 9 | e << 23) ^ e; x = (x >>> 11 | x << 21) ^ e; d = (x >>> 2 | x << 30) + (m & (m = e ^ f) ^ f) + t | 0;
    x = (h >>> 14 | h << 18) ^ h; x = (x >>> 5 | x << 27) ^ h; t = c + 0x80deb1fe + (b ^ h & (a ^ b)) + (x >>> 6 | x << 26) | 0; g = g + t | 0; x = (d >>> 9 | d << 23) ^ d; x = (x >>> 11 | x << 21) ^ d; c = (x >>> 2 | x << 30) + (m & (m = d ^ e) ^ e) + t | 0;
    x = (g >>> 14 | g << 18) ^ g; x = (x >>> 5 | x << 27) ^ g; t = b + 0x9bdc06a7 + (a ^ g & (h ^ a)) + (x >>> 6 | x << 26) | 0; f = f + t | 0; x = (c >>> 9 | c << 23) ^ c; x = (x >>> 11 | x << 21) ^ c; b = (x >>> 2 | x << 30) + (m & (m = c ^ d) ^ d) + t | 0;
    x = (f >>> 14 | f << 18) ^ f; x = (x >>> 5 | x << 27) ^ f; t = a + 0xc19bf2f4 + (h ^ f & (g ^ h)) + (x >>> 6 | x << 26) | 0; e = e + t | 0; x = (b >>> 9 | b << 23) ^ b; x = (x >>> 11 | x << 21) ^ b; a = (x >>> 2 | x << 30) + (m & (m = b ^ c) ^ c) + t | 0;
    x = (e >>> 14 | e << 18) ^ e; x = (x >>> 5 | x << 27) ^ e; t = h + c16 + 0xe49b69c1 + (g ^ e & (f ^ g)) + (x >>> 6 | x << 26) | 0; d = d + t | 0; x = (a >>> 9 | a << 23) ^ a; x = (x >>> 11 | x << 21) ^ a; h = (x >>> 2 | x << 30) + (m & (m = a ^ b) ^ b) + t | 0;
    x = (d >>> 14 | d << 18) ^ d; x = (x >>> 5 | x << 27) ^ d; t = g + c17 + 0xefbe4786 + (f ^ d & (e ^ f)) + (x >>> 6 | x << 26) | 0; c = c + t | 0; x = (h >>> 9 | h << 23) ^ h; x = (x >>> 11 | x << 21) ^ h; g = (x >>> 2 | x << 30) + (m & (m = h ^ a) ^ a) + t | 0;
    const w18 = c18 + w11 | 0;
    x = (c >>> 14 | c << 18) ^ c; x = (x >>> 5 | x << 27) ^ c; t = f + w18 + 0xfc19dc6 + (e ^ c & (d ^ e)) + (x >>> 6 | x << 26) | 0; b = b + t | 0; x = (g >>> 9 | g << 23) ^ g; x = (x >>> 11 | x << 21) ^ g; f = (x >>> 2 | x << 30) + (m & (m = g ^ h) ^ h) + t | 0;
    x = (b >>> 14 | b << 18) ^ b; x = (x >>> 5 | x << 27) ^ b; t = e + c19 + 0x240ca1cc + (d ^ b & (c ^ d)) + (x >>> 6 | x << 26) | 0; a = a + t | 0; x = (f >>> 9 | f << 23) ^ f; x = (x >>> 11 | x << 21) ^ f; e = (x >>> 2 | x << 30) + (m & (m = f ^ g) ^ g) + t | 0;
    q = (w18 >>> 2 | w18 << 30) ^ w18; const w20 = c20 + ((q >>> 17 | q << 15) ^ w18 >>> 10) | 0;
    x = (a >>> 14 | a << 18) ^ a; x = (x >>> 5 | x << 27) ^ a; t = d + w20 + 0x2de92c6f + (c ^ a & (b ^ c)) + (x >>> 6 | x << 26) | 0; h = h + t | 0; x = (e >>> 9 | e << 23) ^ e; x = (x >>> 11 | x << 21) ^ e; d = (x >>> 2 | x << 30) + (m & (m = e ^ f) ^ f) + t | 0;
    x = (h >>> 14 | h << 18) ^ h; x = (x >>> 5 | x << 27) ^ h; t = c + c21 + 0x4a7484aa + (b ^ h & (a ^ b)) + (x >>> 6 | x << 26) | 0; g = g + t | 0; x = (d >>> 9 | d << 23) ^ d; x = (x >>> 11 | x << 21) ^ d; c = (x >>> 2 | x << 30) + (m & (m = d ^ e) ^ e) + t | 0;
    q = (w20 >>> 2 | w20 << 30) ^ w20; const w22 = c22 + ((q >>> 17 | q << 15) ^ w20 >>> 10) | 0;
    x = (g >>> 14 | g << 18) ^ g; x = (x >>> 5 | x << 27) ^ g; t = b + w22 + 0x5cb0a9dc + (a ^ g & (h ^ a)) + (x >>> 6 | x << 26) | 0; f = f + t | 0; x = (c >>> 9 | c << 23) ^ c; x = (x >>> 11 | x << 21) ^ c; b = (x >>> 2 | x << 30) + (m & (m = c ^ d) ^ d) + t | 0;
    x = (f >>> 14 | f << 18) ^ f; x = (x >>> 5 | x << 27) ^ f; t = a + c23 + 0x76f988da + (h ^ f & (g ^ h)) + (x >>> 6 | x << 26) | 0; e = e + t | 0; x = (b >>> 9 | b << 23) ^ b; x = (x >>> 11 | x << 21) ^ b; a = (x >>> 2 | x << 30) + (m & (m = b ^ c) ^ c) + t | 0;
    q = (w22 >>> 2 | w22 << 30) ^ w22; const w24 = c24 + ((q >>> 17 | q << 15) ^ w22 >>> 10) | 0;
    x = (e >>> 14 | e << 18) ^ e; x = (x >>> 5 | x << 27) ^ e; t = h + w24 + 0x983e5152 + (g ^ e & (f ^ g)) + (x >>> 6 | x << 26) | 0; d = d + t | 0; x = (a >>> 9 | a << 23) ^ a; x = (x >>> 11 | x << 21) ^ a; h = (x >>> 2 | x << 30) + (m & (m = a ^ b) ^ b) + t | 0;
    const w25 = c25 + w18 | 0;
    x = (d >>> 14 | d << 18) ^ d; x = (x >>> 5 | x << 27) ^ d; t = g + w25 + 0xa831c66d + (f ^ d & (e ^ f)) + (x >>> 6 | x << 26) | 0; c = c + t | 0; x = (h >>> 9 | h << 23) ^ h; x = (x >>> 11 | x << 21) ^ h; g = (x >>> 2 | x << 30) + (m & (m = h ^ a) ^ a) + t | 0;
    p = (w11 >>> 11 | w11 << 21) ^ w11; q = (w24 >>> 2 | w24 << 30) ^ w24; const w26 = c26 + ((p >>> 7 | p << 25) ^ w11 >>> 3) + ((q >>> 17 | q << 15) ^ w24 >>> 10) | 0;
    x = (c >>> 14 | c << 18) ^ c; x = (x >>> 5 | x << 27) ^ c; t = f + w26 + 0xb00327c8 + (e ^ c & (d ^ e)) + (x >>> 6 | x << 26) | 0; b = b + t | 0; x = (g >>> 9 | g << 23) ^ g; x = (x >>> 11 | x << 21) ^ g; f = (x >>> 2 | x << 30) + (m & (m = g ^ h) ^ h) + t | 0;
    q = (w25 >>> 2 | w25 << 30) ^ w25; const w27 = c27 + w11 + w20 + ((q >>> 17 | q << 15) ^ w25 >>> 10) | 0;
    x = (b >>> 14 | b << 18) ^ b; x = (x >>> 5 | x << 27) ^ b; t = e + w27 + 0xbf597fc7 + (d ^ b & (c ^ d)) + (x >>> 6 | x << 26) | 0; a = a + t | 0; x = (f >>> 9 | f << 23) ^ f; x = (x >>> 11 | x << 21) ^ f; e = (x >>> 2 | x << 30) + (m & (m = f ^ g) ^ g) + t | 0;
    q = (w26 >>> 2 | w26 << 30) ^ w26; const w28 = c28 + ((q >>> 17 | q << 15) ^ w26 >>> 10) | 0;
    x = (a >>> 14 | a << 18) ^ a; x = (x >>> 5 | x << 27) ^ a; t = d + w28 + 0xc6e00bf3 + (c ^ a & (b ^ c)) + (x >>> 6 | x << 26) | 0; h = h + t | 0; x = (e >>> 9 | e << 23) ^ e; x = (x >>> 11 | x << 21) ^ e; d = (x >>> 2 | x << 30) + (m & (m = e ^ f) ^ f) + t | 0;
    q = (w27 >>> 2 | w27 << 30) ^ w27; const w29 = w22 + ((q >>> 17 | q << 15) ^ w27 >>> 10) | 0;
    x = (h >>> 14 | h << 18) ^ h; x = (x >>> 5 | x << 27) ^ h; t = c + w29 + 0xd5a79147 + (b ^ h & (a ^ b)) + (x >>> 6 | x << 26) | 0; g = g + t | 0; x = (d >>> 9 | d << 23) ^ d; x = (x >>> 11 | x << 21) ^ d; c = (x >>> 2 | x << 30) + (m & (m = d ^ e) ^ e) + t | 0;
    q = (w28 >>> 2 | w28 << 30) ^ w28; const w30 = c30 + ((q >>> 17 | q << 15) ^ w28 >>> 10) | 0;
    x = (g >>> 14 | g << 18) ^ g; x = (x >>> 5 | x << 27) ^ g; t = b + w30 + 0x6ca6351 + (a ^ g & (h ^ a)) + (x >>> 6 | x << 26) | 0; f = f + t | 0; x = (c >>> 9 | c << 23) ^ c; x = (x >>> 11 | x << 21) ^ c; b = (x >>> 2 | x << 30) + (m & (m = c ^ d) ^ d) + t | 0;
    q = (w29 >>> 2 | w29 << 30) ^ w29; const w31 = c31 + w24 + ((q >>> 17 | q << 15) ^ w29 >>> 10) | 0;
    x = (f >>> 14 | f << 18) ^ f; x = (x >>> 5 | x << 27) ^ f; t = a + w31 + 0x14292967 + (h ^ f & (g ^ h)) + (x >>> 6 | x << 26) | 0; e = e + t | 0; x = (b >>> 9 | b << 23) ^ b; x = (x >>> 11 | x << 21) ^ b; a = (x >>> 2 | x << 30) + (m & (m = b ^ c) ^ c) + t | 0;
    q = (w30 >>> 2 | w30 << 30) ^ w30; const w32 = c32 + w25 + ((q >>> 17 | q << 15) ^ w30 >>> 10) | 0;
    x = (e >>> 14 | e << 18) ^ e; x = (x >>> 5 | x << 27) ^ e; t = h + w32 + 0x27b70a85 + (g ^ e & (f ^ g)) + (x >>> 6 | x << 26) | 0; d = d + t | 0; x = (a >>> 9 | a << 23) ^ a; x = (x >>> 11 | x << 21) ^ a; h = (x >>> 2 | x << 30) + (m & (m = a ^ b) ^ b) + t | 0;
    p = (w18 >>> 11 | w18 << 21) ^ w18; q = (w31 >>> 2 | w31 << 30) ^ w31; const w33 = c33 + w26 + ((p >>> 7 | p << 25) ^ w18 >>> 3) + ((q >>> 17 | q << 15) ^ w31 >>> 10) | 0;
    x = (d >>> 14 | d << 18) ^ d; x = (x >>> 5 | x << 27) ^ d; t = g + w33 + 0x2e1b2138 + (f ^ d & (e ^ f)) + (x >>> 6 | x << 26) | 0; c = c + t | 0; x = (h >>> 9 | h << 23) ^ h; x = (x >>> 11 | x << 21) ^ h; g = (x >>> 2 | x << 30) + (m & (m = h ^ a) ^ a) + t | 0;
    q = (w32 >>> 2 | w32 << 30) ^ w32; const w34 = c34 + w18 + w27 + ((q >>> 17 | q << 15) ^ w32 >>> 10) | 0;
    x = (c >>> 14 | c << 18) ^ c; x = (x >>> 5 | x << 27) ^ c; t = f + w34 + 0x4d2c6dfc + (e ^ c & (d ^ e)) + (x >>> 6 | x << 26) | 0; b = b + t | 0; x = (g >>> 9 | g << 23) ^ g; x = (x >>> 11 | x << 21) ^ g; f = (x >>> 2 | x << 30) + (m & (m = g ^ h) ^ h) + t | 0;
    p = (w20 >>> 11 | w20 << 21) ^ w20; q = (w33 >>> 2 | w33 << 30) ^ w33; const w35 = c35 + w28 + ((p >>> 7 | p << 25) ^ w20 >>> 3) + ((q >>> 17 | q << 15) ^ w33 >>> 10) | 0;
    x = (b >>> 14 | b << 18) ^ b; x = (x >>> 5 | x << 27) ^ b; t = e + w35 + 0x53380d13 + (d ^ b & (c ^ d)) + (x >>> 6 | x << 26) | 0; a = a + t | 0; x = (f >>> 9 | f << 23) ^ f; x = (x >>> 11 | x << 21) ^ f; e = (x >>> 2 | x << 30) + (m & (m = f ^ g) ^ g) + t | 0;
    q = (w34 >>> 2 | w34 << 30) ^ w34; const w36 = c36 + w20 + w29 + ((q >>> 17 | q << 15) ^ w34 >>> 10) | 0;
    x = (a >>> 14 | a << 18) ^ a; x = (x >>> 5 | x << 27) ^ a; t = d + w36 + 0x650a7354 + (c ^ a & (b ^ c)) + (x >>> 6 | x << 26) | 0; h = h + t | 0; x = (e >>> 9 | e << 23) ^ e; x = (x >>> 11 | x << 21) ^ e; d = (x >>> 2 | x << 30) + (m & (m = e ^ f) ^ f) + t | 0;
    p = (w22 >>> 11 | w22 << 21) ^ w22; q = (w35 >>> 2 | w35 << 30) ^ w35; const w37 = c37 + w30 + ((p >>> 7 | p << 25) ^ w22 >>> 3) + ((q >>> 17 | q << 15) ^ w35 >>> 10) | 0;
    x = (h >>> 14 | h << 18) ^ h; x = (x >>> 5 | x << 27) ^ h; t = c + w37 + 0x766a0abb + (b ^ h & (a ^ b)) + (x >>> 6 | x << 26) | 0; g = g + t | 0; x = (d >>> 9 | d << 23) ^ d; x = (x >>> 11 | x << 21) ^ d; c = (x >>> 2 | x << 30) + (m & (m = d ^ e) ^ e) + t | 0;
    q = (w36 >>> 2 | w36 << 30) ^ w36; const w38 = c38 + w22 + w31 + ((q >>> 17 | q << 15) ^ w36 >>> 10) | 0;
    x = (g >>> 14 | g << 18) ^ g; x = (x >>> 5 | x << 27) ^ g; t = b + w38 + 0x81c2c92e + (a ^ g & (h ^ a)) + (x >>> 6 | x << 26) | 0; f = f + t | 0; x = (c >>> 9 | c << 23) ^ c; x = (x >>> 11 | x << 21) ^ c; b = (x >>> 2 | x << 30) + (m & (m = c ^ d) ^ d) + t | 0;
    p = (w24 >>> 11 | w24 << 21) ^ w24; q = (w37 >>> 2 | w37 << 30) ^ w37; const w39 = c39 + w32 + ((p >>> 7 | p << 25) ^ w24 >>> 3) + ((q >>> 17 | q << 15) ^ w37 >>> 10) | 0;
    x = (f >>> 14 | f << 18) ^ f; x = (x >>> 5 | x << 27) ^ f; t = a + w39 + 0x92722c85 + (h ^ f & (g ^ h)) + (x >>> 6 | x << 26) | 0; e = e + t | 0; x = (b >>> 9 | b << 23) ^ b; x = (x >>> 11 | x << 21) ^ b; a = (x >>> 2 | x << 30) + (m & (m = b ^ c) ^ c) + t | 0;
    p = (w25 >>> 11 | w25 << 21) ^ w25; q = (w38 >>> 2 | w38 << 30) ^ w38; const w40 = w24 + w33 + ((p >>> 7 | p << 25) ^ w25 >>> 3) + ((q >>> 17 | q << 15) ^ w38 >>> 10) | 0;
    x = (e >>> 14 | e << 18) ^ e; x = (x >>> 5 | x << 27) ^ e; t = h + w40 + 0xa2bfe8a1 + (g ^ e & (f ^ g)) + (x >>> 6 | x << 26) | 0; d = d + t | 0; x = (a >>> 9 | a << 23) ^ a; x = (x >>> 11 | x << 21) ^ a; h = (x >>> 2 | x << 30) + (m & (m = a ^ b) ^ b) + t | 0;
    p = (w26 >>> 11 | w26 << 21) ^ w26; q = (w39 >>> 2 | w39 << 30) ^ w39; const w41 = w25 + w34 + ((p >>> 7 | p << 25) ^ w26 >>> 3) + ((q >>> 17 | q << 15) ^ w39 >>> 10) | 0;
    x = (d >>> 14 | d << 18) ^ d; x = (x >>> 5 | x << 27) ^ d; t = g + w41 + 0xa81a664b + (f ^ d & (e ^ f)) + (x >>> 6 | x << 26) | 0; c = c + t | 0; x = (h >>> 9 | h << 23) ^ h; x = (x >>> 11 | x << 21) ^ h; g = (x >>> 2 | x << 30) + (m & (m = h ^ a) ^ a) + t | 0;
    p = (w27 >>> 11 | w27 << 21) ^ w27; q = (w40 >>> 2 | w40 << 30) ^ w40; const w42 = w26 + w35 + ((p >>> 7 | p << 25) ^ w27 >>> 3) + ((q >>> 17 | q << 15) ^ w40 >>> 10) | 0;
    x = (c >>> 14 | c << 18) ^ c; x = (x >>> 5 | x << 27) ^ c; t = f + w42 + 0xc24b8b70 + (e ^ c & (d ^ e)) + (x >>> 6 | x << 26) | 0; b = b + t | 0; x = (g >>> 9 | g << 23) ^ g; x = (x >>> 11 | x << 21) ^ g; f = (x >>> 2 | x << 30) + (m & (m = g ^ h) ^ h) + t | 0;
    p = (w28 >>> 11 | w28 << 21) ^ w28; q = (w41 >>> 2 | w41 << 30) ^ w41; const w43 = w27 + w36 + ((p >>> 7 | p << 25) ^ w28 >>> 3) + ((q >>> 17 | q << 15) ^ w41 >>> 10) | 0;
    x = (b >>> 14 | b << 18) ^ b; x = (x >>> 5 | x << 27) ^ b; t = e + w43 + 0xc76c51a3 + (d ^ b & (c ^ d)) + (x >>> 6 | x << 26) | 0; a = a + t | 0; x = (f >>> 9 | f << 23) ^ f; x = (x >>> 11 | x << 21) ^ f; e = (x >>> 2 | x << 30) + (m & (m = f ^ g) ^ g) + t | 0;
    p = (w29 >>> 11 | w29 << 21) ^ w29; q = (w42 >>> 2 | w42 << 30) ^ w42; const w44 = w28 + w37 + ((p >>> 7 | p << 25) ^ w29 >>> 3) + ((q >>> 17 | q << 15) ^ w42 >>> 10) | 0;
    x = (a >>> 14 | a << 18) ^ a; x = (x >>> 5 | x << 27) ^ a; t = d + w44 + 0xd192e819 + (c ^ a & (b ^ c)) + (x >>> 6 | x << 26) | 0; h = h + t | 0; x = (e >>> 9 | e << 23) ^ e; x = (x >>> 11 | x << 21) ^ e; d = (x >>> 2 | x << 30) + (m & (m = e ^ f) ^ f) + t | 0;
    p = (w30 >>> 11 | w30 << 21) ^ w30; q = (w43 >>> 2 | w43 << 30) ^ w43; const w45 = w29 + w38 + ((p >>> 7 | p << 25) ^ w30 >>> 3) + ((q >>> 17 | q << 15) ^ w43 >>> 10) | 0;
    x = (h >>> 14 | h << 18) ^ h; x = (x >>> 5 | x << 27) ^ h; t = c + w45 + 0xd6990624 + (b ^ h & (a ^ b)) + (x >>> 6 | x << 26) | 0; g = g + t | 0; x = (d >>> 9 | d << 23) ^ d; x = (x >>> 11 | x << 21) ^ d; c = (x >>> 2 | x << 30) + (m & (m = d ^ e) ^ e) + t | 0;
    p = (w31 >>> 11 | w31 << 21) ^ w31; q = (w44 >>> 2 | w44 << 30) ^ w44; const w46 = w30 + w39 + ((p >>> 7 | p << 25) ^ w31 >>> 3) + ((q >>> 17 | q << 15) ^ w44 >>> 10) | 0;
    x = (g >>> 14 | g << 18) ^ g; x = (x >>> 5 | x << 27) ^ g; t = b + w46 + 0xf40e3585 + (a ^ g & (h ^ a)) + (x >>> 6 | x << 26) | 0; f = f + t | 0; x = (c >>> 9 | c << 23) ^ c; x = (x >>> 11 | x << 21) ^ c; b = (x >>> 2 | x << 30) + (m & (m = c ^ d) ^ d) + t | 0;
    p = (w32 >>> 11 | w32 << 21) ^ w32; q = (w45 >>> 2 | w45 << 30) ^ w45; const w47 = w31 + w40 + ((p >>> 7 | p << 25) ^ w32 >>> 3) + ((q >>> 17 | q << 15) ^ w45 >>> 10) | 0;
    x = (f >>> 14 | f << 18) ^ f; x = (x >>> 5 | x << 27) ^ f; t = a + w47 + 0x106aa070 + (h ^ f & (g ^ h)) + (x >>> 6 | x << 26) | 0; e = e + t | 0; x = (b >>> 9 | b << 23) ^ b; x = (x >>> 11 | x << 21) ^ b; a = (x >>> 2 | x << 30) + (m & (m = b ^ c) ^ c) + t | 0;
    p = (w33 >>> 11 | w33 << 21) ^ w33; q = (w46 >>> 2 | w46 << 30) ^ w46; const w48 = w32 + w41 + ((p >>> 7 | p << 25) ^ w33 >>> 3) + ((q >>> 17 | q << 15) ^ w46 >>> 10) | 0;
    x = (e >>> 14 | e << 18) ^ e; x = (x >>> 5 | x << 27) ^ e; t = h + w48 + 0x19a4c116 + (g ^ e & (f ^ g)) + (x >>> 6 | x << 26) | 0; d = d + t | 0; x = (a >>> 9 | a << 23) ^ a; x = (x >>> 11 | x << 21) ^ a; h = (x >>> 2 | x << 30) + (m & (m = a ^ b) ^ b) + t | 0;
    p = (w34 >>> 11 | w34 << 21) ^ w34; q = (w47 >>> 2 | w47 << 30) ^ w47; const w49 = w33 + w42 + ((p >>> 7 | p << 25) ^ w34 >>> 3) + ((q >>> 17 | q << 15) ^ w47 >>> 10) | 0;
    x = (d >>> 14 | d << 18) ^ d; x = (x >>> 5 | x << 27) ^ d; t = g + w49 + 0x1e376c08 + (f ^ d & (e ^ f)) + (x >>> 6 | x << 26) | 0; c = c + t | 0; x = (h >>> 9 | h << 23) ^ h; x = (x >>> 11 | x << 21) ^ h; g = (x >>> 2 | x << 30) + (m & (m = h ^ a) ^ a) + t | 0;
    p = (w35 >>> 11 | w35 << 21) ^ w35; q = (w48 >>> 2 | w48 << 30) ^ w48; const w50 = w34 + w43 + ((p >>> 7 | p << 25) ^ w35 >>> 3) + ((q >>> 17 | q << 15) ^ w48 >>> 10) | 0;
    x = (c >>> 14 | c << 18) ^ c; x = (x >>> 5 | x << 27) ^ c; t = f + w50 + 0x2748774c + (e ^ c & (d ^ e)) + (x >>> 6 | x << 26) | 0; b = b + t | 0; x = (g >>> 9 | g << 23) ^ g; x = (x >>> 11 | x << 21) ^ g; f = (x >>> 2 | x << 30) + (m & (m = g ^ h) ^ h) + t | 0;
    p = (w36 >>> 11 | w36 << 21) ^ w36; q = (w49 >>> 2 | w49 << 30) ^ w49; const w51 = w35 + w44 + ((p >>> 7 | p << 25) ^ w36 >>> 3) + ((q >>> 17 | q << 15) ^ w49 >>> 10) | 0;
    x = (b >>> 14 | b << 18) ^ b; x = (x >>> 5 | x << 27) ^ b; t = e + w51 + 0x34b0bcb5 + (d ^ b & (c ^ d)) + (x >>> 6 | x << 26) | 0; a = a + t | 0; x = (f >>> 9 | f << 23) ^ f; x = (x >>> 11 | x << 21) ^ f; e = (x >>> 2 | x << 30) + (m & (m = f ^ g) ^ g) + t | 0;
    p = (w37 >>> 11 | w37 << 21) ^ w37; q = (w50 >>> 2 | w50 << 30) ^ w50; const w52 = w36 + w45 + ((p >>> 7 | p << 25) ^ w37 >>> 3) + ((q >>> 17 | q << 15) ^ w50 >>> 10) | 0;
    x = (a >>> 14 | a << 18) ^ a; x = (x >>> 5 | x << 27) ^ a; t = d + w52 + 0x391c0cb3 + (c ^ a & (b ^ c)) + (x >>> 6 | x << 26) | 0; h = h + t | 0; x = (e >>> 9 | e << 23) ^ e; x = (x >>> 11 | x << 21) ^ e; d = (x >>> 2 | x << 30) + (m & (m = e ^ f) ^ f) + t | 0;
    p = (w38 >>> 11 | w38 << 21) ^ w38; q = (w51 >>> 2 | w51 << 30) ^ w51; const w53 = w37 + w46 + ((p >>> 7 | p << 25) ^ w38 >>> 3) + ((q >>> 17 | q << 15) ^ w51 >>> 10) | 0;
    x = (h >>> 14 | h << 18) ^ h; x = (x >>> 5 | x << 27) ^ h; t = c + w53 + 0x4ed8aa4a + (b ^ h & (a ^ b)) + (x >>> 6 | x << 26) | 0; g = g + t | 0; x = (d >>> 9 | d << 23) ^ d; x = (x >>> 11 | x << 21) ^ d; c = (x >>> 2 | x << 30) + (m & (m = d ^ e) ^ e) + t | 0;
    p = (w39 >>> 11 | w39 << 21) ^ w39; q = (w52 >>> 2 | w52 << 30) ^ w52; const w54 = w38 + w47 + ((p >>> 7 | p << 25) ^ w39 >>> 3) + ((q >>> 17 | q << 15) ^ w52 >>> 10) | 0;
    x = (g >>> 14 | g << 18) ^ g; x = (x >>> 5 | x << 27) ^ g; t = b + w54 + 0x5b9cca4f + (a ^ g & (h ^ a)) + (x >>> 6 | x << 26) | 0; f = f + t | 0; x = (c >>> 9 | c << 23) ^ c; x = (x >>> 11 | x << 21) ^ c; b = (x >>> 2 | x << 30) + (m & (m = c ^ d) ^ d) + t | 0;
    p = (w40 >>> 11 | w40 << 21) ^ w40; q = (w53 >>> 2 | w53 << 30) ^ w53; const w55 = w39 + w48 + ((p >>> 7 | p << 25) ^ w40 >>> 3) + ((q >>> 17 | q << 15) ^ w53 >>> 10) | 0;
    x = (f >>> 14 | f << 18) ^ f; x = (x >>> 5 | x << 27) ^ f; t = a + w55 + 0x682e6ff3 + (h ^ f & (g ^ h)) + (x >>> 6 | x << 26) | 0; e = e + t | 0; x = (b >>> 9 | b << 23) ^ b; x = (x >>> 11 | x << 21) ^ b; a = (x >>> 2 | x << 30) + (m & (m = b ^ c) ^ c) + t | 0;
    p = (w41 >>> 11 | w41 << 21) ^ w41; q = (w54 >>> 2 | w54 << 30) ^ w54; const w56 = w40 + w49 + ((p >>> 7 | p << 25) ^ w41 >>> 3) + ((q >>> 17 | q << 15) ^ w54 >>> 10) | 0;
    x = (e >>> 14 | e << 18) ^ e; x = (x >>> 5 | x << 27) ^ e; t = h + w56 + 0x748f82ee + (g ^ e & (f ^ g)) + (x >>> 6 | x << 26) | 0; d = d + t | 0; x = (a >>> 9 | a << 23) ^ a; x = (x >>> 11 | x << 21) ^ a; h = (x >>> 2 | x << 30) + (m & (m = a ^ b) ^ b) + t | 0;
    p = (w42 >>> 11 | w42 << 21) ^ w42; q = (w55 >>> 2 | w55 << 30) ^ w55; const w57 = w41 + w50 + ((p >>> 7 | p << 25) ^ w42 >>> 3) + ((q >>> 17 | q << 15) ^ w55 >>> 10) | 0;
    x = (d >>> 14 | d << 18) ^ d; x = (x >>> 5 | x << 27) ^ d; t = g + w57 + 0x78a5636f + (f ^ d & (e ^ f)) + (x >>> 6 | x << 26) | 0; c = c + t | 0; x = (h >>> 9 | h << 23) ^ h; x = (x >>> 11 | x << 21) ^ h; g = (x >>> 2 | x << 30) + (m & (m = h ^ a) ^ a) + t | 0;
    p = (w43 >>> 11 | w43 << 21) ^ w43; q = (w56 >>> 2 | w56 << 30) ^ w56; const w58 = w42 + w51 + ((p >>> 7 | p << 25) ^ w43 >>> 3) + ((q >>> 17 | q << 15) ^ w56 >>> 10) | 0;
    x = (c >>> 14 | c << 18) ^ c; x = (x >>> 5 | x << 27) ^ c; t = f + w58 + 0x84c87814 + (e ^ c & (d ^ e)) + (x >>> 6 | x << 26) | 0; b = b + t | 0; x = (g >>> 9 | g << 23) ^ g; x = (x >>> 11 | x << 21) ^ g; f = (x >>> 2 | x << 30) + (m & (m = g ^ h) ^ h) + t | 0;
    p = (w44 >>> 11 | w44 << 21) ^ w44; q = (w57 >>> 2 | w57 << 30) ^ w57; const w59 = w43 + w52 + ((p >>> 7 | p << 25) ^ w44 >>> 3) + ((q >>> 17 | q << 15) ^ w57 >>> 10) | 0;
    x = (b >>> 14 | b << 18) ^ b; x = (x >>> 5 | x << 27) ^ b; t = e + w59 + 0x8cc70208 + (d ^ b & (c ^ d)) + (x >>> 6 | x << 26) | 0; a = a + t | 0; x = (f >>> 9 | f << 23) ^ f; x = (x >>> 11 | x << 21) ^ f; e = (x >>> 2 | x << 30) + (m & (m = f ^ g) ^ g) + t | 0;
    p = (w45 >>> 11 | w45 << 21) ^ w45; q = (w58 >>> 2 | w58 << 30) ^ w58; const w60 = w44 + w53 + ((p >>> 7 | p << 25) ^ w45 >>> 3) + ((q >>> 17 | q << 15) ^ w58 >>> 10) | 0;
    x = (a >>> 14 | a << 18) ^ a; x = (x >>> 5 | x << 27) ^ a; t = d + w60 + 0x90befffa + (c ^ a & (b ^ c)) + (x >>> 6 | x << 26) | 0; h = h + t | 0; x = (e >>> 9 | e << 23) ^ e; x = (x >>> 11 | x << 21) ^ e; d = (x >>> 2 | x << 30) + (m & (m = e ^ f) ^ f) + t | 0;
    p = (w46 >>> 11 | w46 << 21) ^ w46; q = (w59 >>> 2 | w59 << 30) ^ w59; const w61 = w45 + w54 + ((p >>> 7 | p << 25) ^ w46 >>> 3) + ((q >>> 17 | q << 15) ^ w59 >>> 10) | 0;
    x = (h >>> 14 | h << 18) ^ h; x = (x >>> 5 | x << 27) ^ h; t = c + w61 + 0xa4506ceb + (b ^ h & (a ^ b)) + (x >>> 6 | x << 26) | 0; g = g + t | 0; x = (d >>> 9 | d << 23) ^ d; x = (x >>> 11 | x << 21) ^ d; c = (x >>> 2 | x << 30) + (m & (m = d ^ e) ^ e) + t | 0;
    p = (w47 >>> 11 | w47 << 21) ^ w47; q = (w60 >>> 2 | w60 << 30) ^ w60; const w62 = w46 + w55 + ((p >>> 7 | p << 25) ^ w47 >>> 3) + ((q >>> 17 | q << 15) ^ w60 >>> 10) | 0;
    x = (g >>> 14 | g << 18) ^ g; x = (x >>> 5 | x << 27) ^ g; t = b + w62 + 0xbef9a3f7 + (a ^ g & (h ^ a)) + (x >>> 6 | x << 26) | 0; f = f + t | 0; x = (c >>> 9 | c << 23) ^ c; x = (x >>> 11 | x << 21) ^ c; b = (x >>> 2 | x << 30) + (m & (m = c ^ d) ^ d) + t | 0;
    p = (w48 >>> 11 | w48 << 21) ^ w48; q = (w61 >>> 2 | w61 << 30) ^ w61; const w63 = w47 + w56 + ((p >>> 7 | p << 25) ^ w48 >>> 3) + ((q >>> 17 | q << 15) ^ w61 >>> 10) | 0;
    x = (f >>> 14 | f << 18) ^ f; x = (x >>> 5 | x << 27) ^ f; t = a + w63 + 0xc67178f2 + (h ^ f & (g ^ h)) + (x >>> 6 | x << 26) | 0; e = e + t | 0; x = (b >>> 9 | b << 23) ^ b; x = (x >>> 11 | x << 21) ^ b; a = (x >>> 2 | x << 30) + (m & (m = b ^ c) ^ c) + t | 0;
    const v = a + iv0 >>> 0;
    if (v < high || v === high && (b + iv1 >>> 0) < low) return from + n;
  }
  return -1;
}

// From here on eqs60. A counter has 65536 values: SipHash-1-3 of counter and index. Solutions are eight indices whose values add up to zero
// modulo 2^15 in pairs, 2^30 in fours and 2^60 all of them. Words of 64 bits are pairs of 32, the lower half first.
// The WebAssembly does the same as search60, two to three times as fast; it is put here when the script is served.
const WASM = '@eqs60.wasm@', ROOM = 384, HITS = 16, EACH = 8192, KEY = new Int32Array(8), MESSAGE = new Int32Array(6), sum = new Int32Array(2);

// keyOf is the state of SipHash before the first word.
function keyOf(seed) {
  const k = new Int32Array(sha256(seed).slice(0, 16).buffer);
  return Int32Array.of(k[0] ^ 0x70736575, k[1] ^ 0x736f6d65, k[2] ^ 0x6e646f6d, k[3] ^ 0x646f7261, k[0] ^ 0x6e657261, k[1] ^ 0x6c796765, k[2] ^ 0x79746573,
    k[3] ^ 0x74656462);
}

// sip hashes the first n words of MESSAGE into sum. The carry of a sum is found in the upper bits, as a branch would be guessed wrong half of
// the time.
function sip(n, domain) {
  const m = MESSAGE;
  let al = KEY[0], ah = KEY[1], bl = KEY[2] ^ domain, bh = KEY[3], cl = KEY[4], ch = KEY[5], dl = KEY[6] ^ m[0], dh = KEY[7] ^ m[1], s = 0, t = 0;
  for (let r = 1; r < n + 4; r++) {
    s = al + bl | 0; ah = ah + bh + ((al & bl | (al | bl) & ~s) >>> 31) | 0; al = s;
    s = cl + dl | 0; ch = ch + dh + ((cl & dl | (cl | dl) & ~s) >>> 31) | 0; cl = s;
    t = (bl << 13 | bh >>> 19) ^ al; bh = (bh << 13 | bl >>> 19) ^ ah; bl = t;
    t = (dl << 16 | dh >>> 16) ^ cl; dh = (dh << 16 | dl >>> 16) ^ ch; dl = t;
    s = cl + bl | 0; t = ch + bh + ((cl & bl | (cl | bl) & ~s) >>> 31) | 0; ch = s; cl = t;
    s = ah + dl | 0; t = al + dh + ((ah & dl | (ah | dl) & ~s) >>> 31) | 0; al = s; ah = t;
    t = (bl << 17 | bh >>> 15) ^ ch; bh = (bh << 17 | bl >>> 15) ^ cl; bl = t;
    t = (dl << 21 | dh >>> 11) ^ al; dh = (dh << 21 | dl >>> 11) ^ ah; dl = t;
    if (r <= n) {
      al ^= m[2 * r - 2]; ah ^= m[2 * r - 1];
      if (r < n) { dl ^= m[2 * r]; dh ^= m[2 * r + 1]; } else cl ^= 255;
    }
  }
  sum[0] = al ^ bl ^ cl ^ dl; sum[1] = ah ^ bh ^ ch ^ dh;
}

// tables are the memory of the search: 2.8 MB. Entries of a round lie in 256 buckets by the lowest eight bits of their sums; low and high are
// the values of the first round, and in the third a sum and a place in the second round, with the other place in third.
let tables;
function prepare() {
  const words = n => new Int32Array(n || 256 * ROOM);
  tables = {counts: words(768), low: words(), high: words(), index: words(), low2: words(), high2: words(), pair: words(), third: words(), head: words(2048),
    next: words(ROOM + 1), found: []};
}

// search60 finds the solutions of a counter: sixteen bytes each.
function search60(counter) {
  if (!tables) prepare();
  const {counts, low, high, index} = tables;
  counts.fill(0);
  tables.found = [];
  MESSAGE[1] = counter >>> 16;
  for (let i = 0; i < 65536; i++) {
    MESSAGE[0] = counter << 16 | i;
    sip(1, 0);
    const b = sum[0] & 255, n = counts[b]++, at = b * ROOM + n;
    if (n >= ROOM) counts[b] = ROOM;
    else { low[at] = sum[0]; high[at] = sum[1]; index[at] = i; }
  }
  for (let round = 0; round < 3; round++) for (let b = 0; b <= 128; b++) meet(round, b, 256 - b & 255);
  return tables.found;
}

// meet adds up the entries of two buckets that can add up to zero, which may be one bucket. Those with the same next bits are in a
// chain: seven bits, or eleven in the third round, where sums have to be zero as a whole.
function meet(round, bucket, mate) {
  const {counts, index, pair, third, head, next} = tables, from = round === 1 ? tables.low2 : tables.low, above = round === 1 ? tables.high2 : tables.high;
  const to = round === 0 ? tables.low2 : tables.low, ours = bucket * ROOM, theirs = mate * ROOM, more = 256 * (round + 1), chains = round === 2 ? 2047 : 127;
  head.fill(0, 0, chains + 1);
  if (mate !== bucket) {
    for (let i = 0, n = counts[256 * round + bucket]; i < n; i++) { const c = from[ours + i] >>> 8 & chains; next[i + 1] = head[c]; head[c] = i + 1; }
  }
  for (let j = 0, n = counts[256 * round + mate]; j < n; j++) {
    const v = from[theirs + j], w = above[theirs + j];
    for (let i = head[0 - v >>> 8 & chains]; i; i = next[i]) {
      const u = from[ours + i - 1], s = u + v | 0;
      if (round === 2) {
        if (!(s << 2)) found(ours + i - 1, theirs + j);
        continue;
      }
      const t = above[ours + i - 1] + w + ((u & v | (u | v) & ~s) >>> 31) | 0, l = s >>> 15 | t << 17, b = l & 255, n = counts[more + b]++, at = b * ROOM + n;
      if (n >= ROOM) counts[more + b] = ROOM;
      else if (round === 0) {
        const x = index[ours + i - 1], y = index[theirs + j];
        to[at] = l; tables.high2[at] = t >>> 15; pair[at] = x < y ? x | y << 16 : y | x << 16;
      } else { to[at] = l; tables.high[at] = ours + i - 1; third[at] = theirs + j; }
    }
    if (mate === bucket) { const c = v >>> 8 & chains; next[j + 1] = head[c]; head[c] = j + 1; }
  }
}

// found notes a solution, the smaller half first, if no index comes twice.
function found(a, b) {
  const {high, third, pair} = tables, four = at => [pair[high[at]] >>> 0, pair[third[at]] >>> 0].sort((x, y) => x - y);
  const [x, y] = [four(a), four(b)].sort((x, y) => x[1] - y[1] || x[0] - y[0]), indices = new Uint16Array(Uint32Array.of(...x, ...y).buffer);
  if (new Set(indices).size === 8 && tables.found.length < 16) tables.found.push(new Uint8Array(indices.buffer));
}

// native is the WebAssembly, or null where there is none: old browsers, and policies that forbid it.
let native;
function load() {
  try {
    native = new WebAssembly.Instance(new WebAssembly.Module(decode(WASM))).exports;
  } catch (_) { native = null; }
}

// solutions60 are those of a counter, under KEY.
function solutions60(counter) {
  if (native === undefined) load();
  if (!native) return search60(counter);
  new Int32Array(native.memory.buffer, 0, 8).set(KEY);
  const all = Array.from({length: native.solve(counter)}, (_, i) => new Uint8Array(native.memory.buffer, 64 + 16 * i, 16).slice());
  return all.filter(s => new Set(new Uint16Array(s.buffer)).size === 8);
}

// effort60 is the effort of a solution: its upper and its lower half.
function effort60(counter, solution) {
  MESSAGE.set(new Int32Array(solution.buffer));
  MESSAGE[4] = counter; MESSAGE[5] = 0;
  sip(3, 0xee);
  return [sum[1] >>> 0, sum[0] >>> 0];
}

// hits60 are the solutions of some counters with enough effort: counter and solution.
function hits60(job) {
  const hits = [];
  KEY.set(job.key);
  for (let n = job.from; n < job.from + job.count; n++) {
    for (const s of solutions60(n)) {
      const e = effort60(n, s);
      if (e[0] < job.target[0] || e[0] === job.target[0] && e[1] < job.target[1]) hits.push([n, s]);
    }
  }
  return hits;
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
      else if (job.key) root.postMessage({hits: hits60(job), wasm: !!native});
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
  return {algorithm: NAMES[b[1]], work: Number(work), expires: new Date(Number(number(b.slice(10, 16)))), lifetime: Number(number(b.slice(16, 20))),
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

// inOrder writes hits of eqs60 as a solution: ascending by counter and, as little-endian numbers, by indices.
function inOrder(hits) {
  hits.sort(([n, a], [m, b]) => {
    let i = 15;
    while (i > 0 && a[i] === b[i]) i--;
    return n - m || a[i] - b[i];
  });
  return hits.flatMap(([n, s]) => [n >>> 24, n >>> 16 & 255, n >>> 8 & 255, n & 255, ...s]);
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
    const c = read(challenge), eqs = c.algorithm === 'eqs60', PARTS = 16, chunk = eqs ? 2 : 1 << 15;
    let done = 0;
    const tell = (n, left) => { done += n; if (o.progress) o.progress(done / (done + left), done, done + left); };
    const fail = e => reject(e instanceof Error ? e : new Error(e.message || 'stamp: the worker does not start'));
    if (o.signal) {
      if (o.signal.aborted) return fail(new Error('stamp: aborted'));
      o.signal.addEventListener('abort', () => fail(new Error('stamp: aborted')));
    }
    if (c.data.length) {
      const w = start(), job = logarithmJob(c), expected = c.algorithm === 'dlog' ? c.work : 1.5 * Math.sqrt(c.work / 2);
      w.onerror = fail;
      w.onmessage = e => {
        if (e.data.error) return fail(new Error(e.data.error));
        if (e.data.done) return tell(e.data.done, Math.max(expected - done, expected / 99));
        const x = bytesOf(e.data.x, c.algorithm === 'dlog' ? 16 : 8);
        resolve(challenge + '.' + encode(c.algorithm === 'dlog' ? x : [...bytesOf(job.a, 8), ...x]));
      };
      return w.postMessage(job);
    }
    const least = BigInt(eqs ? HITS * EACH / 2 : PARTS), t = c.exact <= least ? (1n << 64n) - 1n : (least << 64n) / c.exact;
    const target = [Number(t >> 32n), Number(t & 0xffffffffn)], view = new DataView(c.seed.buffer), seed = Array.from({length: 8}, (_, i) => view.getInt32(4 * i));
    const parts = Array.from({length: PARTS}, (_, part) => ({part, next: 0, busy: 0, found: -1})), key = eqs && keyOf(c.seed), hits = [];
    const open = () => parts.filter(p => p.found < 0);
    // hand gives a worker a chunk of the unsolved part that the fewest work on; for eqs60 the next counters.
    const hand = w => {
      if (eqs && hits.length >= HITS) return resolve(challenge + '.' + encode(inOrder(hits.slice(0, HITS))));
      if (!open().length) return resolve(challenge + '.' + encode(parts.flatMap(p => [...bytesOf(BigInt(p.found), 6)])));
      const p = eqs ? parts[0] : open().reduce((best, p) => p.busy < best.busy ? p : best);
      p.busy++;
      w.job = eqs ? {key, target, from: p.next, count: chunk} : {id: p.part, seed, target, part: p.part, from: p.next, count: chunk};
      p.next += chunk;
      w.postMessage(w.job);
    };
    const n = Math.max(1, Math.min(o.workers || (root.navigator && navigator.hardwareConcurrency) || 2, 8));
    for (let i = 0; i < n; i++) {
      const w = start();
      w.onerror = fail;
      w.onmessage = e => {
        if (e.data.error) return fail(new Error(e.data.error));
        // Luck has no memory: a part that is not solved yet is as far from it as at the start.
        if (eqs) {
          root.weirStamp.wasm = e.data.wasm;
          hits.push(...e.data.hits);
          tell(chunk * EACH, Math.max(HITS - hits.length, 0) * c.work / HITS);
          return hand(w);
        }
        const p = parts[e.data.job], found = e.data.found;
        p.busy--;
        if (found >= 0 && p.found < 0) p.found = found;
        tell(found >= 0 ? found - w.job.from + 1 : chunk, open().length * c.work / PARTS);
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
if (typeof module === 'object' && module.exports) module.exports = {solve, read, search, sha256, logarithm, logarithmJob, keyOf, KEY, MESSAGE, sum, sip, search60, solutions60, effort60,
  usesWasm: () => !!native};
})(typeof self !== 'undefined' ? self : globalThis);
