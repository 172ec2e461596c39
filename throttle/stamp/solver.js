// The stamp solver of weir: pays a challenge in Web Workers, in plain JavaScript, without any outside resource.
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
const NAMES = [, 'sha256-k', 'dlog', 'dlog-classic', 'argon2id'], imul = Math.imul;

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

// From here on argon2id (RFC 9106): one pass over BLOCKS of 1 KiB, one lane. Words of 64 bits are pairs in Int32Arrays, the lower half first.
// BLAKE2b's initial values have those of SHA-256 as their upper halves; these are the lower ones.
const BLOCKS = 2048, LOWER = Int32Array.of(0xf3bcc908,0x84caa73b,0xfe94f82b,0x5f1d36f1,0xade682d1,0x2b3e6c1f,0xfb41bd6b,0x137e2179);
const ORDER = ['0123456789abcdef', 'ea489fd61c02b753', 'b8c052fdae367194', '7931dcbe265a40f8', '905724afe1bc683d', '2c6a0b834d75fe19',
  'c51fed4a0763928b', 'db7ec13950f4862a', '6fe9b308c2d714a5', 'a2847615fb9e3cd0', '0123456789abcdef', 'ea489fd61c02b753'];

// mix is the function G of BLAKE2b on the words at a, b, c and d of v: with the words at x and y of the message m, or, where there is
// none, with the products of Argon2. The carry of a sum is found in the upper bits, as a branch would be guessed wrong half of the time.
function mix(v, a, b, c, d, m, x, y) {
  let al = v[a], ah = v[a + 1], bl = v[b], bh = v[b + 1], cl = v[c], ch = v[c + 1], dl = v[d], dh = v[d + 1], pl = 0, ph = 0, s = 0, t = 0, u = 0, k = 0;
  if (m === null) {
    t = imul(al >>> 16, bl & 65535) + (imul(al & 65535, bl & 65535) >>> 16) | 0; u = imul(al & 65535, bl >>> 16) + (t & 65535) | 0; pl = imul(al, bl);
    ph = imul(al >>> 16, bl >>> 16) + (t >>> 16) + (u >>> 16) << 1 | pl >>> 31; pl <<= 1;
  } else { pl = m[x]; ph = m[x + 1]; }
  s = al + bl | 0; k = (al & bl | (al | bl) & ~s) >>> 31; al = s + pl | 0; ah = ah + bh + ph + k + ((s & pl | (s | pl) & ~al) >>> 31) | 0;
  t = dl ^ al; dl = dh ^ ah; dh = t;
  if (m === null) {
    t = imul(cl >>> 16, dl & 65535) + (imul(cl & 65535, dl & 65535) >>> 16) | 0; u = imul(cl & 65535, dl >>> 16) + (t & 65535) | 0; pl = imul(cl, dl);
    ph = imul(cl >>> 16, dl >>> 16) + (t >>> 16) + (u >>> 16) << 1 | pl >>> 31; pl <<= 1;
  } else { pl = ph = 0; }
  s = cl + dl | 0; k = (cl & dl | (cl | dl) & ~s) >>> 31; cl = s + pl | 0; ch = ch + dh + ph + k + ((s & pl | (s | pl) & ~cl) >>> 31) | 0;
  t = bl ^ cl; u = bh ^ ch; bl = t >>> 24 | u << 8; bh = u >>> 24 | t << 8;
  if (m === null) {
    t = imul(al >>> 16, bl & 65535) + (imul(al & 65535, bl & 65535) >>> 16) | 0; u = imul(al & 65535, bl >>> 16) + (t & 65535) | 0; pl = imul(al, bl);
    ph = imul(al >>> 16, bl >>> 16) + (t >>> 16) + (u >>> 16) << 1 | pl >>> 31; pl <<= 1;
  } else { pl = m[y]; ph = m[y + 1]; }
  s = al + bl | 0; k = (al & bl | (al | bl) & ~s) >>> 31; al = s + pl | 0; ah = ah + bh + ph + k + ((s & pl | (s | pl) & ~al) >>> 31) | 0;
  t = dl ^ al; u = dh ^ ah; dl = t >>> 16 | u << 16; dh = u >>> 16 | t << 16;
  if (m === null) {
    t = imul(cl >>> 16, dl & 65535) + (imul(cl & 65535, dl & 65535) >>> 16) | 0; u = imul(cl & 65535, dl >>> 16) + (t & 65535) | 0; pl = imul(cl, dl);
    ph = imul(cl >>> 16, dl >>> 16) + (t >>> 16) + (u >>> 16) << 1 | pl >>> 31; pl <<= 1;
  } else { pl = ph = 0; }
  s = cl + dl | 0; k = (cl & dl | (cl | dl) & ~s) >>> 31; cl = s + pl | 0; ch = ch + dh + ph + k + ((s & pl | (s | pl) & ~cl) >>> 31) | 0;
  t = bl ^ cl; u = bh ^ ch; bl = u >>> 31 | t << 1; bh = t >>> 31 | u << 1;
  v[a] = al; v[a + 1] = ah; v[b] = bl; v[b + 1] = bh; v[c] = cl; v[c + 1] = ch; v[d] = dl; v[d + 1] = dh;
}

