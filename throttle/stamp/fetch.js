// A fetch that pays: where weir answers 503 or 429 with a challenge, it solves it and asks again, with the stamp in a header. For pages of the site:
//
//   <script src="/.weir/fetch.js"></script>
//   weirFetch(input, init) -> Promise of the response, as fetch has it
//   weirFetch.install()       from now on fetch is weirFetch, for what goes to this origin
//
// A stamp is used again until the next challenge, and requests that are challenged together wait for one solution. What cannot be sent
// twice (a stream), and what cannot be paid, gets the answer of the server as it is. The policy of the page has to allow script-src and
// worker-src 'self'.
(function (root) {
'use strict';

const TRIES = 3, plain = root.fetch.bind(root), purses = new Map();
const here = document.currentScript && document.currentScript.src, address = here ? new URL('solver.js', here).href : '/.weir/solver.js';
let loading = null;

// solver loads the solver when it is needed for the first time.
function solver() {
  if (root.weirStamp) return Promise.resolve(root.weirStamp);
  return loading = loading || new Promise((resolve, reject) => {
    const script = document.createElement('script');
    script.src = address;
    script.onload = () => root.weirStamp ? resolve(root.weirStamp) : reject(new Error('stamp: the solver does not run here'));
    script.onerror = () => reject(new Error('stamp: the solver does not load'));
    document.head.append(script);
  }).catch(e => { loading = null; throw e; });
}

// unless ends a wait when the signal says so.
function unless(signal, promise) {
  return new Promise((resolve, reject) => {
    const gone = () => reject(signal.reason || new DOMException('The request was aborted.', 'AbortError'));
    if (signal.aborted) gone();
    signal.addEventListener('abort', gone);
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', gone));
  });
}

// pay solves a challenge. Nobody waits for what nobody wants any more.
function pay(purse, challenge, signal) {
  return solver().then(s => {
    const own = new AbortController(), solve = () => s.solve(challenge, {script: address, signal: own.signal});
    // A stamp for one request only is no good for another.
    if (s.read(challenge).message.length) return unless(signal, solve()).finally(() => own.abort());
    if (!purse.paying) {
      const paying = purse.paying = {waiting: 0, give: () => own.abort()};
      paying.stamp = solve().then(stamp => purse.stamp = stamp).finally(() => { purse.paying = null; });
    }
    const shared = purse.paying;
    shared.waiting++;
    return unless(signal, shared.stamp).finally(() => { if (--shared.waiting === 0) shared.give(); });
  });
}

async function weirFetch(input, init) {
  if (init && typeof ReadableStream !== 'undefined' && init.body instanceof ReadableStream) return plain(input, init);
  const request = new Request(input, init), origin = new URL(request.url).origin;
  if (!purses.has(origin)) purses.set(origin, {stamp: '', paying: null});
  const purse = purses.get(origin);
  let stamp = purse.stamp;
  for (let tries = 1; ; tries++) {
    const once = request.clone();
    if (stamp) once.headers.set('Stamp', stamp);
    const response = await plain(once), challenge = response.headers.get('Stamp-Challenge');
    if (response.status !== 503 && response.status !== 429 || !challenge || tries === TRIES) return response;
    // Somebody else may have paid meanwhile.
    if (purse.stamp && purse.stamp !== stamp) stamp = purse.stamp;
    else {
      try {
        stamp = await pay(purse, challenge, request.signal);
      } catch (e) {
        if (request.signal.aborted) throw e;
        return response;
      }
    }
    if (response.body) response.body.cancel();
  }
}

weirFetch.install = () => {
  root.fetch = (input, init) => {
    let near = false;
    try {
      near = new URL(input instanceof Request ? input.url : input, document.baseURI).origin === location.origin;
    } catch (e) { /* fetch says what is wrong with it */ }
    return near ? weirFetch(input, init) : plain(input, init);
  };
};

root.weirFetch = weirFetch;
})(self);
