// The page that asks for a stamp: does the work, keeps the cookie, and repeats the request. What it needs to know stands at its script element.
// The gate writes every text that is given to word in the language of the page.
(function () {
'use strict';

const d = document.currentScript.dataset, at = id => document.getElementById(id), title = document.title, began = Date.now();
const MINUTE = 60000, STAYS = 3000, CROSS = '-cross', key = 'weir ' + location.pathname + location.search;
const still = window.matchMedia && matchMedia('(prefers-reduced-motion: reduce)').matches;
let over = false;

function show(id, on) { at(id).hidden = !on; }

// say tells something new, also to those who listen; a quiet word is for them alone.
function say(text, quiet) {
  at('news').className = quiet ? 'quiet' : '';
  at('news').textContent = text;
}

function offer(label, press) {
  at('go').textContent = label;
  at('go').onclick = press;
  show('act', true);
}

// stop ends all that goes on by itself: from here on it takes a button.
function stop(text, label, press) {
  over = true;
  show('work', false);
  show('why', false);
  show('line', false);
  document.title = at('head').textContent;
  say(text);
  offer(label, press);
}

function back() {
  if (history.length > 1) history.back();
  else location.assign(document.referrer || '/');
}

// stayed is for a page that is still here: the answer takes its time, or it was a download, of which no page ever hears.
function stayed() {
  at('head').textContent = word('Your request is on its way');
  stop(word('If it is for a download, that starts by itself, and you can go back then. A page opens as soon as it is here.'), word('Go back'), back);
}

// repeat makes the request again, as it was. What was not kept is not here to be sent, and a reload might send it by itself.
function repeat() {
  if ('lost' in d) return stop(word('Please go back, and send it again.'), word('Go back'), back);
  setTimeout(stayed, STAYS);
  // A field may be called submit.
  if ('post' in d) HTMLFormElement.prototype.submit.call(at('again'));
  else location.reload();
}

// cookie is the stamp that is there, in the cookie or in its twin.
function cookie() {
  const all = document.cookie.split('; '), of = name => all.filter(c => c.indexOf(name + '=') === 0).map(c => c.slice(name.length + 1))[0];
  return of(d.cookie) || of(d.cookie + CROSS) || '';
}

// setCookie also sets the twin, where the page may be within another site's.
function setCookie(name, value, age) {
  const rest = '=' + value + '; Path=/; Max-Age=' + age + ('secure' in d ? '; Secure' : '');
  document.cookie = name + rest + '; SameSite=Lax';
  if ('cross' in d) document.cookie = name + CROSS + rest + '; SameSite=None; Secure; Partitioned';
}

// takesCookies finds out before any work is done in vain. Reading a cookie may throw as well.
function takesCookies() {
  try {
    const name = d.cookie + '-try' + Math.random().toString(36).slice(2); // another tab may try, too
    setCookie(name, 1, 60);
    const taken = document.cookie.indexOf(name) >= 0;
    setCookie(name, 0, 0);
    return taken;
  } catch (e) { return false; }
}

function noCookies() {
  if (window.top !== window && !('post' in d || 'lost' in d)) {
    at('head').textContent = word('Please open this page by itself');
    return stop(word('This site is busy. Its page is shown inside another one, where your browser takes no cookies from it. Without one it cannot remember your place, or that the work was done.'), word('Open it in its own tab'), () => open(location.href, '_blank', 'noopener'));
  }
  at('head').textContent = word('Cookies are off');
  stop(word('This site is busy, and your browser takes no cookies from it. Without one it cannot remember your place, or that the work was done. Please allow cookies for this site, and try again.'), word('Try again'), repeat);
}

// paidAt are the times at which the work was done for this address within the last minute. A browser may refuse to store them.
function paidAt() {
  try { return JSON.parse(sessionStorage.getItem(key) || '[]').filter(t => began - t < MINUTE && t <= began); } catch (e) { return []; }
}

function remember(times) {
  try { sessionStorage.setItem(key, JSON.stringify(times)); } catch (e) { /* then nobody counts */ }
}

// paid goes on with the stamp in the cookie.
function paid() {
  over = true;
  remember(paidAt().concat(Date.now()));
  if (!('lost' in d)) {
    draw(100, word('Done.'));
    document.title = word('Done') + ' – ' + title;
    return repeat();
  }
  at('head').textContent = word('You can go on now');
  stop(word('The work is done. Please go back, and send it again within the next minutes.'), word('Go back'), back);
}

// wait is for those who cannot pay: the place in line, and from time to time the question whether it is their turn.
function wait(why) {
  if (over) return;
  over = true;
  show('work', false);
  show('line', true);
  document.title = title;
  say(why || '');
  if ('lost' in d) return offer(word('Go back'), back);
  if (d.reload > 0) setTimeout(repeat, d.reload * 1000);
  else offer(word('Try again'), repeat);
}

// draw says how far the work is, everywhere at once.
function draw(percent, left) {
  at('bar').value = percent / 100;
  at('percent').textContent = percent + ' %';
  at('left').textContent = left;
  document.title = percent + ' % – ' + title;
}

function inWords(seconds) {
  if (seconds < 1.5) return word('almost done');
  if (seconds < 100) return word('about {n} seconds left').replace('{n}', Math.round(seconds));
  return word('about {n} minutes left').replace('{n}', Math.round(seconds / 60));
}

function work() {
  const lifetime = weirStamp.read(d.puzzle).lifetime, before = cookie(), leave = new AbortController();
  const channel = 'shared' in d && window.BroadcastChannel ? new BroadcastChannel('weir-stamp') : null;
  let percent = 0, left = '', told = 0;
  const progress = (part, done, expected) => {
    const before = percent;
    percent = Math.floor(part * 100);
    left = inWords((Date.now() - began) / 1000 * (expected - done) / done);
    if (!still && !over && percent > before) draw(percent, left);
  };
  // look is where another tab may have paid, where a laptop may have slept, and where the page says how far it is.
  const look = () => {
    if (over) return clearInterval(clock);
    if (Date.now() - began > lifetime) { over = true; leave.abort(); return repeat(); }
    if ('shared' in d && cookie() && cookie() !== before) { leave.abort(); return paid(); }
    if (!left) return;
    draw(percent, left);
    // Whoever listens hears of each quarter, not of each second.
    if (percent >= told + 25) {
      told = percent - percent % 25;
      say(word('{n} % done').replace('{n}', told), true);
    }
  };
  const clock = setInterval(look, 1000);
  setTimeout(look, 300);
  document.addEventListener('visibilitychange', look);
  if (channel) channel.onmessage = look;
  show('work', true);
  weirStamp.solve(d.puzzle, {workers: Math.min(navigator.hardwareConcurrency || 2, 8), progress, signal: leave.signal}).then(stamp => {
    if (over) return;
    if (Date.now() - began > lifetime) { over = true; return repeat(); }
    setCookie(d.cookie, stamp, d.age);
    if (!cookie()) return noCookies(); // it may be another tab's by now
    if (channel) channel.postMessage(1);
    paid();
  }).catch(() => wait(word('Your browser cannot do the work, so you wait in line instead.')));
}

// A page that comes out of the browser's memory has done its work.
window.addEventListener('pageshow', e => { if (e.persisted) 'post' in d || 'lost' in d ? stop(word('The work is done.'), word('Go on'), repeat) : repeat(); });

if (!takesCookies()) return noCookies();
if (!d.puzzle) return wait();
if (paidAt().length >= 5) {
  at('head').textContent = word('Something is not right');
  return stop(word('Your device has done the work five times within a minute, and was asked for it again each time. That is a fault of the site or of something on the way to it, and not yours. Please wait a minute, and try again.'), word('Try again'), () => { remember([]); repeat(); });
}
try { work(); } catch (e) { wait(word('Your browser cannot do the work, so you wait in line instead.')); }
})();
