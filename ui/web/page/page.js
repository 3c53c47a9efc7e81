// The page: asks /v1/house/changes for the picture and keeps it up to date. All that comes from the
// host is put in place as text (textContent, attributes), never as markup.
'use strict';
(() => {
const $ = (id) => document.getElementById(id);
const SVG = 'http://www.w3.org/2000/svg';
let house = null, picked = null, opener = null, token = '', lastSaid = 0, lastState = '';

// ---- small things ----
// Control characters and marks that turn the direction of writing are shown as they are written.
const clean = (s) => String(s ?? '').replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g, (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));
function el(name, attributes = {}, ...inside) {
  const e = document.createElement(name);
  for (const [k, v] of Object.entries(attributes)) if (v != null && v !== false) k === 'class' ? e.className = v : k.startsWith('on') ? e.addEventListener(k.slice(2), v) : e.setAttribute(k, v === true ? '' : v);
  for (const x of inside.flat(Infinity)) if (x != null) e.append(x.nodeType ? x : clean(x));
  return e;
}
function draw(name, attributes = {}, text) {
  const e = document.createElementNS(SVG, name);
  for (const [k, v] of Object.entries(attributes)) if (v != null) e.setAttribute(k, v);
  if (text != null) e.textContent = clean(text);
  return e;
}
const percent = (x) => x == null ? '–' : Math.round(100 * x) + ' %';
const number = (x) => x == null ? '–' : x >= 10 ? Math.round(x).toString() : (Math.round(10 * x) / 10).toString();
function size(kib) {
  if (kib == null || kib < 0) return '–';
  const units = ['KiB', 'MiB', 'GiB', 'TiB'];
  let u = 0;
  while (kib >= 1000 && u < 3) { kib /= 1024; u++; }
  return (kib >= 100 ? Math.round(kib) : Math.round(10 * kib) / 10) + ' ' + units[u];
}
const bytes = (b) => size(b / 1024);
const traffic = (mib, digits) => (mib * 1.048576 / 1000).toFixed(digits) + ' GB/s';
const seconds = (s) => s == null ? '' : s < 90 ? Math.ceil(s) + ' s' : Math.round(s / 60) + ' min';
const many = (n, noun) => n + ' ' + noun + (n === 1 ? '' : 's');
function list(text) { // "0-3,8"
  const out = [];
  for (const part of (text || '').split(',')) {
    const [a, b] = part.split('-').map(Number);
    if (part !== '') for (let i = a; i <= (b ?? a); i++) out.push(i);
  }
  return out;
}
const lookOf = (r) => ({'at home': 'home', 'moving': 'moving', 'paused': 'moving', 'would move': 'away', 'queued': 'away', 'failed': 'trouble', 'no room': 'trouble', 'no answer': 'trouble', 'held': 'held'}[r.state] || 'home');

// ---- asking ----
const headers = () => token ? {Authorization: 'Bearer ' + token} : {};
async function ask(path, body) {
  const r = await fetch(path, {headers: headers(), cache: 'no-store', ...(body ? {method: 'POST', body: JSON.stringify(body)} : {})});
  const answer = await r.json();
  if (!r.ok) throw new Error(answer.error || r.statusText);
  return answer;
}
function takeToken() {
  if (location.hash.length > 16) {
    token = decodeURIComponent(location.hash.slice(1));
    history.replaceState(null, '', location.pathname);
    try { sessionStorage.setItem('token', token); } catch {}
  } else try { token = sessionStorage.getItem('token') || ''; } catch {}
}
let stream = null;
async function live() {
  let wait = 500;
  for (;;) {
    if (document.hidden) { await new Promise((go) => document.addEventListener('visibilitychange', go, {once: true})); continue; }
    stream = new AbortController();
    try {
      const r = await fetch('/v1/house/changes', {headers: headers(), cache: 'no-store', signal: stream.signal});
      if (r.status === 401) { $('ask').hidden = false; $('first').hidden = true; $('token').focus(); await new Promise((go) => $('ask').addEventListener('submit', go, {once: true})); continue; }
      if (!r.ok) throw new Error(r.status);
      $('ask').hidden = true; $('first').hidden = false;
      const reader = r.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = '';
      for (;;) {
        const {value, done} = await reader.read();
        if (done) break;
        const parts = (rest + value).split('\n\n');
        rest = parts.pop();
        for (const part of parts) {
          const m = /^event: (\w+)\ndata: ([^]*)$/.exec(part);
          if (!m) continue;
          wait = 500;
          if (m[1] === 'house') take(JSON.parse(m[2]));
          else if (m[1] === 'change' && house) change(JSON.parse(m[2]));
        }
      }
    } catch (e) { if (e.name !== 'AbortError') console.info('the stream has ended:', e.message); }
    online(false);
    if (!document.hidden) await new Promise((go) => setTimeout(go, wait));
    wait = Math.min(wait * 2, 15000);
  }
}
function online(on) { $('live').textContent = on ? 'live' : 'not connected: what was seen last'; $('live').classList.toggle('on', on); }
function take(h) { house = h; online(true); soon(); }
function change(c) {
  if (c.seq !== house.seq + 1) { stream.abort(); return; }
  house.seq = c.seq; house.time = c.time;
  for (const k of ['mode', 'held', 'summary', 'trend', 'machine', 'flows']) if (c[k] != null) house[k] = c[k];
  const byID = (old, now) => { const m = new Map(old.map((x) => [x.id, x])); for (const x of now) m.set(x.id, x); return m; };
  if (c.nodes) house.nodes = [...byID(house.nodes, c.nodes).values()];
  if (c.residents || c.gone) { const m = byID(house.residents, c.residents || []); for (const id of c.gone || []) m.delete(id); house.residents = [...m.values()]; }
  if (c.events) house.events = house.events.concat(c.events).slice(-60);
  online(true);
  soon();
}
let waiting = false;
function soon() { if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; show(); }); } }

