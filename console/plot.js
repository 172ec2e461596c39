// Shows the values of a plot at a time: where the pointer is, or where the arrow keys lead. Without this script the figures beside the plot
// say how things are now.
(() => {
'use strict';

// read finds the points of the lines in a plot: where each is, in percent of the width, and its value.
function read(svg) {
  return [...svg.querySelectorAll('path[data-values]')].map(path => {
    const at = (path.getAttribute('d').match(/[MLH][\d.]+/g) || []).map(c => +c.slice(1));
    let last = '';
    const values = path.dataset.values.split('|').map(v => last = v || last); // left out where it is the same again
    return {name: path.dataset.name, at, values, steps: path.getAttribute('d').includes('H')};
  }).filter(l => l.at.length > 0 && l.at.length === l.values.length);
}

// before is the index of the last point that is not after a place; the value of a line of steps holds until the next.
function before(at, x) {
  let best = -1;
  for (let i = 0; i < at.length && at[i] <= x + 1e-9; i++) best = i;
  return best;
}

// nearest is the index of the point that is closest.
function nearest(at, x) {
  let best = 0;
  for (let i = 1; i < at.length; i++) if (Math.abs(at[i] - x) <= Math.abs(at[best] - x)) best = i;
  return best;
}

const probes = new Map(); // by the element that covers a plot

class Probe {
  constructor(box) {
    this.box = box;
    this.svg = box.parentElement.querySelector('svg');
    this.hair = document.createElement('i');
    this.text = document.createElement('p');
    this.keys = document.createElement('input'); // the keyboard, and whoever listens
    this.keys.type = 'range';
    this.hair.hidden = this.text.hidden = true;
    this.hair.className = 'hair';
    this.text.className = 'reading';
    box.append(this.hair, this.text, this.keys);
    this.x = null;
    box.onpointermove = box.onpointerdown = e => {
      const r = box.getBoundingClientRect();
      this.x = Math.min(100, Math.max(0, (e.clientX - r.left) / r.width * 100));
      this.show();
    };
    box.onpointerleave = () => {
      if (document.activeElement !== this.keys) this.hide();
    };
    this.keys.onfocus = () => {
      if (this.x === null) this.x = 100;
      this.show();
    };
    this.keys.oninput = () => {
      const lines = read(this.svg);
      if (lines.length) this.x = this.longest(lines).at[+this.keys.value];
      this.show();
    };
    this.keys.onkeydown = e => {
      if (e.key === 'Escape') this.hide();
    };
    this.keys.onblur = () => this.hide();
    this.update();
  }

  longest(lines) { return lines.reduce((a, b) => b.at.length > a.at.length ? b : a); }

  // update follows a plot that has changed.
  update() {
    this.svg = this.box.parentElement.querySelector('svg');
    const lines = read(this.svg);
    this.keys.hidden = lines.length === 0;
    if (!lines.length) return this.hide();
    const long = this.longest(lines);
    this.keys.max = long.at.length - 1;
    this.keys.value = nearest(long.at, this.x ?? 100);
    this.keys.setAttribute('aria-label', `Values over time: ${this.svg.getAttribute('aria-label').split(':')[0]}`);
    this.say(lines);
    if (!this.text.hidden) this.show();
  }

  // say writes the values at the place that was chosen, and returns where that is.
  say(lines) {
    const long = this.longest(lines), chosen = this.x ?? 100;
    const x = lines.every(l => l.steps) ? Math.max(chosen, Math.min(...lines.map(l => l.at[0]))) : long.at[nearest(long.at, chosen)];
    const seconds = +this.svg.dataset.seconds, time = new Date(+this.svg.dataset.ends - (100 - x) / 100 * seconds * 1000);
    const near = 100 / seconds; // lines of one plot have points at the same times, unless a value is not known
    const said = lines.map(l => {
      const k = l.steps ? before(l.at, x) : nearest(l.at, x);
      const value = k >= 0 && (l.steps || Math.abs(l.at[k] - x) <= near) ? l.values[k] : '–';
      return l.name ? `${l.name} ${value}` : value;
    });
    const text = `${time.toISOString().slice(11, 19)} UTC: ${said.join(', ')}`;
    this.keys.setAttribute('aria-valuetext', text);
    this.text.textContent = text;
    return x;
  }

  show() {
    const lines = read(this.svg);
    if (!lines.length) return;
    const x = this.say(lines);
    this.keys.value = nearest(this.longest(lines).at, x);
    this.hair.style.left = `${x}%`;
    this.text.classList.toggle('left', x > 50);
    this.hair.hidden = this.text.hidden = false;
  }

  hide() {
    this.x = null;
    this.hair.hidden = this.text.hidden = true;
  }
}

function look() {
  for (const [box, probe] of probes) box.isConnected ? probe.update() : probes.delete(box);
  for (const box of document.querySelectorAll('.probe')) if (!probes.has(box)) probes.set(box, new Probe(box));
}

document.addEventListener('weir:patched', look);
look();
})();
