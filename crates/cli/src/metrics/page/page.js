// Asks for what the file system is like once a second, while somebody looks, and shows it.

import { History, bar, size, span } from "./charts.js";

const EVERY_MS = 1000;
const ANSWER_MS = 8000;
// Of a node: little is left for what grows in place.
const FULL = 0.95;
const SILENT_MOST = 60;
// The file system looks at itself ten times a second; clocks differ.
const OLD_SECONDS = 15;
const TOKEN = "tidefs-token";
const at = (id) => document.getElementById(id);

/** An element with text or children. */
function make(name, content, attributes = {}) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...[content].flat());
  return element;
}

/** A live region speaks when its text changes, so it is left alone otherwise. */
function say(id, text) {
  if (at(id).textContent !== text) at(id).textContent = text;
}

class Refused extends Error {}

/** The token lets in elsewhere, and not here. */
class Forbidden extends Refused {}

/** The file system said why. */
class Told extends Error {}

async function ask(path) {
  const headers = { Authorization: `Bearer ${sessionStorage.getItem(TOKEN)}` };
  const answer = await fetch(path, { headers, cache: "no-store", signal: AbortSignal.timeout(ANSWER_MS) });
  if (answer.status === 401) throw new Refused();
  if (answer.status === 403) throw new Forbidden();
  if (!answer.ok) throw new Told((await answer.text()).trim());
  return answer.json();
}

function asks(why) {
  at("live").hidden = true;
  at("login").hidden = false;
  say("login-error", why);
  say("connection", "");
  at("token").focus();
}

at("login").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(TOKEN, at("token").value.trim());
  at("token").value = "";
  at("login").hidden = true;
  look();
});

const history = new History(at("history"), (chosen, last) => {
  const point = chosen ?? last;
  const nodes = `${point.nodes} ${point.nodes === 1 ? "node" : "nodes"}`;
  const when = chosen ? `${span(point.t)} after the start` : "Now";
  const said = `${when}: ${size(point.used_bytes)} of ${size(point.capacity_bytes)} used on ${nodes}`;
  say("history-value", said);
  at("history").setAttribute("aria-label", `Memory over time. ${said}. Arrow keys choose another moment.`);
});

function figure(name, value, more) {
  return make("div", [make("dt", name), make("dd", more ? [value, make("small", more)] : [value])]);
}

function figures(live) {
  const { status } = live;
  const nodes = status?.nodes ?? [];
  const sum = (field) => nodes.reduce((all, node) => all + node[field], 0);
  const [used, capacity] = [sum("memory_used_bytes"), sum("memory_capacity_bytes")];
  const part = capacity ? `${((used / capacity) * 100).toFixed(0)} % of ${size(capacity)}` : "";
  const failed = live.requests_failed ? `${live.requests_failed.toLocaleString("en")} failed` : "none failed";
  at("figures").replaceChildren(
    figure("Memory used", status ? size(used) : "–", part),
    figure("Most used so far", size(live.memory_used_bytes_max)),
    figure("Nodes", status ? String(nodes.length) : "–", status ? "" : "the store does not answer"),
    figure("Files made", live.files_made.toLocaleString("en")),
    figure("Written", size(live.bytes_written), live.direct ? "at least" : ""),
    figure("Read", live.direct ? "not known" : size(live.bytes_read)),
    figure("Requests", live.requests.toLocaleString("en"), failed),
  );
}

function rate(bytes) {
  return bytes === null || bytes === undefined ? "–" : `${size(bytes)}/s`;
}

function node(it) {
  const part = it.memory_capacity_bytes ? it.memory_used_bytes / it.memory_capacity_bytes : 0;
  const memory = [`${size(it.memory_used_bytes)} of ${size(it.memory_capacity_bytes)}`, bar(part, FULL)];
  const cell = (label, content, attributes) => make("td", content, { "data-label": label, ...attributes });
  const state = it.state === "up" ? {} : { class: "alarm" };
  const share = it.share ? cell("Share", `${it.share.percent} %`, { title: it.share.reason }) : cell("Share", "–");
  return make("tr", [
    make("th", `${it.number} ${it.endpoint} (${it.class})`, { scope: "row" }),
    cell("State", it.state, state),
    cell("Memory", memory),
    share,
    cell("Partitions", String(it.partitions)),
    cell("Receives", rate(it.received_bytes_per_second)),
    cell("Sends", rate(it.sent_bytes_per_second)),
  ]);
}

function change(status) {
  const under = status?.reconfiguration;
  if (!under) return "No change of nodes is under way.";
  const moved = under.bytes_planned ? `, ${size(under.bytes_moved)} of ${size(under.bytes_planned)} moved` : "";
  const left = under.seconds_left === null ? "" : `, about ${span(under.seconds_left)} left`;
  const failed = under.last_failure ? ` Tried again after: ${under.last_failure}` : "";
  return `Under way: ${under.kind}, ${under.phase}${moved}${left}. ${under.reason}.${failed}`;
}

function notes(status) {
  const lost = (status?.lost_nodes ?? []).map((it) => {
    const held = it.partitions ? `, and what only it held: ${it.partitions} partitions` : "";
    const names = it.names ? " Files whose names were on it may be missing." : "";
    return `Node ${it.number} at ${it.endpoint} has died${held}.${names} tidefs fsck names the files that answer errors.`;
  });
  const absent = (status?.absent_hosts ?? []).map((it) => `Host ${it.name} is not there: ${it.why}`);
  const recovery = status?.recovery ? [`What nodes that died left is being put right. It failed last: ${status.recovery.last_failure}`] : [];
  return [...(status?.notes ?? []), ...recovery, ...lost, ...absent];
}

