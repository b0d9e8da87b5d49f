// The page keeps itself current: when an event of the stream announces a new revision, this script fetches the changes
// of the page's lists and applies them. It writes nothing to the service.
"use strict";

const body = document.body;
const find = (id) => document.getElementById(id);

function putPlaces(places) {
  const rows = listOf("queue").children;
  places.split(" ").forEach((text, at) => put(rows[at].firstElementChild, text));
}

function show(parts) {
  change(parts.lists);
  const tiles = find("tiles");
  if (tiles && parts.facts.density) tiles.className = `tiles ${parts.facts.density}`;
  const charts = find("charts");
  if (charts) charts.className = `charts of-${charts.children.length}`;
  if (parts.facts.title) document.title = parts.facts.title;
  if (parts.facts.places) putPlaces(parts.facts.places);
  ahead = Number(parts.facts.now) - Date.now() / 1000;
  body.dataset.frame = parts.frame;
  refine();
}

let ahead = Number(body.dataset.now) - Date.now() / 1000; // seconds by which the service's clock is ahead of the browser's

// -- the stream ----------------------------------------------------------------------------------

const SOON = 250; // milliseconds to wait after a change without a decision, because a decision often follows
let asking = false;
let again = false;
let due = 0;
let paused = false;
let heard = performance.now();

function soon() {
  due ||= setTimeout(refresh, SOON);
}

async function refresh() {
  clearTimeout(due);
  due = 0;
  if (paused || document.hidden || !body.dataset.parts) return;
  if (asking) {
    again = true;
    return;
  }
  asking = true;
  try {
    const answer = await fetch(`${body.dataset.parts}?since=${encodeURIComponent(body.dataset.frame)}`);
    if (answer.ok && !paused) show(await answer.json());
    if (answer.ok) heard = performance.now();
  } catch {
    // ignore the error: the stream has an error event of its own, which shows that the connection is lost
  } finally {
    asking = false;
    if (again) {
      again = false;
      refresh();
    }
  }
}

const SAID_EVERY = 20_000; // milliseconds between announcements, so that a screen reader can finish each
let saidAt = -SAID_EVERY;

function say(text, urgent) {
  if (!urgent && performance.now() - saidAt < SAID_EVERY) return;
  saidAt = performance.now();
  find("said").textContent = text;
}

function live(state, text) {
  const mark = find("live");
  if (mark.dataset.state !== state) {
    mark.dataset.state = state;
    find("live-text").textContent = text;
    if (state === "lost") say("The connection to Kohort is lost; the page is no longer current.", true);
  }
}

function listen() {
  const stream = new EventSource(body.dataset.stream);
  stream.addEventListener("open", () => live("live", "live"));
  stream.addEventListener("error", () => {
    live("lost", "reconnecting");
    if (stream.readyState === EventSource.CLOSED) setTimeout(listen, 3000);
  });
  stream.addEventListener("revision", (event) => {
    live("live", "live");
    if (paused) return; // while the page is paused, a screen reader must not announce what the page does not show
    const { decisions } = JSON.parse(event.data);
    const named = decisions.filter((one) => one.job && one.action !== "Bind");
    if (named.length) say(`${named.length} new decisions: ${named[0].job.name} ${named[0].text}`, false);
    if (decisions.some((one) => one.action !== "Remember")) refresh();
    else soon();
  });
}

// -- time ----------------------------------------------------------------------------------------

