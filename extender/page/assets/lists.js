// Applies the service's changes to the lists of rows. Rows that stay are kept. Rows in view that are new or change place
// are inserted anew, so that nothing visibly moves; hundreds of rows out of view stay in place, which is cheaper.
"use strict";

const listOf = (name) => document.querySelector(`[data-list="${CSS.escape(name)}"]`);
const known = new WeakMap(); // row -> HTML

function row(html) {
  const holder = document.createElement("template");
  holder.innerHTML = html; // the server has escaped it; scripts in it would not run, and the page's policy forbids them
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

// Returns the first and last row in view, widened by so many rows that a change cannot bring others into view.
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

// Takes the changes of each list by its name: HTML for a new row, [first, number] for a run of old rows.
function change(changes) {
  const changed = Object.entries(changes).map(([name, pieces]) => ({ list: listOf(name), pieces })).filter((one) => one.list);
  for (const one of changed) one.view = inView(one.list); // measure every list first: measuring after a change would force a new layout
  changed.forEach(apply);
}