// ---- the whole page ----
function show() {
  const h = house, s = h.summary;
  document.title = (s.state === 'at home' ? '' : s.state + ' · ') + (h.host || 'homenode');
  $('host').textContent = clean(h.host || 'homenode');
  $('mode').textContent = h.held ? 'held' : h.mode + ' mode';
  $('mode').className = 'badge ' + h.mode;
  $('version').textContent = 'homenode ' + clean(h.version);
  big(h, s);
  if ($('headline').textContent !== clean(s.headline)) $('headline').textContent = clean(s.headline);
  $('headline').className = s.state === 'trouble' ? 'trouble' : '';
  if (s.state !== lastState && Date.now() - lastSaid > 10000) { $('announce').textContent = clean(s.headline); lastState = s.state; lastSaid = Date.now(); }
  figures(s);
  $('problems').hidden = !s.problems.length;
  $('problems').replaceChildren(...s.problems.map((p) => el('li', {}, p)));
  picture(); yard(); away(); timeline(); latency();
}
// big is the one figure that says how well it goes, what came of it since the start, and its curve.
function big(h, s) {
  const t = h.trend, known = s.locality != null, local = $('local');
  local.textContent = percent(s.locality);
  local.className = known ? (s.locality < .9 ? 'less' : '') : 'none';
  $('local-of').textContent = known ? 'of the memory accesses of online work are local' + (s.locality_after > s.locality ? ', ' + percent(s.locality_after) + ' by plan' : '') : 'no online work whose memory accesses are known';
  $('trend').hidden = !t;
  const passed = t ? (new Date(h.time) - new Date(t.since)) / 1000 : 0;
  $('since').textContent = !t ? '' : ['since start, ' + lasting(passed) + (t.local_at_start != null && known && !(house.nodes.length === 1 && t.local_at_start >= 0.995) ? ': ' + Math.round(100 * t.local_at_start) + ' → ' + percent(s.locality) + ' local' : ''),
    h.mode !== 'enforce' ? 'homenode only watches' : t.moves ? many(t.moves, 'page move') + ', ' + bytes(t.moved_bytes) : 'no page moves'].join(' · ');
  if (t) curveOf(t, h, s);
}
const lasting = (s) => s < 120 ? Math.round(s) + ' s' : s < 7200 ? Math.round(s / 60) + ' min' : Math.round(s / 3600) + ' h';
function curveOf(t, h, s) {
  const svg = $('curve'), width = Math.max(200, svg.clientWidth), height = 112, left = 40, right = 8, top = 8, bottom = 20;
  const from = +new Date(t.from), now = +new Date(h.time), until = Math.max(now, from + 60000);
  const x = (at) => left + (width - left - right) * (at - from) / (until - from), y = (v) => top + (height - top - bottom) * (1 - v);
  const timed = (values) => values.map((v, i) => [from + i * t.step_s * 1000, v]).filter(([at]) => at <= now);
  const points = timed(t.local);
  points.push([now, s.locality]);
  const unbroken = (points) => {
    const runs = [];
    let run = null;
    for (const [at, v] of points) {
      if (v == null) { run = null; continue; }
      if (!run) runs.push(run = []);
      run.push([x(at), y(Math.min(1, Math.max(0, v)))]);
    }
    return runs.filter((r) => r.length > 1);
  };
  const runs = unbroken(points), slack = unbroken(timed(t.slack || []));
  $('slack').hidden = !slack.length;
  const path = (r) => 'M' + r.map(([a, b]) => a.toFixed(1) + ' ' + b.toFixed(1)).join('L');
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  svg.setAttribute('aria-label', `Local share of online work since ${clock(t.from)}: ${percent(points[0][1])} then, ${percent(s.locality)} now; ${many(t.moved_at.length, 'page move')} ended`);
  svg.replaceChildren(
    ...[0, .5, 1].flatMap((v) => [draw('path', {class: 'grid', d: `M${left} ${y(v)}H${width - right}`}), draw('text', {x: left - 6, y: y(v) + 4, 'text-anchor': 'end'}, Math.round(100 * v) + ' %')]),
    draw('text', {x: left, y: height - 4}, clock(t.from)), draw('text', {x: x(now), y: height - 4, 'text-anchor': x(now) > width - 60 ? 'end' : 'middle'}, x(now) - left > 90 ? 'now' : ''),
    ...slack.map((r) => draw('path', {class: 'slack', d: path(r)})),
    ...runs.flatMap((r) => [draw('path', {class: 'area', d: path(r) + `L${r[r.length - 1][0]} ${y(0)}L${r[0][0]} ${y(0)}Z`}), draw('path', {class: 'line', d: path(r)})]),
    ...t.moved_at.map((at) => draw('path', {class: 'tick', d: `M${x(+new Date(at)).toFixed(1)} ${y(0)}v-9`})));
}
function figures(s) {
  const rows = [['Online work at home', s.at_home, ' of ' + s.workloads],
    ['Moving', s.moving, s.waiting ? ' · ' + s.waiting + ' to come' : ''],
    ['CPUs busy', number(s.cpu_use), ' of ' + s.cpus], ['Memory used', size(s.used_kib), ' of ' + size(s.memory_kib)]];
  if (s.goal) rows.push(['Latency goal', clean(s.goal), '']);
  if (s.batch) rows.push(['Batch work', s.batch, ' · ' + number(s.batch_cpus) + ' CPUs busy']);
  if (s.trouble) rows.push(['Failed or no room', s.trouble, '']);
  if (s.left_alone) rows.push(['Left alone', s.left_alone, '']);
  keep($('figures'), rows, (r) => r[0], () => el('div', {}, el('dt'), el('dd')), (e, [name, value, more]) => {
    e.firstChild.textContent = name;
    const text = value + more;
    if (e.lastChild.textContent !== text) e.lastChild.replaceChildren(String(value), el('small', {}, more));
  });
}
// keep makes the children of parent those of items, by key, and touches no more than it must.
function keep(parent, items, key, make, update) {
  const have = new Map([...parent.children].map((c) => [c.dataset.key, c]));
  let at = parent.firstChild;
  for (const item of items) {
    const k = String(key(item));
    let e = have.get(k);
    if (!e) { e = make(item); e.dataset.key = k; }
    have.delete(k);
    update(e, item);
    if (e === at) at = at.nextSibling; else parent.insertBefore(e, at);
  }
  for (const e of have.values()) e.remove();
}