function decisions(live) {
  const one = (it) =>
    make("li", [make("time", span(it.t)), ` ${it.what}`, make("span", it.why, { class: "why" })]);
  const all = live.decisions.map(one).reverse();
  const shown = JSON.stringify(live.decisions);
  if (at("decisions").dataset.shown === shown) return;
  at("decisions").dataset.shown = shown;
  at("decisions").replaceChildren(...all);
  const rest = live.decisions_left_out;
  say("decisions-rest", all.length ? (rest ? `${rest} earlier ones are not shown.` : "") : "None yet.");
}

function show(live) {
  const { status } = live;
  at("login").hidden = true;
  at("live").hidden = false;
  say("mount", live.mount);
  document.title = `Tidefs ${live.mount}`;
  say("about", `${status?.store ?? "no store answers"}, up for ${span((live.seen ?? live.started) - live.started)}, ${live.version}`);
  figures(live);
  history.show(live.history);
  at("nodes").tBodies[0].replaceChildren(...(status?.nodes ?? []).map(node));
  say("change", change(status));
  const wrong = notes(status);
  at("notes").hidden = wrong.length === 0;
  const shown = JSON.stringify(wrong);
  if (at("notes").dataset.shown !== shown) {
    at("notes").dataset.shown = shown;
    at("notes-list").replaceChildren(...wrong.map((it) => make("li", it)));
  }
  decisions(live);
}

let next = null;
let heard = null;
// Answers in a row that did not come.
let silent = 0;

async function look() {
  clearTimeout(next);
  if (!sessionStorage.getItem(TOKEN)) return asks("");
  try {
    const live = await ask("live.json");
    const first = heard === null;
    heard = new Date();
    silent = 0;
    show(live);
    const old = heard / 1000 - (live.seen ?? 0);
    say("connection", old < OLD_SECONDS ? "Live, once a second." : `The file system was last looked at ${span(old)} ago.`);
    if (first) list([]);
  } catch (error) {
    if (error instanceof Refused) {
      sessionStorage.removeItem(TOKEN);
      const other = "This is the token of metrics; the page has its own, in the file page-token beside it.";
      return asks(error instanceof Forbidden ? other : "This is not the token of this file system.");
    }
    silent += 1;
    const since = heard ? ` What is shown is of ${heard.toLocaleTimeString()}.` : "";
    const why = error instanceof Told ? `${error.message}.` : "the file system has ended, or cannot be reached.";
    // Another program may have the address next, and is not to be shown the token for ever.
    const last = silent < SILENT_MOST ? "" : " Reload the page to ask again.";
    say("connection", `No answer: ${why}${since}${last}`);
  }
  if (!document.hidden && silent < SILENT_MOST) next = setTimeout(look, EVERY_MS);
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden && at("login").hidden) look();
});

// The directory that is shown: name and part of the path of each on the way to it.
let way = [];

async function list(to) {
  try {
    const listed = await ask(["tree", ...to.map((it) => it.part)].join("/"));
    way = to;
    rows(listed);
    say("tree-sum", `${size(listed.bytes)} in ${listed.files.toLocaleString("en")} files${listed.complete ? "" : " at least"}`);
    say("tree-rest", listed.left_out ? `${listed.left_out} smaller entries are not shown.` : "");
  } catch (error) {
    if (error instanceof Refused) return;
    say("tree-sum", error.message);
    // Another browser may have asked just now.
    if (error instanceof Told && !at("way").firstElementChild) setTimeout(() => list(to), EVERY_MS);
  }
}

function rows(listed) {
  const step = (to, name) => {
    const button = make("button", name, { type: "button" });
    button.addEventListener("click", () => list(to).then(() => at("way").lastElementChild.firstElementChild.focus()));
    return button;
  };
  const steps = [{ name: at("mount").textContent || "/" }, ...way].map((it, index) => make("li", step(way.slice(0, index), it.name)));
  steps.at(-1).firstElementChild.setAttribute("aria-current", "location");
  at("way").replaceChildren(...steps);
  const most = Math.max(1, ...listed.entries.map((it) => it.bytes));
  const row = (it) => {
    const name = it.kind === "directory" ? step([...way, it], `${it.name}/`) : it.kind === "file" ? it.name : `${it.name} (${it.kind})`;
    return make("tr", [
      make("td", [name, bar(it.bytes / most)].flat()),
      make("td", `${size(it.bytes)}${it.complete ? "" : " at least"}`, { "data-label": "Memory" }),
      make("td", it.kind === "directory" ? it.files.toLocaleString("en") : "", it.kind === "directory" ? { "data-label": "Files" } : {}),
    ]);
  };
  at("tree").tBodies[0].replaceChildren(...listed.entries.map(row));
}

at("look").addEventListener("click", () => list(way));

const given = new URLSearchParams(location.hash.slice(1)).get("token");
if (given) {
  sessionStorage.setItem(TOKEN, given);
  // It does not stay in the address, where it would be bookmarked.
  window.history.replaceState(null, "", location.pathname);
}
look();
