// Sort a leaderboard by a click on a column, and show one dataset or all. Without JavaScript the table stays complete.
"use strict";

function cellOf(row, column) {
  return row.cells[column].dataset.value;
}

function compare(a, b, kind) {
  if (a === "" || b === "") return (a === "") - (b === ""); // missing values last
  return kind === "number" ? Number(b) - Number(a) : a.localeCompare(b);
}

function sortBy(table, head) {
  const heads = [...head.parentNode.cells];
  const column = heads.indexOf(head);
  const again = head.getAttribute("aria-sort");
  const first = head.dataset.kind === "number" ? "descending" : "ascending";
  const order = again === first ? (first === "ascending" ? "descending" : "ascending") : first;
  heads.forEach((other) => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", order);
  const rows = [...table.tBodies[0].rows];
  const flip = order === first ? 1 : -1;
  rows.sort((a, b) => {
    const [x, y] = [cellOf(a, column), cellOf(b, column)];
    const missing = x === "" || y === "";
    return compare(x, y, head.dataset.kind) * (missing ? 1 : flip);
  });
  table.tBodies[0].append(...rows);
}

function addSorting(table) {
  for (const head of table.tHead.rows[table.tHead.rows.length - 1].cells) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sortBy(table, head));
    head.append(button);
  }
}

function addDatasets(frame, table) {
  const names = [...new Set([...table.tBodies[0].rows].map((row) => row.dataset.dataset))];
  const choice = document.createElement("div");
  choice.className = "leaderboard-choice";
  for (const name of ["all datasets", ...names]) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = name;
    button.setAttribute("aria-pressed", String(name === "all datasets"));
    button.addEventListener("click", () => {
      for (const other of choice.children) other.setAttribute("aria-pressed", String(other === button));
      for (const row of table.tBodies[0].rows) row.hidden = name !== "all datasets" && row.dataset.dataset !== name;
    });
    choice.append(button);
  }
  frame.before(choice);
}

for (const frame of document.querySelectorAll(".leaderboard-frame")) {
  const table = frame.querySelector("table");
  addSorting(table);
  addDatasets(frame, table);
}
