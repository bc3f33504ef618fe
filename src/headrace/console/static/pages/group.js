// One group: lag in entries and in time, consumers, what is pending by age and by deliveries, and what can be done with it.
import { ask, session } from "../api.js";
import { Chart, bars } from "../charts.js";
import { fill, h } from "../dom.js";
import { age, duration, idTime, number, rate, time } from "../format.js";
import { decodeName, encodeName } from "../names.js";
import { t } from "../texts.js";
import { act, dialog, empty, every, field, loading, mayAct, name, notice, problemBox, say, table } from "../widgets.js";
import { lagMs } from "./group_rows.js";

const PAGE = 50;

export async function show(place, [encodedStream, encodedGroup], signal) {
  const stream = decodeName(encodedStream), group = decodeName(encodedGroup);
  const chart = new Chart(t("group.over_time"), [{ label: t("lag"), show: number }, { label: t("pending"), show: number }]);
  const inTime = new Chart(t("group.in_time"), [{ label: t("lag"), show: duration }, { label: t("group.oldest_pending"), show: duration }]);
  signal.addEventListener("abort", () => { chart.close(); inTime.close(); });
  const facts = h("dl", { class: "figures" });
  const consumers = h("div");
  const pictures = h("div", { class: "grid" });
  const pending = h("div");
  const chosen = new Set();
  let start = "-", consumer = "", before = null, told = null;
  const rates = new Map();
  fill(place, h("nav", { class: "crumbs", "aria-label": t("crumbs") }, h("a", { href: "#/streams" }, t("nav.streams")), " / ", h("a", { href: `#/stream/${encodedStream}` }, name(stream)), " / "),
    h("div", { class: "title" }, h("h1", {}, name(group)), mayAct() && h("span", { class: "actions" },
      h("button", { onclick: setPosition }, t("group.set_position")),
      h("button", { class: "danger", onclick: async () => { if (await act("destroy_group", { stream, group })) location.hash = `#/stream/${encodedStream}`; } }, t("group.destroy")))),
    facts, h("div", { class: "grid charts" }, chart.element, inTime.element), pictures,
    h("section", { class: "card list" }, h("header", {}, h("h2", {}, t("consumers"))), consumers),
    h("section", { class: "card list" }, h("header", {}, h("h2", {}, t("group.pending")), mayAct() && h("span", { class: "actions" },
      h("button", { class: "small", onclick: () => settle("ack") }, t("group.ack")),
      h("button", { class: "small", onclick: claim }, t("group.claim")),
      session.about.product.xnack ? h("button", { class: "small", onclick: () => settle("release") }, t("group.release")) : h("small", { class: "quiet" }, t("group.no_release")))), pending));
  fill(consumers, loading());
  await Promise.all([every(3000, signal, read), readPending()]);

  async function read() {
    try { told = await ask("group", { stream, group }, signal); }
    catch (error) {
      if (error.code === "no_group" || /no such key/.test(error.detail)) fill(facts, empty(t("group.gone")));
      else if (error.name !== "AbortError" && error.status !== 503) fill(facts, problemBox(error));
      throw error;
    }
    chart.push(Date.now(), [told.lag, told.pending]);
    inTime.push(Date.now(), [told.lag === null ? null : lagMs(told), told.oldest_ms ?? 0]);
    const now = performance.now();
    const speed = before && told.read !== null && before.read !== null ? Math.max(told.read - before.read, 0) / ((now - before.at) / 1000) : null;
    before = { read: told.read, at: now };
    const figure = (label, value, note, kind = "") => h("div", { class: `figure ${kind}` }, h("dt", {}, label), h("dd", {}, value, note && h("small", {}, note)));
    fill(facts, figure(t("lag"), told.lag === null ? t("unknown") : number(told.lag), told.lag === null ? t("group.lag_unknown") : duration(lagMs(told)), told.lag ? "warned" : ""),
      figure(t("pending"), number(told.pending), told.oldest_ms === null ? "" : t("group.oldest", { age: duration(told.oldest_ms) })),
      figure(t("consumers"), number(told.consumer_count)),
      figure(t("position"), idTime(told.last) === null ? told.last : t("ago", { age: age(told.last) }), told.last),
      figure(t("group.speed"), speed === null ? "–" : number(Math.round(speed)), t("entries_per_second")));
    const seconds = (bound) => (bound === null ? t("group.longer") : `≤ ${duration(bound).replace(".0 ", " ")}`);
    fill(pictures, bars(t("group.by_age"), told.by_age.map(([bound, count]) => [seconds(bound), count]), told.counted < told.pending ? t("group.counted", { n: number(told.counted) }) : ""),
      bars(t("group.by_deliveries"), told.by_deliveries.map(([bound, count]) => [bound === null ? t("group.more_often") : `≤ ${bound}`, count])));
    const since = (each, field) => { const known = rates.get(each.name); return known && each[field] >= known[field] ? (each[field] - known[field]) / ((told.at_ms - known.at_ms) / 1000) : null; };
    for (const each of told.consumers) { each.given = since(each, "delivered"); each.settled = since(each, "acknowledged"); }
    for (const each of told.consumers) rates.set(each.name, { ...each, at_ms: told.at_ms });
    fill(consumers, table([
      { label: t("consumer"), cell: (row) => h("button", { class: "link", onclick: () => { consumer = row.name; start = "-"; readPending(); } }, name(row.name)) },
      { label: t("pending"), num: true, cell: (row) => number(row.pending) },
      told.counts && { label: t("group.given"), num: true, narrow: true, cell: (row) => rate(row.given) },
      told.counts && { label: t("group.settled"), num: true, cell: (row) => rate(row.settled) },
      { label: t("idle"), num: true, cell: (row) => duration(row.idle_ms) },
      { label: t("inactive"), num: true, narrow: true, cell: (row) => duration(row.inactive_ms) },
      mayAct() && { label: "", cell: (row) => h("button", { class: "small danger", onclick: async () => { if (await act("delete_consumer", { stream, group, consumer: row.name })) again() } }, t("delete")) },
    ].filter(Boolean), told.consumers, { label: t("consumers"), emptyText: t("group.no_consumers") }),
    told.counts ? null : h("p", { class: "note" }, t("group.no_rates")));
  }

  function again() {
    read().catch(() => {});   // what went wrong is on the page already
    readPending();
  }

  async function readPending() {
    let page;
    try { page = await ask("pending", { stream, group, start, consumer, count: PAGE }, signal); }
    catch (error) { if (error.name !== "AbortError") fill(pending, problemBox(error)); return; }
    chosen.clear();
    const boxes = [];
    const all = h("input", { type: "checkbox", "aria-label": t("choose_all"), onchange: () => boxes.forEach((box) => { if (box.checked !== all.checked) box.click(); }) });
    fill(pending, consumer && h("p", { class: "note" }, t("group.of_consumer"), " ", name(consumer), " ", h("button", { class: "small", onclick: () => { consumer = ""; start = "-"; readPending(); } }, t("group.of_all"))),
      table([
        mayAct() && { label: all, cell: (row) => { const box = h("input", { type: "checkbox", "aria-label": t("choose", { id: row.id }), onchange: () => (box.checked ? chosen.add(row.id) : chosen.delete(row.id)) }); boxes.push(box); return box; } },
        { label: t("id"), cell: (row) => h("span", { class: "mono" }, row.id) },
        { label: t("consumer"), cell: (row) => (row.consumer ? name(row.consumer) : h("span", { class: "quiet" }, t("group.nobody"))) },
        { label: t("idle"), num: true, cell: (row) => duration(row.idle_ms) },
        { label: t("deliveries"), num: true, cell: (row) => number(row.deliveries) },
        { label: t("time"), narrow: true, cell: (row) => h("span", { class: "mono quiet" }, time(idTime(row.id))) },
      ].filter(Boolean), page.rows, { label: t("group.pending"), emptyText: t("group.none_pending") }),
      h("div", { class: "pager" }, start !== "-" && h("button", { onclick: () => { start = "-"; readPending(); } }, t("pager.first")), page.next && h("button", { onclick: () => { start = page.next; readPending(); } }, t("pager.next"))));
  }

  function picked() {
    if (chosen.size) return [...chosen];
    notice(t("group.choose_some"), "error");
    return null;
  }

  async function settle(kind) {
    const ids = picked();
    if (ids && await act(kind, { stream, group, ids })) again()
  }

  function claim() {
    const ids = picked();
    if (!ids) return;
    const to = h("input", {});
    const { close } = dialog(t("group.claim"), field(t("group.claim_to"), to), [
      (shut) => h("button", { onclick: shut }, t("cancel")),
      () => h("button", { class: "primary", onclick: async () => { if (!to.value) { to.focus(); return; } close(); if (await act("claim", { stream, group, consumer: to.value, ids, idle_ms: 0 })) again() } }, t("next"))]);
  }

  function setPosition() {
    const kind = h("select", {}, ...["time", "id", "before_end"].map((each) => h("option", { value: each }, t(`group.by_${each}`))));
    const value = h("input", { placeholder: "2026-11-16 13:30" });
    const hint = { time: "2026-11-16 13:30", id: "1628172536845-0, 0, $", before_end: "100" };
    kind.addEventListener("change", () => { value.placeholder = hint[kind.value]; });
    const { close } = dialog(t("group.set_position"), h("div", {}, field(t("group.by"), kind), field(t("value"), value)), [
      (shut) => h("button", { onclick: shut }, t("cancel")),
      () => h("button", { class: "primary", onclick: async () => {
        const id = await target(kind.value, value.value.trim());
        if (id === null) { notice(t("stream.bad_seek", { text: value.value }), "error"); return; }
        close();
        if (await act("set_position", { stream, group, id })) again();
      } }, t("next"))]);
  }

  // The position is the last entry that counts as delivered.
  async function target(kind, text) {
    if (kind === "id") return /^(\$|\d{1,20}(-\d{1,20})?)$/.test(text) ? text : null;
    if (kind === "time") { const at = Date.parse(text); return Number.isNaN(at) ? null : `${at - 1}-18446744073709551615`; }
    const back = Number(text);
    if (!Number.isInteger(back) || back < 0 || back > 199) return null;
    if (back === 0) return "$";
    try {
      const { entries } = await ask("entries", { stream, backwards: true, count: back + 1 }, signal);
      return entries.length > back ? entries[back].id : "0";
    } catch (error) { say(error); return null; }
  }
}