// round mixes the columns and the diagonals of sixteen words: those at from and from + 2, then those a step on.
function round(v, from, step, m, order) {
  for (let i = 0; i < 8; i++) {
    const r = i & 3, n = i >> 2, at = j => from + (j >> 1) * step + (j & 1) * 2;
    mix(v, at(r), at(4 + (r + n & 3)), at(8 + (r + 2 * n & 3)), at(12 + (r + 3 * n & 3)), m,
      m === null ? 0 : 2 * parseInt(order[2 * i], 16), m === null ? 0 : 2 * parseInt(order[2 * i + 1], 16));
  }
}

function blake2b(bytes, size) {
  const n = bytes.length, blocks = Math.max(1, n + 127 >> 7), padded = new Uint8Array(blocks << 7), h = new Int32Array(16), v = new Int32Array(32);
  padded.set(bytes);
  LOWER.forEach((low, i) => { h[2 * i] = low; h[2 * i + 1] = IV[i]; });
  const first = h.slice();
  h[0] ^= 0x01010000 ^ size;
  for (let k = 0; k < blocks; k++) {
    v.set(h);
    v.set(first, 16);
    v[24] ^= Math.min(n, k + 1 << 7);
    if (k === blocks - 1) { v[28] = ~v[28]; v[29] = ~v[29]; }
    for (const order of ORDER) round(v, 0, 4, new Int32Array(padded.buffer, k << 7, 32), order);
    for (let i = 0; i < 16; i++) h[i] ^= v[i] ^ v[i + 16];
  }
  return new Uint8Array(h.buffer, 0, size);
}

// stretch hashes to any length.
function stretch(bytes, size) {
  const out = new Uint8Array(size), input = new Uint8Array(4 + bytes.length);
  new DataView(input.buffer).setUint32(0, size, true);
  input.set(bytes, 4);
  let part = blake2b(input, Math.min(size, 64)), at = 0;
  for (; size - at > 64; at += 32) {
    out.set(part.subarray(0, 32), at);
    part = blake2b(part, Math.min(64, size - at - 32));
  }
  out.set(part, at);
  return out;
}

// fill makes the block at next of those at last and ref.
const scratch = new Int32Array(256);
function fill(M, last, ref, next) {
  const Z = scratch;
  for (let i = 0; i < 256; i++) M[next + i] = Z[i] = M[last + i] ^ M[ref + i];
  for (let i = 0; i < 8; i++) round(Z, 32 * i, 4, null, '');
  for (let i = 0; i < 8; i++) round(Z, 4 * i, 32, null, '');
  for (let i = 0; i < 256; i++) M[next + i] ^= Z[i];
}

// upper is the upper half of a product.
function upper(a, b) {
  const t = imul(a >>> 16, b & 65535) + (imul(a & 65535, b & 65535) >>> 16) | 0, u = imul(a & 65535, b >>> 16) + (t & 65535) | 0;
  return imul(a >>> 16, b >>> 16) + (t >>> 16) + (u >>> 16) | 0;
}

// pick says which of the n blocks before the last is looked at.
const pick = (random, n) => n - 1 - upper(upper(random, random), n);

