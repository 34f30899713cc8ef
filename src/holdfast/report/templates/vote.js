// A blind vote: maps without names, one choice per image, saved as a CSV file on this device.
const QUESTIONS = JSON.parse(document.getElementById('data').textContent);
const votes = QUESTIONS.map(() => null);
let at = 0, saved = true;

const byId = (id) => document.getElementById(id);
const letter = (place) => String.fromCharCode(65 + place);

function choice(map, place) {
  const canvas = document.createElement('canvas');
  canvas.className = 'picture';
  draw(canvas, map.map, true);
  const button = document.createElement('button');
  button.type = 'button';
  button.setAttribute('aria-pressed', String(votes[at] === place));
  button.setAttribute('aria-label', 'Map ' + letter(place));
  button.append(canvas, letter(place));
  button.addEventListener('click', () => vote(place));
  return button;
}

function ask(index) {
  at = Math.min(Math.max(index, 0), QUESTIONS.length - 1);
  const question = QUESTIONS[at], cast = votes.filter((vote) => vote !== null).length;
  byId('image').src = question.clean;
  byId('caption').textContent = question.dataset + ', example ' + question.id;
  byId('choices').replaceChildren(...question.maps.map(choice));
  byId('status').textContent = 'Image ' + (at + 1) + ' of ' + QUESTIONS.length + ', ' + cast + ' voted' + (saved ? '' : ', not saved yet');
  byId('done').style.width = 100 * cast / QUESTIONS.length + '%';
  byId('undecided').setAttribute('aria-pressed', String(votes[at] === -1));
  byId('back').disabled = at === 0;
  byId('on').disabled = at === QUESTIONS.length - 1;
}

function vote(place) {
  votes[at] = place;
  saved = false;
  ask(at + 1);
}

const quoted = (value) => '"' + String(value).replaceAll('"', '""') + '"';

function save() {
  const lines = ['dataset,example,choice,key,shown'];
  QUESTIONS.forEach((question, index) => {
    const place = votes[index];
    if (place === null) return;
    const picked = place < 0 ? ['undecided', ''] : [letter(place), question.maps[place].key];
    lines.push([question.dataset, question.id, ...picked, question.maps.map((map) => map.key).join(' ')].map(quoted).join(','));
  });
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([lines.join('\n') + '\n'], { type: 'text/csv' }));
  link.download = 'votes.csv';
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  saved = true;
  ask(at);
}

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const place = event.key.length === 1 ? event.key.toUpperCase().charCodeAt(0) - 65 : -1;
  if (place >= 0 && place < QUESTIONS[at].maps.length) vote(place);
  else if (event.key === '0') vote(-1);
  else if (event.key === 'ArrowLeft') ask(at - 1);
  else if (event.key === 'ArrowRight') ask(at + 1);
});
window.addEventListener('beforeunload', (event) => { if (!saved) event.preventDefault(); });
byId('back').addEventListener('click', () => ask(at - 1));
byId('on').addEventListener('click', () => ask(at + 1));
byId('undecided').addEventListener('click', () => vote(-1));
byId('save').addEventListener('click', save);
ask(0);
document.documentElement.dataset.ready = String(Math.round(performance.now()));
