// Unpacks the data of the page into typed columns, and provides helpers to build elements from text.
const DATA = JSON.parse(document.getElementById('data').textContent);
const MISSING = 65535;
const METRICS = new Map(DATA.metrics.map((metric) => [metric.name, metric]));
const PACKED = DATA.metrics.filter((metric) => metric.packed);  // within [-1, 1], stored in 16 bits
const OTHERS = DATA.metrics.filter((metric) => !metric.packed);
const KINDS = { id: Float64Array, label: Int32Array, prediction: Int32Array, outcome: Uint8Array, completeness_gap: Float32Array };
for (const metric of OTHERS) KINDS[metric.name] = Float32Array;
const OUTCOME_TEXT = { attacked: 'attacked', misclassified: 'misclassified', label_lost: 'label lost', unmoved: 'unmoved', nan_map: 'undefined map' };

function unpack(text, Kind) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return new Kind(bytes.buffer);
}

const ROWS = { n: DATA.rows.n };
for (const [name, text] of Object.entries(DATA.rows.columns)) ROWS[name] = unpack(text, KINDS[name] || Uint16Array);

const byId = (id) => document.getElementById(id);

function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key === 'class') element.className = value;
    else if (key in element && key !== 'role') element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

function similarity(name, row) {
  const step = ROWS[name][row];
  return step === MISSING ? NaN : step / (MISSING - 1) * 2 - 1;
}

function show(name, value) {
  if (value === null || value === undefined || Number.isNaN(value)) return '–';
  return METRICS.get(name)?.percent ? (100 * value).toFixed(1) + ' %' : value.toFixed(3);
}

function className(run, label) {
  const name = DATA.runs[run].classes[label];
  return name === undefined || name === String(label) ? String(label) : label + ' ' + name;
}

function entries(list) {
  return make('dl', {}, ...list.map(([term, text]) => make('div', {}, make('dt', {}, term), make('dd', {}, text))));
}

for (const axis of document.querySelectorAll('[data-axis]')) {
  for (const tick of axis.children) {
    const at = Number(tick.dataset.at) / 10;
    Object.assign(tick.style, { position: 'absolute', left: at + '%', transform: 'translateX(' + (at > 95 ? -100 : at < 5 ? 0 : -50) + '%)' });
  }
}