// memory is the one that is filled, and which blocks are looked at in its first half: there that depends on nothing.
let memory, picks;
function prepare() {
  memory = new Int32Array(256 * BLOCKS);
  picks = new Int32Array(BLOCKS / 2);
  const m = new Int32Array(1024); // input, zeros, once, twice
  for (let i = 0; i < BLOCKS / 2; i++) {
    if (i % 512 === 0) { m.fill(0); m[4] = i / 512; m[6] = BLOCKS; m[8] = 1; m[10] = 2; }
    if (i % 128 === 0) { m[12]++; fill(m, 0, 256, 512); fill(m, 512, 256, 768); }
    if (i > 1) picks[i] = pick(m[768 + i % 128 * 2], i - 1);
  }
}

// argon2id hashes a part and a counter with the seed as salt, to eight bytes.
function argon2id(seed, part, n) {
  if (!memory) prepare();
  const head = new Uint8Array(88), view = new DataView(head.buffer), M = memory;
  [1, 8, BLOCKS, 1, 0x13, 2, 16, 0, 0, 0, 0, 32].forEach((v, i) => view.setUint32(4 * i, v, true));
  view.setUint32(32, part); view.setUint32(36, n / 4294967296); view.setUint32(40, n);
  head.set(seed, 48);
  const start = new Uint8Array(72);
  start.set(blake2b(head, 64));
  for (let i = 0; i < 2; i++) {
    start[64] = i;
    M.set(new Int32Array(stretch(start, 1024).buffer), 256 * i);
  }
  for (let i = 2; i < BLOCKS; i++) fill(M, 256 * (i - 1), 256 * (i < BLOCKS / 2 ? picks[i] : pick(M[256 * (i - 1)], i - 1)), 256 * i);
  return stretch(new Uint8Array(M.buffer, 1024 * (BLOCKS - 1)), 8);
}

// searchArgon is search for argon2id.
function searchArgon(job) {
  for (let n = job.from; n < job.from + job.count; n++) {
    const view = new DataView(argon2id(job.salt, job.part, n).buffer), v = view.getUint32(0);
    if (v < job.target[0] || v === job.target[0] && view.getUint32(4) < job.target[1]) return n;
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
      if (job.seed) root.postMessage({job: job.id, found: job.salt ? searchArgon(job) : search(job)});
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
    const c = read(challenge), hashes = c.algorithm === 'argon2id' ? {parts: 8, chunk: 1, each: BLOCKS} : {parts: 16, chunk: 1 << 15, each: 1};
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
    const least = BigInt(hashes.parts * hashes.each), t = c.exact <= least ? (1n << 64n) - 1n : (least << 64n) / c.exact, view = new DataView(c.seed.buffer);
    const seed = Array.from({length: 8}, (_, i) => view.getInt32(4 * i)), salt = hashes.each > 1 && c.seed, target = [Number(t >> 32n), Number(t & 0xffffffffn)];
    const parts = Array.from({length: hashes.parts}, (_, part) => ({part, next: 0, busy: 0, found: -1}));
    const open = () => parts.filter(p => p.found < 0);
    // hand gives a worker a chunk of the unsolved part that the fewest work on.
    const hand = w => {
      if (!open().length) return resolve(challenge + '.' + encode(parts.flatMap(p => [...bytesOf(BigInt(p.found), 6)])));
      const p = open().reduce((best, p) => p.busy < best.busy ? p : best);
      p.busy++;
      w.job = {id: p.part, seed, salt, target, part: p.part, from: p.next, count: hashes.chunk};
      p.next += hashes.chunk;
      w.postMessage(w.job);
    };
    const n = Math.max(1, Math.min(o.workers || (root.navigator && navigator.hardwareConcurrency) || 2, 8));
    for (let i = 0; i < n; i++) {
      const w = start();
      w.onerror = fail;
      w.onmessage = e => {
        if (e.data.error) return fail(new Error(e.data.error));
        const p = parts[e.data.job], found = e.data.found;
        p.busy--;
        if (found >= 0 && p.found < 0) p.found = found;
        // Luck has no memory: a part that is not solved yet is as far from it as at the start.
        tell((found >= 0 ? found - w.job.from + 1 : hashes.chunk) * hashes.each, open().length * c.work / hashes.parts);
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
if (typeof module === 'object' && module.exports) module.exports = {solve, read, search, sha256, logarithm, logarithmJob, argon2id};
})(typeof self !== 'undefined' ? self : globalThis);