// ---- the picture ----
const PAD = 10, GAP = 14;
let rooms = new Map(), size0 = 0;
function squarify(items, x, y, w, h, out) { // Bruls, Huizing, van Wijk: Squarified Treemaps
  items = items.slice().sort((a, b) => b.value - a.value || (a.key < b.key ? -1 : 1));
  const total = items.reduce((t, i) => t + i.value, 0);
  if (!(total > 0) || w <= 0 || h <= 0) return;
  const scale = w * h / total;
  while (items.length) {
    const side = Math.min(w, h);
    let row = [], area = 0, worst = Infinity;
    for (const i of items) {
      const a = area + i.value * scale;
      const most = Math.max(...[...row, i].map((r) => { const s = r.value * scale; return Math.max(side * side * s / (a * a), a * a / (side * side * s)); }));
      if (most > worst) break;
      row.push(i); area = a; worst = most;
    }
    items = items.slice(row.length);
    const depth = area / side;
    let at = 0;
    for (const i of row) {
      const length = i.value * scale / depth;
      out.push(w >= h ? {item: i, x, y: y + at, w: depth, h: length} : {item: i, x: x + at, y, w: length, h: depth});
      at += length;
    }
    if (w >= h) { x += depth; w -= depth; } else { y += depth; h -= depth; }
  }
}
function floors(width) { // where every room is
  const m = house.machine, packages = m.packages, most = Math.max(1, ...packages.map((p) => p.nodes.length)), least = 188;
  const fit = Math.max(1, Math.floor((width - 2 * PAD) / least));
  let columns = Math.min(most, fit);
  for (let c = columns; c > columns / 2; c--) if (most % c === 0) { columns = c; break; }
  const abreast = Math.max(1, Math.min(packages.length, Math.floor(width / (columns * least + 2 * PAD))));
  const each = (width - (abreast - 1) * GAP) / abreast, w = (each - 2 * PAD - (columns - 1) * GAP) / columns;
  const out = {rooms: new Map(), packages: []};
  const line = house.nodes.some((n) => n.sharing) ? 18 : 0; // what batch work has of it
  let y = 30, deepest = 0;
  packages.forEach((p, i) => {
    const x = (i % abreast) * (each + GAP);
    if (i && i % abreast === 0) { y += deepest + GAP; deepest = 0; }
    let ry = y + 26, rowHeight = 0;
    p.nodes.forEach((id, k) => {
      if (k && k % columns === 0) { ry += rowHeight + GAP; rowHeight = 0; }
      const room = m.rooms.find((r) => r.id === id), count = room.llcs.reduce((t, l) => t + l.length, 0);
      const pitch = Math.max(count > 64 ? 6 : 8, Math.min(20, Math.floor((w - 20) / (count + room.llcs.length)))), perRow = Math.max(1, Math.floor((w - 20) / pitch)), lines = Math.ceil((count + room.llcs.length - 1) / perRow);
      const body = tall(id, room, w - 20), top = 68 + line + lines * 14 + 6;
      out.rooms.set(id, {id, room, x: x + PAD + (k % columns) * (w + GAP), y: ry, w, h: top + body + 8, top, body, pitch, perRow, line, i: k});
      rowHeight = Math.max(rowHeight, top + body + 8);
    });
    for (const r of out.rooms.values()) { // rooms of one floor are as tall as the tallest
      const beside = [...out.rooms.values()].filter((o) => o.y === r.y), h = Math.max(...beside.map((o) => o.h));
      r.body += h - r.h; r.h = h;
    }
    const height = ry + rowHeight + PAD - y;
    out.packages.push({id: p.id, x, y, w: each, h: height});
    deepest = Math.max(deepest, height);
  });
  out.height = y + deepest + 4;
  return out;
}
// ---- tiles that have room for their names ----
const ruler = document.createElement('canvas').getContext('2d'), widths = new Map();
function textWidth(text, px) {
  const k = px + text;
  if (!widths.has(k)) { if (widths.size > 5000) widths.clear(); ruler.font = px + 'px ' + getComputedStyle(document.body).fontFamily; widths.set(k, ruler.measureText(text).width); }
  return widths.get(k);
}
// wrap breaks a name into lines of so many pixels behind its signs; null where a part is too long
// for that, unless parts may be broken too.
function wrap(text, width, px, anywhere) {
  const lines = [];
  let line = '';
  for (const part of text.match(/[^\/:._@\s-]*[\/:._@\s-]|[^\/:._@\s-]+/g) || []) {
    if (textWidth(line + part, px) <= width) { line += part; continue; }
    if (line) { lines.push(line); line = ''; }
    if (!anywhere && textWidth(part, px) > width) return null;
    for (const c of part) {
      if (line && textWidth(line + c, px) > width) { lines.push(line); line = ''; }
      line += c;
    }
  }
  if (line) lines.push(line);
  return lines;
}
// written is how a name stands in a tile: in lines, upright where that has more room; null where it does not fit.
function written(text, w, h) {
  for (const anywhere of [false, true]) for (const px of [12, 11, 10, 9]) for (const [a, b, turned] of h > 1.6 * w ? [[w, h, false], [h, w, true]] : [[w, h, false]]) {
    const step = px + 1.5, lines = wrap(text, a - 8, px, anywhere);
    if (lines && lines.length * step <= b - 6) return {px, step, lines, turned, broken: anywhere};
  }
  return null;
}
const labelOf = (r) => r.count > 1 ? `${r.count} in ${clean(r.name)}` : clean(r.name.startsWith('/') ? r.name.replace(/^.*\//, '') || r.name : r.name);
const isBatch = (r) => r.class === 'batch';
// homeOf is the nodes of a home and, where it is confined to some of their last-level caches, those.
const homeOf = (w) => 'node ' + w.home + (w.caches ? (/[,-]/.test(w.caches) ? ', caches ' : ', cache ') + w.caches : '');
const livesIn = (id) => house.residents.filter((x) => !isBatch(x) && x.home !== '' && list(x.home).includes(id));
// laid is where the tiles of a room are: as large as their vCPUs and memory, and at least as their names need.
function laid(id, room, x, y, w, h) {
  const memory = Math.max(1, room.memory_kib), all = [], out = [];
  for (const r of livesIn(id)) {
    const n = list(r.home).length, share = (r.cpus / n / Math.max(1, room.cpus) + r.memory_kib / n / memory) / 2;
    all.push({key: r.id, r, n, share, need: (textWidth(labelOf(r), 11) + 40) * 22 / Math.max(1, w * h)});
  }
  const sum = all.reduce((t, i) => t + i.share, 0);
  for (const i of all) i.value = Math.max(i.share / Math.max(sum, 1e-9), i.need);
  squarify(all, x, y, w, h, out);
  return out;
}
// tall is the height at which each name of a room fits its tile.
const heights = new Map();
function tall(id, room, w) {
  const all = livesIn(id), key = [id, Math.round(w), ...all.map((r) => r.id + r.cpus + '.' + Math.round(r.memory_kib / (1 << 19)))].join();
  if (heights.has(key)) return heights.get(key);
  let h = Math.max(120, Math.min(210, w * .8));
  const fits = (how) => how && (h > 320 || !how.broken && how.px > 9); // a name is broken within a part only where a room would be very tall
  for (; h < 1600; h *= 1.12) if (laid(id, room, 0, 0, w, h - 4).every((t) => fits(written(labelOf(t.item.r), t.w - 2, t.h - 6)))) break;
  if (heights.size > 500) heights.clear();
  heights.set(key, Math.ceil(h));
  return Math.ceil(h);
}
function picture() {
  const svg = $('picture'), width = Math.max(300, svg.clientWidth || svg.parentNode.clientWidth);
  const plan = floors(width);
  rooms = plan.rooms;
  size0 = width;
  svg.setAttribute('viewBox', `0 0 ${width} ${plan.height}`);
  svg.style.height = plan.height + 'px';
  if (!svg.firstChild) for (const c of ['back', 'rooms', 'tiles', 'flows', 'ways']) svg.append(draw('g', {class: c}));
  const [back, roomsG, tilesG, flowsG, waysG] = svg.children;
  const backOf = [{k: 'roof'}, ...plan.packages.map((p) => ({k: 'p' + p.id, p}))];
  keep(back, backOf, (b) => b.k, (b) => { const g = draw('g'); if (b.p) g.append(draw('rect', {class: 'package', rx: 10}), draw('text', {class: 't-quiet'})); else g.append(draw('path', {class: 'roof'})); return g; }, (g, b) => {
    if (!b.p) { g.firstChild.setAttribute('d', `M2 26 L${width / 2} 4 L${width - 2} 26`); return; }
    const [r, t] = g.children;
    set(r, {x: b.p.x + .5, y: b.p.y + .5, width: b.p.w - 1, height: b.p.h});
    set(t, {x: b.p.x + PAD + 2, y: b.p.y + 18});
    t.textContent = b.p.id < 0 ? 'over several packages' : 'package ' + b.p.id;
  });
  keep(roomsG, [...rooms.values()], (r) => r.id, makeRoom, updateRoom);
  tiles(tilesG);
  flows(flowsG, waysG);
}
const set = (e, attributes) => { for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v); };
function makeRoom(r) {
  const g = draw('g', {class: 'room', role: 'group', tabindex: -1});
  g.append(draw('rect', {class: 'wall', rx: 8}), draw('text', {class: 't-name'}), draw('text', {class: 't-quiet', 'text-anchor': 'end'}),
    draw('text', {class: 't-quiet'}), draw('rect', {class: 'track', rx: 2}), draw('rect', {class: 'cpu', rx: 2}),
    draw('text', {class: 't-quiet'}), draw('rect', {class: 'track', rx: 2}), draw('rect', {class: 'mem', rx: 2}), draw('g'), draw('rect', {class: 'floor', rx: 5}), draw('text', {class: 't-quiet sharing'}), draw('text', {class: 't-quiet', 'text-anchor': 'middle'}));
  g.addEventListener('focus', () => roam(g));
  g.addEventListener('click', (e) => { if (e.target.closest('.tile') == null) openRoom(r.id); });
  hint(g, () => roomHint(r.id));
  return g;
}
const sharing = (s) => `batch work keeps ${number(s.used)} of its ${list(s.given).length} CPUs busy, online work ${number(s.online)}`;
// The tier says more than the class where somebody has chosen it.
const rank = (r) => r.class + (r.tier && r.tier !== {dedicated: 'online-strict', shared: 'normal', batch: 'batch'}[r.class] ? ', ' + r.tier : '');
const nodeOf = (id) => house.nodes.find((n) => n.id === id) || {};
function updateRoom(g, r) {
  const n = nodeOf(r.id), [wall, name, count, cpuT, cpuTrack, cpu, memT, memTrack, mem, cores, floor, batch, free] = g.children, wide = r.w - 20, half = (wide - 10) / 2;
  set(wall, {x: r.x, y: r.y, width: r.w, height: r.h});
  set(name, {x: r.x + 10, y: r.y + 20}); name.textContent = 'node ' + r.id + (r.room.kind === 'special' ? ' · memory only' : '');
  set(count, {x: r.x + r.w - 10, y: r.y + 20}); count.textContent = n.bandwidth_mib_s ? traffic(n.bandwidth_mib_s, 1) : '';
  const bar = (t, track, b, x, text, share) => {
    set(t, {x, y: r.y + 40}); t.textContent = text;
    set(track, {x, y: r.y + 46, width: half, height: 6}); set(b, {x, y: r.y + 46, width: Math.max(0, Math.min(1, share || 0)) * half, height: 6});
  };
  bar(cpuT, cpuTrack, cpu, r.x + 10, number(n.cpu_use) + '/' + r.room.cpus + ' CPUs', n.cpu_use / (r.room.cpus || 1));
  bar(memT, memTrack, mem, r.x + 20 + half, size(n.used_kib).replace(' GiB', '') + '/' + size(r.room.memory_kib), n.used_kib / r.room.memory_kib);
  const s = n.sharing;
  set(batch, {x: r.x + 10, y: r.y + 67}); batch.textContent = s ? [`batch ${number(s.used)} of ${list(s.given).length} CPUs · online ${number(s.online)}`, `batch ${number(s.used)}/${list(s.given).length} · online ${number(s.online)}`].find((t, i) => i || textWidth(t, 11) <= wide) : '';
  g.classList.toggle('wrong', !!n.wrong);
  g.setAttribute('aria-label', `Node ${r.id}: ${many(n.workloads || 0, 'workload')}, ${number(n.cpu_use)} of ${r.room.cpus} CPUs busy, ${size(n.used_kib)} of ${size(r.room.memory_kib)} used` + (s ? ', ' + sharing(s) : ''));
  const sign = [r.x, r.y + r.line, r.perRow, r.pitch, n.dedicated, n.partition].join();
  if (cores.dataset.sign !== sign) {
    cores.dataset.sign = sign;
    const own = new Set(list(n.dedicated)), kept = new Set(list(n.partition)), all = [];
    let at = 0;
    for (const llc of r.room.llcs) {
      for (const core of llc) {
        const x = r.x + 10 + (at % r.perRow) * r.pitch, y = r.y + 62 + r.line + Math.floor(at / r.perRow) * 14, h = (11 - (core.length - 1)) / core.length;
        core.forEach((c, k) => all.push(draw('rect', {class: 'core' + (own.has(c) ? ' d' : kept.has(c) ? ' p' : ''), x, y: y + k * (h + 1), width: r.pitch - 2, height: h, rx: 1})));
        at++;
      }
      at++; // a gap between caches
    }
    cores.replaceChildren(...all);
  }
  set(floor, {x: r.x + 8, y: r.y + r.top, width: r.w - 16, height: r.body});
  set(free, {x: r.x + r.w / 2, y: r.y + r.top + r.body - 8});
}
function tiles(g) {
  const all = [];
  for (const r of rooms.values()) {
    const boxes = laid(r.id, r.room, r.x + 10, r.y + r.top + 2, r.w - 20, r.body - 4);
    const freeLabel = g.parentNode.children[1].querySelector(`[data-key="${r.id}"]`)?.lastChild;
    if (freeLabel) freeLabel.textContent = boxes.length ? '' : r.room.cpus ? 'no workload has its home here' : 'memory only';
    for (const t of boxes) all.push({key: t.item.n > 1 ? t.item.r.id + '@' + r.id : t.item.r.id, r: t.item.r, x: t.x + 1, y: t.y + 1, w: Math.max(2, t.w - 2), h: Math.max(2, t.h - 2), room: r.id, split: t.item.n > 1});
  }
  keep(g, all, (t) => t.key, makeTile, updateTile);
}
function makeTile(t) {
  const g = draw('g', {class: 'tile', role: 'button', tabindex: -1});
  g.append(draw('rect', {class: 'body', rx: 3}), draw('rect', {class: 'remote'}), draw('g', {class: 'label'}), draw('text', {class: 't-quiet'}));
  const id = t.r.id;
  g.addEventListener('click', (e) => { e.stopPropagation(); open(id, g); });
  g.addEventListener('focus', () => roam(g));
  hint(g, () => tileHint(id));
  return g;
}
function updateTile(g, t) {
  const [body, remote, name, more] = g.children, r = t.r, look = lookOf(r);
  g.style.transform = `translate(${t.x}px,${t.y}px)`;
  g.dataset.room = t.room; g.dataset.id = r.id;
  g.setAttribute('class', `tile s-${look}${r.state === 'left alone' ? ' alone' : ''}${picked === r.id ? ' picked' : ''}`);
  body.setAttribute('class', 'body ' + r.class);
  set(body, {width: t.w, height: t.h});
  const away = r.locality == null ? 0 : 1 - r.locality, done = r.move && r.move.planned ? r.move.moved / r.move.planned : null;
  remote.setAttribute('class', done != null ? 'done' : 'remote');
  set(remote, {x: 1, y: t.h - 4, width: Math.max(0, (t.w - 2) * (done ?? (away > .03 ? away : 0))), height: 3});
  const label = labelOf(r), how = written(label, t.w, t.h - 4), sign = how ? [how.px, how.turned, Math.round(t.w), ...how.lines].join('\n') : '';
  if (name.dataset.sign !== sign) {
    name.dataset.sign = sign;
    name.replaceChildren(...(how ? how.lines : []).map((l, i) => { const e = draw('text', {x: 5, y: 3 + how.px + i * how.step}, l); e.style.fontSize = how.px + 'px'; return e; }));
    name.setAttribute('transform', how && how.turned ? `translate(${t.w},0) rotate(90)` : '');
  }
  const facts = `${many(r.cpus, 'CPU')} · ${size(r.memory_kib)}`, brief = size(r.memory_kib), under = how && !how.turned ? 3 + how.lines.length * how.step + 13 : 1e9;
  set(more, {x: 5, y: under > 1e8 ? 0 : under});
  more.textContent = under < t.h - 5 ? [facts, brief].find((f) => textWidth(f, 11) < t.w - 8) || '' : '';
  g.setAttribute('aria-label', `${label}, ${rank(r)}, ${clean(r.state)}, ${facts}` + (r.locality == null ? '' : `, ${percent(r.locality)} local`) + (t.split ? `, part on node ${t.room}` : ''));
}
// curve is a way from room a to room b that leaves the tiles alone: in the gap between two floors, below
// the rooms of one floor, or along the walls where all rooms are one above the other.
function curve(a, b, side) {
  const ax = a.x + a.w / 2, bx = b.x + b.w / 2, shift = (bx > ax ? 1 : -1) * 8 + side;
  let x1, y1, x2, y2, cx, cy;
  if (Math.abs(ax - bx) < 1 && a.w > innerWidth * .6) {
    x1 = x2 = a.x + a.w - 18 + side / 4; y1 = a.y + a.h * (b.y > a.y ? .8 : .2); y2 = b.y + b.h * (b.y > a.y ? .12 : .9); cx = x1 + 14; cy = (y1 + y2) / 2;
  } else if (a.y === b.y) {
    const to = bx > ax ? 1 : -1;
    x1 = ax + to * a.w * .3; x2 = bx - to * b.w * .3; y1 = a.y + a.h - 4; y2 = b.y + b.h - 2; cx = (x1 + x2) / 2; cy = y1 + 14 + Math.min(26, Math.abs(bx - ax) * .05) + side / 2;
  } else {
    const down = b.y > a.y, lean = (from, to, w) => from + Math.max(-w * .34, Math.min(w * .34, (to - from) * .14));
    x1 = lean(ax, bx, a.w) + shift; x2 = lean(bx, ax, b.w) + shift; y1 = down ? a.y + a.h - 6 : a.y + 4; y2 = down ? b.y - 2 : b.y + b.h + 2; cx = x1 + (x2 - x1) * .35; cy = (y1 + y2) / 2 + (down ? 8 : -8);
  }
  return {d: `M${x1} ${y1} Q${cx} ${cy} ${x2} ${y2}`, x: x2, y: y2, angle: Math.atan2(y2 - cy, x2 - cx) * 180 / Math.PI};
}
function flows(g, ways) {
  const most = Math.max(4, ...house.flows.map((f) => f.cpus)), shown = house.flows.filter((f) => f.cpus >= most * .08 && rooms.has(f.from) && rooms.has(f.to)).slice(0, innerWidth < 600 ? 5 : 14);
  keep(g, shown, (f) => f.from + '>' + f.to, (f) => { const e = draw('g', {role: 'img'}); e.append(draw('path', {class: 'flow'}), draw('path', {class: 'head'})); hint(e, () => flowHint(f.from, f.to)); return e; }, (e, f) => {
    const w = 1.5 + 7 * f.cpus / most, c = curve(rooms.get(f.from), rooms.get(f.to), 0);
    set(e.firstChild, {d: c.d, 'stroke-width': w});
    set(e.lastChild, {d: `M0 ${-w / 2 - 3} L${w / 2 + 5} 0 L0 ${w / 2 + 3} Z`, transform: `translate(${c.x},${c.y}) rotate(${c.angle})`});
    e.setAttribute('aria-label', flowHint(f.from, f.to).join(', '));
  });
  const moves = [];
  for (const r of house.residents) {
    if (!r.move || !r.home) continue;
    const home = list(r.home), from = r.memory_by_node.filter((m) => !home.includes(m.node)).sort((a, b) => b.kib - a.kib)[0];
    if (from && rooms.has(from.node) && rooms.has(home[0])) moves.push({id: r.id, from: from.node, to: home[0]});
  }
  keep(ways, moves, (m) => m.id, () => { const e = draw('g', {'aria-hidden': true}); e.append(draw('path', {class: 'way'}), draw('path', {class: 'way-head', d: 'M0 -5 L9 0 L0 5 Z'})); return e; }, (e, m) => {
    const c = curve(rooms.get(m.from), rooms.get(m.to), -20);
    set(e.firstChild, {d: c.d});
    set(e.lastChild, {transform: `translate(${c.x},${c.y}) rotate(${c.angle})`});
  });
}

// ---- hints ----
const resident = (id) => house.residents.find((r) => r.id === id);
function tileHint(id) {
  const r = resident(id);
  if (!r) return [];
  return [r.count > 1 ? `${many(r.count, 'workload')} of ${r.name}` : r.name, `${rank(r)} · home ${r.home === '' ? 'none' : homeOf(r)} · ${r.state}`, `${number(r.cpu_use)} busy of ${many(r.cpus, 'CPU')} · ${size(r.memory_kib)}`,
    r.locality == null ? '' : `${percent(r.locality)} of accesses local` + (r.locality_expected > r.locality ? `, ${percent(r.locality_expected)} by plan` : ''),
    r.move ? `${bytes(r.move.moved)} of ${bytes(r.move.planned)} moved${r.move.left_s ? ', ' + seconds(r.move.left_s) + ' left' : ''}` : '', r.why || ''].filter(Boolean);
}
function roomHint(id) {
  const n = nodeOf(id), r = rooms.get(id);
  if (!r) return [];
  return [`node ${id}`, `${number(n.cpu_use)} of ${r.room.cpus} CPUs busy, ${number(n.vcpus)} vCPUs booked`, `${size(n.used_kib)} of ${size(r.room.memory_kib)} used, ${size(n.booked_kib)} booked`,
    n.sharing ? sharing(n.sharing) : '', n.bandwidth_mib_s ? traffic(n.bandwidth_mib_s, 1) + ' of traffic' : '', n.dedicated ? `CPUs ${n.dedicated} are dedicated` : '', r.room.devices.length ? 'devices: ' + r.room.devices.join(', ') : '', ...(n.more || []), ...(n.wrong || [])].filter(Boolean);
}
function flowHint(from, to) {
  const f = house.flows.find((x) => x.from === from && x.to === to);
  if (!f) return [];
  return [`node ${from} reads memory of node ${to}`, f.mib_s != null ? `${traffic(f.mib_s, 2)}, the work of ${number(f.cpus)} CPUs` : `the accesses of ${number(f.cpus)} CPUs' work`, 'by ' + f.by.join(', ')];
}
function hint(e, text) {
  const place = (x, y) => { const t = $('tip'); t.style.left = Math.max(6, Math.min(x + 14, innerWidth - t.offsetWidth - 8)) + 'px'; t.style.top = Math.max(6, Math.min(y + 14, innerHeight - t.offsetHeight - 8)) + 'px'; };
  const reveal = (x, y) => { const [head, ...rest] = text(); if (!head) return; $('tip').replaceChildren(el('b', {}, head), ...rest.map((t) => el('span', {}, t))); $('tip').hidden = false; place(x, y); };
  e.addEventListener('pointerover', (v) => { if (v.pointerType !== 'touch' && !(v.target.closest('.tile') && !e.classList.contains('tile'))) { reveal(v.clientX, v.clientY); v.stopPropagation(); } });
  e.addEventListener('pointermove', (v) => place(v.clientX, v.clientY));
  e.addEventListener('pointerleave', () => { $('tip').hidden = true; });
  e.addEventListener('focus', () => { if (e.matches(':focus-visible')) { const b = e.getBoundingClientRect(); reveal(b.left + b.width / 2, b.bottom - 8); } });
  e.addEventListener('blur', () => { $('tip').hidden = true; });
}

// ---- keys: one stop of the tab key for the picture, arrows within ----
let stop = null;
function roam(e) { if (stop) stop.setAttribute('tabindex', -1); stop = e; e.setAttribute('tabindex', 0); }
function near(from, all, key) {
  const c = (e) => { const b = e.getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]; }, [x, y] = c(from);
  const [dx, dy] = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]}[key];
  let best = null, least = Infinity;
  for (const e of all) {
    if (e === from) continue;
    const [ex, ey] = c(e), along = (ex - x) * dx + (ey - y) * dy, across = Math.abs((ex - x) * dy) + Math.abs((ey - y) * dx);
    if (along > 1 && along + 2.5 * across < least) { least = along + 2.5 * across; best = e; }
  }
  return best;
}
$('picture').addEventListener('keydown', (e) => {
  const at = document.activeElement, room = at.classList.contains('room'), tile = at.classList.contains('tile');
  if (!room && !tile) return;
  const within = (id) => [...document.querySelectorAll('#picture .tile')].filter((t) => t.dataset.room === String(id));
  let to = null;
  if (e.key.startsWith('Arrow')) to = near(at, room ? document.querySelectorAll('#picture .room') : within(at.dataset.room), e.key);
  else if ((e.key === 'Enter' || e.key === ' ') && room) to = within(at.dataset.key)[0];
  else if ((e.key === 'Enter' || e.key === ' ') && tile) open(at.dataset.id, at);
  else if (e.key === 'Escape' && tile) to = document.querySelector(`#picture .room[data-key="${at.dataset.room}"]`);
  else if (e.key === 'Home') to = document.querySelector('#picture .room');
  else return;
  e.preventDefault();
  if (to) to.focus();
});
document.addEventListener('keydown', (e) => {
  if (e.key === 'Escape' && !$('detail').hidden) { e.stopPropagation(); shut(); }
  if (e.key === '/' && !/INPUT|TEXTAREA|SELECT/.test(document.activeElement.tagName)) { e.preventDefault(); $('find').focus(); }
});

