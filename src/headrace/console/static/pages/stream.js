// One stream: entries by pages from any ID or time, a live tail, filters, one entry with its place in each group.
import { ask, lines } from "../api.js";
import { add, fill, h } from "../dom.js";
import { age, ago, duration, idTime, number, size, time } from "../format.js";
import { decodeName, encodeName, shownName, word } from "../names.js";
import { t } from "../texts.js";
import { viewsOf } from "../views.js";
import { act, copyButton, dialog, empty, every, field, loading, mayAct, name, notice, problemBox, say, table } from "../widgets.js";
import { groupColumns, createGroup } from "./group_rows.js";

const PAGE = 50;
const TAIL_ROWS = 200;

export async function show(place, [encoded], signal) {
  const stream = decodeName(encoded);
  const state = { backwards: true, start: "", end: "", filter: "", columns: null, trail: [] };
  let following = null;             // the AbortController of the live tail
  let paused = false, held = [];
  const facts = h("dl", { class: "figures" });
  const groups = h("div");
  const list = h("div", { class: "entries" });
  const status = h("p", { class: "note", role: "status" });
  const slider = h("input", { type: "range", min: "0", max: "1000", value: "1000", "aria-label": t("stream.slider"),
    oninput: () => { sliderTime.textContent = time(slidTo()); }, onchange: () => seek(String(Math.round(slidTo()))) });
  const sliderTime = h("span", { class: "quiet" });
  const seekBox = h("input", { type: "text", "data-search": "", placeholder: t("stream.seek_hint"), "aria-label": t("stream.seek"), onkeydown: (event) => { if (event.key === "Enter") seekTyped(); } });
  const filterBox = h("input", { type: "text", placeholder: "temp > 25 and dev = 3", "aria-label": t("stream.filter"), onkeydown: (event) => { if (event.key === "Enter") { state.filter = filterBox.value; restart(); } } });
  const tailButton = h("button", { onclick: toggleTail, "aria-pressed": "false" }, t("stream.tail"));
  const pauseButton = h("button", { hidden: true, onclick: () => pause(!paused), "aria-pressed": "false" }, t("stream.pause"));
  const older = h("button", { onclick: () => page(1) }, t("stream.older"));
  const newer = h("button", { onclick: () => page(-1), disabled: true }, t("stream.newer"));
  let known = null;
  let shown = [];                   // the entries in the table

  fill(place, h("nav", { class: "crumbs", "aria-label": t("crumbs") }, h("a", { href: "#/streams" }, t("nav.streams")), " / "),
    h("div", { class: "title" }, h("h1", {}, name(stream)),
      h("span", { class: "actions" }, h("a", { class: "button", href: `#/inside/${encodeName(stream)}` }, t("inside.open")),
        mayAct() && [h("button", { onclick: addEntry }, t("stream.add")),
          h("button", { class: "danger", onclick: async () => { if (await act("delete_stream", { stream })) location.hash = "#/streams"; } }, t("stream.delete"))])),
    facts, h("section", { class: "card list" }, h("header", {}, h("h2", {}, t("groups")), mayAct() && h("button", { class: "small", onclick: async () => { if (await createGroup(stream)) readFacts().catch(() => {}); } }, t("group.create"))), groups),
    h("section", { class: "card list" }, h("header", {}, h("h2", {}, t("entries")), h("span", { class: "actions" }, tailButton, pauseButton,
      h("button", { class: "small", onclick: exportPage }, t("stream.export")), h("button", { class: "small", onclick: exportAll }, t("stream.export_all")))),
    h("div", { class: "tools" }, seekBox, h("button", { onclick: seekTyped }, t("stream.go")), filterBox, h("button", { onclick: () => { state.filter = filterBox.value; restart(); } }, t("stream.apply"))),
    h("div", { class: "slider" }, slider, sliderTime), status, list, h("div", { class: "pager" }, newer, older)));
  fill(list, loading());
  signal.addEventListener("abort", () => following?.abort());
  await Promise.all([every(4000, signal, readFacts), read()]);

  async function readFacts() {
    try { known = await ask("stream", { stream }, signal); }
    catch (error) {
      if (error.code === "no_stream") fill(facts, empty(t("stream.gone")));
      else if (error.name !== "AbortError" && error.status !== 503) fill(facts, problemBox(error));
      throw error;
    }
    const figure = (label, value, note) => h("div", { class: "figure" }, h("dt", {}, label), h("dd", {}, value, note && h("small", {}, note)));
    fill(facts, figure(t("length"), number(known.length), known.added !== null && t("stream.added", { n: number(known.added) })),
      figure(t("first_entry"), ago(known.first), known.first), figure(t("last_entry"), ago(known.last), known.last),
      figure(t("memory"), size(known.memory), known.nodes && t("stream.nodes", { n: number(known.nodes) })),
      known.where?.["disk-bytes"] ? figure(t("overview.disk"), size(known.where["disk-bytes"]), t("overview.entries", { n: number(known.where["disk-entries"]) })) : null,
      known.dead ? figure(t("nav.dead"), h("a", { href: `#/dead/${encodeName(`${stream}:dead`)}` }, number(known.dead))) : null,
      known.scheduled ? figure(t("nav.scheduled"), h("a", { href: `#/scheduled/${encodeName(stream)}` }, number(known.scheduled))) : null,
      known.ttl !== null ? figure(t("stream.expires"), duration(known.ttl)) : null);
    fill(groups, table(groupColumns({ withStream: false }), known.groups, { label: t("groups"), emptyText: t("group.none"),
      open: (row) => { location.hash = `#/group/${encodeName(stream)}/${encodeName(row.name)}`; } }));
    const [from, to] = [idTime(known.first), idTime(known.last)];
    slider.disabled = from === null || to === null || from === to;
    if (document.activeElement !== slider && state.end === "" && to !== null) sliderTime.textContent = `${time(from, { millis: false })} – ${time(to, { millis: false })}`;
  }

  function slidTo() {
    const [from, to] = [idTime(known?.first) ?? 0, idTime(known?.last) ?? 0];
    return from + ((to - from) * slider.value) / 1000;
  }

  async function read() {
    let told;
    try {
      told = await ask("entries", { stream, count: PAGE, backwards: state.backwards, start: state.start || "-", end: state.end || "+", filter: state.filter }, signal);
    } catch (error) { if (error.name !== "AbortError") fill(list, problemBox(error)); return; }
    state.next = told.next;
    status.textContent = state.filter ? t("stream.looked_at", { n: number(told.looked_at), found: number(told.entries.length) }) : "";
    older.disabled = !told.next;
    newer.disabled = !state.trail.length;
    draw(told.entries);
  }

  function restart() { stopTail(); state.trail = []; state.start = ""; state.end = ""; slider.value = "1000"; return read(); }
  function seek(id) { stopTail(); state.trail = []; state.end = id; read(); }

  function seekTyped() {
    const text = seekBox.value.trim();
    state.filter = filterBox.value;
    if (!text) { restart(); return; }
    if (/^\d{1,20}(-\d{1,20})?$/.test(text)) { seek(text); return; }
    const at = Date.parse(text);
    if (Number.isNaN(at)) notice(t("stream.bad_seek", { text }), "error");
    else seek(`${at}`);
  }

  function page(step) {
    stopTail();
    if (step > 0) { state.trail.push(state.end); state.end = state.next; } else state.end = state.trail.pop() ?? "";
    read();
  }

  // --- the table ---------------------------------------------------------------------------------------------------

  function columnsOf(entries) {
    const counts = new Map();
    for (const entry of entries) for (const [each] of entry.fields) counts.set(each, (counts.get(each) ?? 0) + 1);
    return [...counts].sort((one, other) => other[1] - one[1]).slice(0, 8).map(([each]) => each);
  }

  function draw(entries) {
    shown = entries;
    const fields = columnsOf(entries);
    const cell = (row, wanted) => { const pair = row.fields.find(([each]) => each === wanted); return pair ? h("span", { class: "value" }, shownName(pair[1], 80) + (pair[2] ? "…" : "")) : ""; };
    const columns = [
      { label: t("id"), cell: (row) => h("button", { class: "link mono", onclick: () => showEntry(row.id) }, row.id) },
      { label: t("time"), narrow: true, cell: (row) => h("span", { class: "mono quiet" }, time(idTime(row.id))) },
      ...fields.map((each) => ({ label: shownName(each, 40), cell: (row) => cell(row, each) })),
    ];
    fill(list, table(columns, entries, { label: t("entries"), open: (row) => showEntry(row.id), emptyText: state.filter ? t("stream.none_match") : t("stream.no_entries") }));
  }

  async function showEntry(id) {
    let told;
    try { told = await ask("entry", { stream, id }, signal); } catch (error) { say(error); return; }
    if (!told.entry) { notice(t("stream.entry_gone", { id }), "error"); return; }
    const command = `XADD ${word(stream)} ${id} ${told.entry.fields.map(([each, value]) => `${word(each)} ${word(value)}`).join(" ")}`;
    const places = told.places.length ? h("table", { class: "small" }, add(h("tbody"), told.places.map((each) => h("tr", {}, h("th", { scope: "row" }, name(each.group)),
      h("td", {}, t(`place.${each.state}`, { consumer: shownName(each.consumer ?? "", 40), idle: duration(each.idle_ms), n: number(each.deliveries) })))))) : h("p", { class: "quiet" }, t("group.none"));
    const { close } = dialog(id, h("div", {}, h("p", { class: "quiet" }, time(idTime(id)), " · ", t("ago", { age: age(id) })), ...told.entry.fields.map(fieldView), h("h3", {}, t("stream.place")), places), [
      () => copyLabelled(command),
      mayAct() && (() => h("button", { class: "danger", onclick: async () => { close(); if (await act("delete", { stream, ids: [id] })) read(); } }, t("stream.delete_entry"))),
    ].filter(Boolean));
  }

  function copyLabelled(command) { const button = copyButton(command); button.textContent = t("stream.copy_xadd"); return button; }

  function fieldView([each, value, full]) {
    const views = viewsOf(value);
    const content = h("pre", { tabindex: "0" }, views[0][1]);
    const buttons = views.map(([label, text]) => h("button", { class: "small", "aria-pressed": String(label === views[0][0]), onclick: (event) => {
      content.textContent = text;
      for (const button of event.target.parentNode.children) button.setAttribute("aria-pressed", String(button === event.target));
    } }, label));
    return h("div", { class: "field-view" }, h("div", { class: "field-name" }, h("b", {}, shownName(each)), h("span", { class: "views" }, buttons)), content,
      full && h("p", { class: "note" }, t("stream.cut", { size: size(full) })));
  }

  // --- the live tail -----------------------------------------------------------------------------------------------

  function stopTail() {
    following?.abort();
    following = null;
    tailButton.setAttribute("aria-pressed", "false");
    pauseButton.hidden = true;
  }

  async function toggleTail() {
    if (following) { stopTail(); read(); return; }
    following = new AbortController();
    const own = following;
    tailButton.setAttribute("aria-pressed", "true");
    pauseButton.hidden = false;
    pause(false);
    state.trail = [];
    newer.disabled = older.disabled = true;
    draw([]);
    status.textContent = t("stream.waiting");
    try {
      for await (const batch of lines("tail", { stream, filter: state.filter }, own.signal)) {
        if (own.signal.aborted) return;
        if (batch.away) { status.textContent = t("error.away"); continue; }
        if (batch.error) { notice(`${t(`error.${batch.error}`)} ${batch.text}`, "error"); break; }
        if (batch.skipped) notice(t("stream.skipped"));
        held.push(...batch.entries);
        held = held.slice(-TAIL_ROWS);
        if (!paused) flush();
        else pauseButton.textContent = t("stream.resume", { n: number(held.length) });
      }
    } catch (error) { say(error); }
    if (following === own) stopTail();
  }

  function flush() {
    if (held.length) { draw([...held.reverse(), ...shown].slice(0, TAIL_ROWS)); held = []; status.textContent = t("stream.live", { n: number(shown.length) }); }
  }

  function pause(wanted) {
    paused = wanted;
    pauseButton.setAttribute("aria-pressed", String(paused));
    pauseButton.textContent = paused ? t("stream.resume", { n: number(held.length) }) : t("stream.pause");
    if (!paused) flush();
  }

  // --- acts --------------------------------------------------------------------------------------------------------

  function addEntry() {
    const rows = h("div");
    const addRow = (focus) => {
      const pair = h("div", { class: "pair" }, h("input", { placeholder: t("field"), "aria-label": t("field") }), h("input", { placeholder: t("value"), "aria-label": t("value") }));
      rows.append(pair);
      if (focus) pair.firstChild.focus();
    };
    addRow(false);
    const id = h("input", { value: "*" });
    const { close } = dialog(t("stream.add"), h("div", {}, field(t("id"), id, t("stream.id_hint")), rows, h("button", { class: "small", onclick: () => addRow(true) }, t("stream.more_fields"))), [
      (shut) => h("button", { onclick: shut }, t("cancel")),
      () => h("button", { class: "primary", onclick: async () => {
        const fields = [...rows.children].map((pair) => [pair.children[0].value, pair.children[1].value]).filter(([each]) => each);
        if (!fields.length) { notice(t("stream.no_fields"), "error"); return; }
        close();
        if (await act("add", { stream, id: id.value, fields }, { danger: false })) { restart(); readFacts().catch(() => {}); }
      } }, t("next")),
    ]);
  }

  // All entries up to where the page begins that match the filter: the browser loads them as a file, however many they are.
  async function exportAll() {
    try {
      const { path } = await ask("export", { stream, end: state.end || "+", filter: state.filter }, signal);
      h("a", { href: path, download: "entries.ndjson" }).click();
    } catch (error) { say(error); }
  }

  function exportPage() {
    const text = shown.map((entry) => JSON.stringify({ id: entry.id, fields: entry.fields.map(([each, value]) => [each, value]) })).join("\n");
    const link = h("a", { href: URL.createObjectURL(new Blob([text + "\n"], { type: "application/x-ndjson" })), download: "entries.ndjson" });
    link.click();
    URL.revokeObjectURL(link.href);
  }
}
