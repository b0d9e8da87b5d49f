// Lists of rows, changed by what the service tells. Rows that stay are kept. Those in view that come or change place are
// put in anew, so that nothing is seen to move; those out of view stay where they are, for there are hundreds of them.
"use strict";

const listOf = (name) => document.querySelector(`[data-list="${CSS.escape(name)}"]`);
const known = new WeakMap(); // row -> HTML

function row(html) {
  const holder = document.createElement("template");
  holder.innerHTML = html; // escaped by the server; scripts in it would not run, and the page's policy forbids them
  const made = holder.content.firstElementChild;
  known.set(made, html);
  return made;
}

function keepFocus(list, act) {
  const active = document.activeElement;
  const inside = list.contains(active) && active !== list;
  const href = inside && active.getAttribute("href");
  const at = inside ? [...list.children].findIndex((one) => one.contains(active)) : -1;
  act();
  if (!inside || document.activeElement === active) return;
  const same = href && [...list.querySelectorAll("a")].find((link) => link.getAttribute("href") === href);
  const there = list.children[Math.min(at, list.children.length - 1)];
  const near = there && (there.matches("button, a") ? there : there.querySelector("a, button"));
  const next = list.contains(active) ? active : same || near;
  if (next) next.focus({ preventScroll: true });
}

function arrange(old, pieces) {
  const whole = pieces.every((piece) => typeof piece === "string");
  const rows = [];
  for (const piece of pieces) {
    const last = old[rows.length];
    if (typeof piece !== "string") rows.push(...old.slice(piece[0], piece[0] + piece[1]));
    else rows.push(whole && last && known.get(last) === piece ? last : row(piece));
  }
  return rows;
}

// The first and the last of the rows that are in view, and so many more that a change cannot bring others there.
function inView(list) {
  const rows = [...list.children];
  const box = (list.closest(".scroll") ?? list).getBoundingClientRect();
  const from = Math.max(0, box.top);
  const till = Math.min(innerHeight, box.bottom);
  let first = rows.findIndex((one) => one.getBoundingClientRect().bottom > from);
  if (first < 0) first = rows.length;
  let last = first;
  while (last < rows.length && rows[last].getBoundingClientRect().top < till) last += 1;
  const more = last - first + 10;
  return [first - more, last + more];
}

function apply({ list, pieces, view: [first, last] }) {
  const old = [...list.children];
  const rows = arrange(old, pieces);
  const places = new Map(rows.map((one, at) => [one, at]));
  const seen = (at) => at >= first && at <= last;
  const stays = (one, was) => places.get(one) === was || (places.has(one) && !seen(was) && !seen(places.get(one)));
  keepFocus(list, () => {
    old.forEach((one, was) => stays(one, was) || one.remove());
    let next = list.firstElementChild;
    for (const one of rows) {
      if (one === next) next = next.nextElementSibling;
      else list.insertBefore(one, next);
    }
  });
}

// What has changed of each list, by its name: HTML of new rows, [first, number] for a run of old ones.
function change(told) {
  const changed = Object.entries(told).map(([name, pieces]) => ({ list: listOf(name), pieces })).filter((one) => one.list);
  for (const one of changed) one.view = inView(one.list); // of all, before anything is changed that has to be laid out anew
  changed.forEach(apply);
}