// ---- beside the picture ----
function yard() {
  const chips = (at, all, more, look) => {
    at.hidden = !all.length;
    keep(at.lastElementChild, all, (r) => r.id, (r) => el('li', {}, el('button', {type: 'button', class: 'chip', onclick: (e) => open(r.id, e.currentTarget)})), (e, r) => {
      const b = e.firstChild, text = clean((r.count > 1 ? r.count + ' in ' : '') + r.name + ' · ' + more(r));
      b.className = 'chip ' + look(r);
      if (b.textContent !== text) b.textContent = text;
    });
  };
  chips($('batch'), house.residents.filter(isBatch), (r) => `${number(r.cpu_use)} CPUs busy · ${size(r.memory_kib)}` + (lookOf(r) === 'trouble' ? ' · ' + r.state : ''), (r) => 'batch ' + lookOf(r));
  chips($('yard'), house.residents.filter((r) => r.home === '' && !isBatch(r)), (r) => r.state, lookOf);
}
function away() {
  const order = {moving: 0, paused: 1, failed: 2, 'no answer': 2, 'no room': 2, queued: 3, 'would move': 3, held: 4};
  const all = house.residents.filter((r) => r.count === 1 && r.state in order && (!isBatch(r) || lookOf(r) === 'trouble')).sort((a, b) => order[a.state] - order[b.state] || b.memory_kib - a.memory_kib), shown = all.slice(0, 8);
  $('away').hidden = !all.length;
  $('away-title').textContent = all.length > shown.length ? `Not at home: ${shown.length} of ${all.length}` : 'Not at home';
  keep($('away').lastElementChild, shown, (r) => r.id, (r) => el('li', {}, el('button', {type: 'button', class: 'row', onclick: (e) => open(r.id, e.currentTarget)}), el('div', {class: 'meter'}, el('i')), el('div', {class: 'small'})), (e, r) => {
    const [name, meter, line] = e.children, m = r.move;
    name.textContent = clean(r.name);
    meter.hidden = !m;
    if (m) meter.firstChild.style.width = 100 * m.moved / Math.max(1, m.planned) + '%';
    const gain = r.locality != null && r.locality_expected > r.locality ? `local ${percent(r.locality)} → ${percent(r.locality_expected)}` : '';
    line.textContent = [r.state + (r.home !== '' ? ', home ' + homeOf(r) : ''), m ? `${bytes(m.moved)} of ${bytes(m.planned)}${m.left_s ? ', ' + seconds(m.left_s) + ' left' : ''}` : '', gain].filter(Boolean).map(clean).join(' · ');
    line.title = clean(r.why || '');
  });
}
const clock = (t) => new Date(t).toLocaleTimeString([], {hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false});
function timeline() {
  const every = $('steps').checked, gone = new Set(house.events.flatMap((e) => e.replaces || [])); // one line for each page move
  const all = house.events.filter((e) => !gone.has(e.seq) && (every || e.error || e.kind !== 'step')).slice().reverse();
  keep($('timeline').querySelector('ol'), all, (e) => e.seq, (e) => {
    const name = e.name || e.workload || '';
    return el('li', {class: e.error ? 'error' : e.kind}, el('time', {datetime: e.time}, clock(e.time)),
      e.workload ? [el('button', {type: 'button', class: 'row', onclick: (v) => open(e.workload, v.currentTarget)}, name), ' '] : null,
      e.text, e.by && !e.text.startsWith(e.by + ' ') ? ` (${e.by})` : null,
      e.locality_before != null && e.locality_after != null ? el('span', {class: 'gain'}, `  local ${percent(e.locality_before)} → ${percent(e.locality_after)}`) : null);
  }, () => {});
}
function latency() {
  const m = house.machine, ns = m.latency_ns, rows = ns || m.access, sign = JSON.stringify([m.rooms.map((r) => r.id), rows]), section = $('latency');
  if (section.dataset.sign === sign) return;
  section.dataset.sign = sign;
  const least = Math.min(...rows.flat().filter((x) => x > 0)), most = Math.max(...rows.flat());
  $('latency-how').textContent = ns ? 'Measured latency of a read in ns, from the CPUs of the row to the memory of the column (homenode probe).'
    : `How many times as long as a local access, from the CPUs of the row to the memory of the column; by ${{SLIT: 'the firmware’s SLIT distances, not measured', HMAT: 'the firmware’s HMAT', measured: 'measurement', cached: 'an earlier measurement'}[m.source] || 'assumption'}.`;
  const head = el('tr', {}, el('th', {scope: 'col'}, 'CPUs \\ memory'), m.rooms.map((r) => el('th', {scope: 'col', 'aria-label': 'node ' + r.id}, r.id)));
  section.querySelector('table').replaceChildren(el('thead', {}, head), el('tbody', {}, m.rooms.map((r, i) => el('tr', {}, el('th', {scope: 'row'}, 'node ' + r.id),
    (rows[i] || []).map((x) => el('td', {class: 'h' + (x > 0 && most > least ? Math.min(5, Math.floor(5.99 * (x - least) / (most - least))) : 0)}, x > 0 ? (ns ? Math.round(x) : x.toFixed(1)) : '–'))))));
}

