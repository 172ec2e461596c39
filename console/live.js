// Keeps the page up to date: asks for it again every other second, and puts what has changed in its place. Everything else stays as it
// is, and with it the focus, what is selected, and how far one has scrolled.
(() => {
'use strict';

const at = id => document.getElementById(id), live = at('live'), alarm = at('alarm'), note = at('note'), button = at('pause');
const EVERY = 2000, CALM = 10000, PATIENCE = 10000;
const calm = matchMedia('(prefers-reduced-motion: reduce)');
let timer = 0, asking = false, paused = false, latest = new Date();

// patch makes what is shown the same as what came. What has data-keep is another script's.
function patch(shown, came) {
  for (const a of [...shown.attributes]) if (!came.hasAttribute(a.name)) shown.removeAttribute(a.name);
  for (const a of came.attributes) if (shown.getAttribute(a.name) !== a.value) shown.setAttribute(a.name, a.value);
  const had = [...shown.childNodes], has = [...came.childNodes];
  for (const [i, next] of has.entries()) {
    const old = had[i];
    if (!old) shown.append(next);
    else if (old.nodeName !== next.nodeName) old.replaceWith(next);
    else if (old.nodeType === Node.ELEMENT_NODE) old.hasAttribute('data-keep') || patch(old, next);
    else if (old.data !== next.data) old.data = next.data;
  }
  for (const old of had.slice(has.length)) old.remove();
}

// say tells how the page stands. What is said already is not said again to those who listen.
function say(text, lost) {
  note.className = lost ? 'bad' : '';
  if (note.textContent !== text) note.textContent = text;
}

const clock = () => latest.toISOString().slice(11, 19) + ' UTC'; // as everywhere on the page

function rest() {
  clearTimeout(timer);
  timer = 0;
  if (!paused && !document.hidden) timer = setTimeout(update, calm.matches ? CALM : EVERY);
}

async function update() {
  if (asking) return;
  asking = true;
  clearTimeout(timer);
  try {
    const answer = await fetch(location.href, {cache: 'no-store', signal: AbortSignal.timeout(PATIENCE)});
    if (answer.redirected) location.reload(); // the session is over: log in again
    if (!answer.ok) throw new Error(answer.status);
    const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
    if (page.documentElement.dataset.version !== document.documentElement.dataset.version) location.reload(); // another version, with another script
    if (!paused) {
      for (const part of [alarm, live]) patch(part, page.getElementById(part.id));
      document.dispatchEvent(new Event('weir:patched'));
      latest = new Date();
      say('');
    }
  } catch {
    if (!paused) say(`The connection is lost: weir does not answer. This is how it was at ${clock()}.`, true);
  }
  asking = false;
  rest();
}

button.hidden = false;
button.onclick = () => {
  paused = !paused;
  button.textContent = paused ? 'continue' : 'pause';
  if (paused) say(`Paused at ${clock()}.`);
  else update();
  rest();
};
document.addEventListener('visibilitychange', () => document.hidden ? rest() : paused || update());
rest();
})();
