/**
 * The script of the console's page, as plain JavaScript text, because it is not built. `page.ts`
 * has the elements that it fills, and `Console` answers its requests.
 *
 * The token arrives in the URL's fragment, which browsers do not send. It is kept in the session
 * storage of the tab and of this origin, port included, and removed from the address bar before the
 * first request.
 */

export const script = `
"use strict";
const $ = (id) => document.getElementById(id);
// Soon enough to watch an agent work, seldom enough to leave the broker alone.
const FOLLOW_MS = 2000;
let agent, turns = [], chosen, loading = 0;

const KEY = "agents_console_token";
let token = sessionStorage.getItem(KEY);
function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given === null) return;
  history.replaceState(null, "", location.pathname);
  useToken(given);
}
function useToken(given) {
  token = given === null || given === "" ? null : given;
  if (token === null) sessionStorage.removeItem(KEY);
  else sessionStorage.setItem(KEY, token);
  showToken();
}
function showToken() {
  $("enter").hidden = token !== null;
  for (const part of document.querySelectorAll(".data")) part.hidden = token === null;
}

async function ask(path, options) {
  if (token === null) throw new Error("the console's token is missing");
  const used = token;
  const response = await fetch("/api/" + path, { ...options, headers: { authorization: "Bearer " + used } });
  if (response.status === 401 && token === used) useToken(null);
  const text = await response.text();
  let value;
  try { value = JSON.parse(text); } catch { value = { error: text.trim() || response.statusText }; }
  if (!response.ok) throw new Error(value.error ?? response.statusText);
  return value;
}
function element(tag, text, more = {}) {
  const made = document.createElement(tag);
  made.textContent = text;
  return Object.assign(made, more);
}
const fill = (parent, children) => parent.replaceChildren(...children);
const guarded = (work) => async (...given) => {
  try { $("status").textContent = ""; $("status").className = ""; return await work(...given); }
  catch (error) { $("status").textContent = error.message; $("status").className = "bad"; }
};
const pathOf = (found) => "agents/" + encodeURIComponent(found.class) + "/" + encodeURIComponent(found.name);
const is = (a, b) => a !== undefined && a.class === b.class && a.name === b.name;

const showAgents = guarded(async () => {
  const query = new URLSearchParams({ class: $("class").value, prefix: $("prefix").value });
  const mine = ++loading;
  const found = await ask("agents?" + query);
  if (mine !== loading) return;
  fill($("agents"), found.map((one) => {
    const item = element("li", "");
    const button = element("button", one.name, { onclick: () => choose(one) });
    button.setAttribute("aria-current", is(agent, one));
    button.append(element("small", one.class + " \\u00b7 " + one.events + " events \\u00b7 " + (one.owner ?? "no host")));
    item.append(button);
    return item;
  }));
});
const showHosts = guarded(async () => {
  const hosts = await ask("hosts");
  $("hosts").textContent = hosts.map((one) => one.host + ": " + one.shards + " shards").join(" \\u00b7 ") || "no host runs";
});
const showQuarantined = guarded(async () => {
  const found = await ask("quarantined");
  $("aside").hidden = found.length === 0;
  fill($("quarantined"), found.map((one) => {
    const item = element("li", one.class + " " + one.name);
    item.append(element("small", one.reason, { className: "bad", title: one.reason }));
    item.append(element("button", "release", { className: "act", onclick: guarded(async () => {
      if (!confirm("Release " + one.name + "? What waits for it runs at once.")) return;
      await ask(pathOf(one) + "/release", { method: "POST" });
      await showQuarantined();
    }) }));
    return item;
  }));
});
const showDead = guarded(async () => {
  const letters = await ask("dead");
  fill($("dead"), letters.length === 0 ? [element("li", "none")] : letters.map((letter) => {
    const item = element("li", letter.class + " " + letter.name);
    item.append(element("small", letter.reason ?? letter.unreadable ?? "", { className: "bad" }));
    for (const act of letter.unreadable ? ["drop"] : ["redrive", "drop"])
      item.append(element("button", act, { className: "act", onclick: guarded(async () => {
        if (!confirm(act + " dead letter " + letter.id + "?")) return;
        await ask("dead/" + letter.id + "/" + act, { method: "POST" });
        await showDead();
      }) }));
    return item;
  }));
});

const choose = guarded(async (one) => {
  agent = one; chosen = undefined; turns = [];
  await Promise.all([showTurns(), showAgents()]);
});
const showTurns = guarded(async () => {
  const of = agent;
  const found = await ask(pathOf(of) + "/history?limit=1000");
  if (!is(agent, of)) return;
  const last = (list) => list.length === 0 ? 0 : list[list.length - 1].seq;
  const follows = chosen === undefined || chosen === last(turns);
  const grown = last(found) !== last(turns);
  turns = found;
  drawTurns();
  if (turns.length > 0 && follows && grown) await showAt(last(turns));
});
function valueAt(state, path) {
  let value = state;
  for (const key of path.split(".")) value = value === null || typeof value !== "object" ? undefined : value[key];
  return JSON.stringify(value);
}
/** Only turns after which the field was another than before; all when none is asked for. */
function wanted() {
  const field = $("field").value.trim();
  if (field === "") return turns;
  let before;
  return turns.filter((turn) => {
    if (turn.state === undefined) return false;
    const now = valueAt(turn.state, field);
    const changed = now !== before;
    before = now;
    return changed;
  });
}
function drawTurns() {
  fill($("turns"), wanted().toReversed().map((turn) => {
    const { cause } = turn;
    const item = element("li", "");
    const what = [cause.kind, cause.provider, cause.type].filter(Boolean).join(" ");
    const button = element("button", turn.seq + "  " + what, { onclick: () => showAt(turn.seq) });
    button.setAttribute("aria-current", turn.seq === chosen);
    const marks = [turn.state !== undefined && "state", turn.sql && "sql", turn.schedules && "schedules", turn.queue && "queue"].filter(Boolean);
    button.append(element("small", turn.time + (marks.length ? " \\u00b7 " + marks.join(", ") : "")));
    if (turn.error || turn.dead) button.append(element("small", turn.error ?? "dead", { className: "bad" }));
    item.append(button);
    return item;
  }));
}

/** What differs between two JSON values, a line a path. */
function differences(before, after, path = "") {
  if (JSON.stringify(before) === JSON.stringify(after)) return [];
  const open = (value) => value !== null && typeof value === "object";
  if (!open(before) || !open(after)) return [(path || "state") + ": " + JSON.stringify(before) + " \\u2192 " + JSON.stringify(after)];
  const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return keys.flatMap((key) => differences(before[key], after[key], path === "" ? key : path + "." + key));
}
const pre = (value, className = "") => element("pre", typeof value === "string" ? value : JSON.stringify(value, undefined, 2), { className });
function table(rows) {
  if (rows.length === 0) return element("p", "no rows");
  const made = document.createElement("table");
  const columns = Object.keys(rows[0]);
  const head = made.insertRow();
  for (const column of columns) head.append(element("th", column));
  for (const row of rows) {
    const line = made.insertRow();
    for (const column of columns) line.append(element("td", row[column] === null ? "NULL" : String(row[column])));
  }
  return made;
}
const showAt = guarded(async (seq) => {
  chosen = seq;
  drawTurns();
  const path = pathOf(agent);
  const [state, schedules, tables] = await Promise.all([
    ask(path + "/state?at=" + seq),
    ask(path + "/schedules?at=" + seq),
    ask(path + "/sql?" + new URLSearchParams({ at: seq, query: "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name" })),
  ]);
  if (chosen !== seq) return;
  const index = turns.findIndex((turn) => turn.seq === seq);
  const turn = turns[index];
  const earlier = turns.slice(0, Math.max(index, 0)).findLast((one) => one.state !== undefined);
  $("where").textContent = agent.class + " " + agent.name + " at " + seq + ", " + state.time;
  const parts = [element("h2", "State"), pre(state.state)];
  if (turn?.state !== undefined && earlier !== undefined)
    parts.push(element("h2", "Changed by this turn"), pre(differences(earlier.state, turn.state).join("\\n"), "changed"));
  parts.push(element("h2", "Schedules"), schedules.length === 0 ? element("p", "none") : table(schedules));
  parts.push(element("h2", "Rows"));
  const query = element("textarea", "", { ariaLabel: "Query", placeholder: "SELECT \\u2026" });
  const rows = element("div", "");
  const run = guarded(async () => fill(rows, [table(await ask(path + "/sql?" + new URLSearchParams({ at: seq, query: query.value })))]));
  for (const { name } of tables)
    parts.push(element("button", name, { className: "act", onclick: () => {
      query.value = 'SELECT * FROM "' + name.replaceAll('"', '""') + '" LIMIT 100';
      run();
    } }));
  parts.push(query, element("button", "Run", { className: "act", onclick: run }), rows);
  if (turn !== undefined) parts.push(element("h2", "Turn"), pre(turn));
  fill($("at"), parts);
});

$("class").oninput = $("prefix").oninput = showAgents;
$("field").oninput = drawTurns;
function begin() {
  if (token !== null) { showAgents(); showHosts(); showQuarantined(); showDead(); }
}
function enter() {
  useToken($("token").value.trim());
  $("token").value = "";
  begin();
}
$("open").onclick = enter;
$("token").onkeydown = (event) => { if (event.key === "Enter") enter(); };
addEventListener("hashchange", () => { takeToken(); begin(); });
takeToken(); showToken(); begin();
setInterval(() => { if (token !== null) { showHosts(); if (agent !== undefined) showTurns(); } }, FOLLOW_MS);
`;