function duration(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const two = (number) => String(number).padStart(2, "0");
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m`;
  if (whole < 86400) return `${Math.floor(whole / 3600)}h ${two(Math.floor((whole % 3600) / 60))}m`;
  return `${Math.floor(whole / 86400)}d ${Math.floor((whole % 86400) / 3600)}h`;
}

function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function localTimes() {
  for (const time of document.querySelectorAll("time[data-at]:not([datetime])")) {
    const at = new Date(Number(time.dataset.at) * 1000);
    time.dateTime = at.toISOString();
    time.title = at.toLocaleString();
    put(time, at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" }));
  }
}

function waits() {
  const now = Date.now() / 1000 + ahead;
  for (const time of document.querySelectorAll("time[data-since]")) put(time, duration(now - Number(time.dataset.since)));
}

// -- find a job ----------------------------------------------------------------------------------

const wanted = () => (find("find")?.value ?? "").trim().toLowerCase();

function filter() {
  const text = wanted();
  let rows = 0;
  for (const row of document.querySelectorAll("[data-key]")) {
    const hidden = text !== "" && !row.dataset.key.toLowerCase().includes(text);
    if (row.hidden !== hidden) row.hidden = hidden;
    if (!hidden && row.tagName === "TR") rows += 1;
  }
  if (find("found")) put(find("found"), text ? `${rows} ${rows === 1 ? "job" : "jobs"}` : "");
  const tiles = find("tiles");
  if (!tiles) return;
  tiles.classList.toggle("found", text !== "");
  for (const path of tiles.querySelectorAll("path[data-name]")) {
    if (text || path.classList.contains("hit")) path.classList.toggle("hit", text !== "" && path.dataset.name.toLowerCase().includes(text));
  }
}

// -- the node map --------------------------------------------------------------------------------

let here = 0; // the index of the tile that Tab reaches

function tell(tile) {
  put(find("told-node"), tile.getAttribute("aria-label"));
}

function step(tiles, event) {
  const all = tiles.children;
  const columns = Math.max(1, [...all].findIndex((tile) => tile.offsetTop > all[0].offsetTop));
  const moves = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns, Home: -here, End: all.length - 1 - here };
  if (!(event.key in moves)) return;
  event.preventDefault();
  const next = Math.min(all.length - 1, Math.max(0, here + moves[event.key]));
  all[here].tabIndex = -1;
  here = next;
  all[here].tabIndex = 0;
  all[here].focus();
}

function light(job) {
  const tiles = find("tiles");
  if (!tiles) return;
  for (const path of tiles.querySelectorAll("path.lit")) path.classList.remove("lit");
  const mine = job ? tiles.querySelectorAll(`path[data-name="${CSS.escape(job)}"]`) : [];
  for (const path of mine) path.classList.add("lit");
  tiles.classList.toggle("lighting", mine.length > 0);
}

function watchMap(tiles) {
  tiles.addEventListener("keydown", (event) => step(tiles, event));
  tiles.addEventListener("focusin", (event) => {
    const tile = event.target.closest(".tile");
    if (!tile) return;
    if (tiles.children[here]) tiles.children[here].tabIndex = -1;
    here = [...tiles.children].indexOf(tile);
    tile.tabIndex = 0;
    tell(tile);
  });
  tiles.addEventListener("pointerover", (event) => {
    const tile = event.target.closest(".tile");
    if (tile) tell(tile);
    light(event.target.dataset.name);
  });
  tiles.addEventListener("pointerleave", () => light(""));
  for (const list of document.querySelectorAll("tbody[data-list], ol[data-list]")) {
    const over = (event) => light(event.target.closest("[data-key]")?.dataset.key);
    list.addEventListener("pointerover", over);
    list.addEventListener("focusin", over);
    list.addEventListener("pointerleave", () => light(""));
    list.addEventListener("focusout", () => light(""));
  }
}

// -- begin ---------------------------------------------------------------------------------------

function refine() {
  localTimes();
  waits();
  if (wanted()) filter();
  const tiles = find("tiles");
  if (tiles && tiles.children.length) {
    here = Math.min(here, tiles.children.length - 1);
    tiles.children[here].tabIndex = 0;
  }
}

function togglePause() {
  paused = !paused;
  const button = find("pause");
  button.setAttribute("aria-pressed", String(paused));
  button.textContent = paused ? "Resume" : "Pause";
  find("live").classList.toggle("paused", paused);
  if (!paused) refresh();
}

function everySecond() {
  if (!paused && !document.hidden) {
    waits();
    if (performance.now() - heard > 30_000) refresh(); // without decisions the stream is silent, but the charts still change
  }
}

refine();
if (find("tiles")) watchMap(find("tiles"));
if (find("find")) find("find").addEventListener("input", filter);
find("pause").hidden = false;
find("pause").addEventListener("click", togglePause);
document.addEventListener("visibilitychange", refresh);
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.target.closest("input, textarea") && find("find")) {
    event.preventDefault();
    find("find").focus();
  }
});
setInterval(everySecond, 1000);
listen();