// ---- one workload, a group, a room, a search ----
function reveal(title, ...body) {
  $('detail-name').textContent = clean(title);
  $('detail-body').replaceChildren(...body.flat().filter(Boolean));
  $('detail').hidden = false;
  $('detail').scrollTop = 0;
  $('detail').focus({preventScroll: innerWidth > 1020});
}
function shut() { $('detail').hidden = true; picked = null; show(); (opener && opener.isConnected ? opener : $('find')).focus(); opener = null; }
$('close').addEventListener('click', shut);
const table = (heads, rows) => el('table', {}, el('thead', {}, el('tr', {}, heads.map((t) => el('th', {scope: 'col'}, t)))), el('tbody', {}, rows));
const facts = (rows) => el('dl', {}, rows.filter((r) => r && r[1] !== '' && r[1] != null).map(([k, v]) => [el('dt', {}, k), el('dd', {}, v)]));
const rowsOf = (all) => el('ul', {}, all.map((r) => el('li', {}, el('button', {type: 'button', class: 'row', onclick: () => open(r.id)}, r.name), el('div', {class: 'small'}, [rank(r), r.state, r.home !== '' ? homeOf(r) : '', many(r.cpus, 'CPU'), size(r.memory_kib), r.locality == null ? '' : percent(r.locality) + ' local'].filter(Boolean).join(' · ')))));
async function open(id, from) {
  if (from) opener = from;
  picked = id;
  $('tip').hidden = true;
  show();
  try {
    if (id.startsWith('group:')) {
      const a = await ask('/v1/house/residents?group=' + encodeURIComponent(id)), r = resident(id);
      reveal(`${many(a.count, 'workload')} of ${r ? r.name : 'others'}`, rowsOf(a.residents));
      return;
    }
    const x = await ask('/v1/explain?id=' + encodeURIComponent(id));
    if (picked === id) reveal(...explained(x));
  } catch (e) { reveal(id, el('p', {class: 'error-text'}, e.message)); }
}
function openRoom(id) {
  opener = document.querySelector(`#picture .room[data-key="${id}"]`);
  const all = house.residents.filter((r) => list(r.home).includes(id)).sort((a, b) => b.memory_kib - a.memory_kib), [, ...lines] = roomHint(id);
  reveal('Node ' + id, el('ul', {}, lines.map((l) => el('li', {}, l))), el('h3', {}, 'Who lives here'), all.length ? rowsOf(all) : el('p', {class: 'muted'}, 'Nobody.'));
}
const ranges = (ids) => { const out = []; for (const i of ids) { const l = out[out.length - 1]; if (l && i === l[1] + 1) l[1] = i; else out.push([i, i]); } return out.map(([a, b]) => a === b ? a : a + '-' + b).join(','); };
function explained(x) {
  const w = x.workload, d = x.decision || {}, total = Math.max(1, w.memory_kib), home = list(w.home);
  if (x.device) return [x.device.name, facts([['State', x.device.state], ['Node', x.device.node], ['Why', x.device.why]])];
  const body = [facts([['State', w.state], ['Class', w.class + ', importance ' + w.importance], ['Tier', w.tier], ['Home', w.home === '' ? 'none' : homeOf(w)], ['CPUs', `${number(w.cpu_use)} busy of ${w.cpus}`],
    ['May use', w.cpu_set + (w.cpu_set_planned && w.cpu_set_planned !== w.cpu_set ? ' → ' + w.cpu_set_planned + ' by plan' : '')], ['Local', w.locality == null ? '' : percent(w.locality) + (w.locality_expected > w.locality ? ' → ' + percent(w.locality_expected) + ' by plan' : '') + (w.locality_from ? ' (' + w.locality_from + ')' : '')],
    w.move && w.move.state === 'running' ? ['Moved', `${bytes(w.move.moved)} of ${bytes(w.move.planned)}`] : null, ['Cgroup', w.cgroup]])];
  body.push(el('h3', {}, 'Why'), el('ul', {}, [w.why, ...(d.reasons || []).map((r) => r.text)].filter((t, i, all) => t && all.indexOf(t) === i && !(i === 0 && all.slice(1).some((o) => t.includes(o)) && all.length > 2)).map((t) => el('li', {}, t)), x.balancing ? el('li', {class: 'muted'}, 'Balancing: ' + x.balancing) : null));
  body.push(el('h3', {}, 'Memory, ' + size(w.memory_kib)), el('ul', {}, w.memory_by_node.map((m) => { const bar = el('i', {class: home.includes(m.node) ? 'm' : 'r'}); bar.style.width = 100 * m.kib / total + '%'; return el('li', {}, `node ${m.node}: ${size(m.kib)}` + (home.includes(m.node) ? '' : ', not home'), el('div', {class: 'meter'}, bar)); })));
  if (w.pins || w.id.startsWith('vm:')) {
    const rows = house.machine.rooms.filter((r) => home.includes(r.id)).map((r) => {
      const cpus = new Set(r.llcs.flat(2)), mine = (w.pins || []).map((c, v) => [v, c]).filter(([, c]) => cpus.has(c));
      return el('tr', {}, el('td', {}, 'node ' + r.id), el('td', {}, mine.length ? ranges(mine.map(([v]) => v)) : 'any'), el('td', {}, mine.length ? mine.map(([, c]) => c).join(' ') : 'shared'), el('td', {}, size((w.memory_by_node.find((m) => m.node === r.id) || {kib: 0}).kib)));
    });
    body.push(el('h3', {}, rows.length > 1 ? `vCPUs: one guest cell for each of ${rows.length} nodes` : 'vCPUs: one guest cell'), table(['Cell on', 'vCPUs', 'on CPUs', 'Memory'], rows));
  }
  if (home.length && house.nodes.length > 1) body.push(moveForm(w));
  if (d.candidates && d.candidates.length) body.push(el('h3', {}, 'Homes that were weighed, the lowest score is best'), table(['Nodes', 'Score', 'Why not'], d.candidates.slice(0, 8).map((c) => el('tr', {}, el('td', {}, c.nodes), el('td', {}, Math.round(100 * c.score) / 100), el('td', {}, c.rejected ? c.rejected.text : 'taken')))));
  if (x.journal.length) body.push(el('h3', {}, 'What homenode has changed, and undo puts back'), el('ul', {}, x.journal.map((j) => el('li', {}, `${j.kind}: ${j.old || 'all'} → ${j.new}`))));
  if (x.events.length) body.push(el('h3', {}, 'What happened'), el('ul', {}, x.events.slice(-8).reverse().map((e) => el('li', {}, el('time', {class: 'muted'}, clock(e.time) + ' '), e.text))));
  return [w.name, ...body];
}
// target marks the rooms that something would go to.
function target(nodes) { for (const g of document.querySelectorAll('#picture .room')) g.classList.toggle('target', nodes.includes(g.dataset.key)); }
function moveForm(w) {
  const pick = el('select', {id: 'move-to'}, house.nodes.map((n) => el('option', {value: n.id}, 'node ' + n.id))), out = el('div', {'aria-live': 'polite', id: 'move-answer'}), home = list(w.home);
  pick.value = String((house.nodes.find((n) => !home.includes(n.id)) || house.nodes[0]).id);
  const form = el('form', {id: 'move-form'}, el('label', {for: 'move-to', class: 'small'}, 'to '), pick, ' ', el('button', {type: 'submit'}, 'What would it cost?'), out);
  form.addEventListener('submit', async (e) => {
    e.preventDefault();
    target([pick.value]);
    try {
      const m = (await ask('/v1/what-if', {workload: w.id, to: pick.value})).move, reasons = (m.decision.reasons || []).map((r) => r.text);
      out.replaceChildren(el('p', {}, el('b', {}, m.outcome === 'placed' ? `It would move to node ${m.to}.` : m.outcome === 'kept' ? 'It is there already.' : 'It would not be moved.')),
        facts([['Cost', m.bytes ? `${bytes(m.bytes)} to move, ${seconds(m.seconds)} at least` : 'no memory to move'], ['Brings', m.locality_after == null ? '' : `local accesses ${percent(m.locality)} → ${percent(m.locality_after)}`], ['CPUs', m.cpus]]), el('ul', {}, reasons.map((t) => el('li', {}, t))));
    } catch (err) { out.replaceChildren(el('p', {class: 'error-text'}, err.message)); }
  });
  return el('div', {}, el('h3', {}, 'What if it moved'), form);
}
let searching = 0;
$('find').addEventListener('input', () => {
  clearTimeout(searching);
  searching = setTimeout(async () => {
    const q = $('find').value.trim();
    if (!q || !house) return;
    try {
      const a = await ask('/v1/house/residents?q=' + encodeURIComponent(q));
      if ($('find').value.trim() !== q) return;
      $('detail-name').textContent = `${a.count} found`;
      $('detail-body').replaceChildren(a.count ? rowsOf(a.residents) : el('p', {class: 'muted'}, 'Nothing has that name.'));
      $('detail').hidden = false;
      opener = $('find');
    } catch (e) { console.info(e.message); }
  }, 250);
});
$('find').addEventListener('keydown', (e) => { if (e.key === 'Enter') { e.preventDefault(); $('detail-body').querySelector('button')?.focus(); } });
$('whatif-form').addEventListener('submit', async (e) => {
  e.preventDefault();
  const out = $('whatif-answer');
  try {
    const a = await ask('/v1/what-if', {spec: $('spec').value});
    out.replaceChildren(...a.workloads.map((r) => el('div', {}, el('h3', {}, `${r.workload}: ` + (r.place ? `${homeOf(r.place)}, CPUs ${r.place.cpus}` + (r.outcome === 'moves' ? `, once ${many(r.moves.length, 'workload')} made room` : '') : 'no room')),
      r.moves && r.moves.length ? el('ul', {}, r.moves.map((m) => el('li', {}, `${m.workload}: node ${m.from.home} → ${m.to.home}, ${size(m.moved_kib)}`))) : null,
      el('ul', {}, [...new Set([...(r.reasons || []), ...(r.decision.reasons || [])].map((x) => x.text))].map((t) => el('li', {}, t))))));
    target(a.workloads.flatMap((r) => r.place ? list(r.place.home).map(String) : []));
  } catch (err) { out.replaceChildren(el('p', {class: 'error-text'}, err.message)); }
});
$('ask').addEventListener('submit', (e) => { e.preventDefault(); token = $('token').value.trim(); $('token').value = ''; try { sessionStorage.setItem('token', token); } catch {} });
$('steps').addEventListener('change', () => house && timeline());

// ---- colours, size, begin ----
function theme(t) {
  if (t) document.documentElement.dataset.theme = t; else delete document.documentElement.dataset.theme;
  const dark = t ? t === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  $('theme').setAttribute('aria-pressed', dark);
  return dark;
}
let chosen = null;
try { chosen = localStorage.getItem('theme'); } catch {}
theme(chosen);
$('theme').addEventListener('click', () => { const t = theme(document.documentElement.dataset.theme) ? 'light' : 'dark'; theme(t); try { localStorage.setItem('theme', t); } catch {} });
new ResizeObserver(() => { if (house && $('picture').clientWidth !== size0) soon(); }).observe($('machine'));
document.addEventListener('visibilitychange', () => { if (document.hidden && stream) stream.abort(); });
takeToken();
live();
// The first room is where the tab key comes in.
new MutationObserver((_, o) => { const first = document.querySelector('#picture .room'); if (first) { roam(first); o.disconnect(); } }).observe($('picture'), {childList: true, subtree: true});
})();
