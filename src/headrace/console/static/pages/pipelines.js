// Spark queries: how many batches and rows, how far behind the end, the last error; and what queries have written.
import { ask } from "../api.js";
import { fill, h } from "../dom.js";
import { duration, idTime, number, rate, time } from "../format.js";
import { encodeName, shownName } from "../names.js";
import { t } from "../texts.js";
import { act, every, loading, mayAct, name, problemBox, table } from "../widgets.js";

const ago = (ms) => (ms === null ? "–" : t("ago", { age: duration(Math.max(Date.now() - ms, 0)) }));

export async function show(place, _words, signal) {
  const reading = h("div"), writing = h("div"), note = h("div");
  fill(place, h("h1", {}, t("nav.pipelines")), h("p", { class: "note" }, t("pipelines.about")),
    h("section", { class: "card list" }, h("header", {}, h("h2", {}, t("pipelines.reading"))), reading),
    h("section", { class: "card list" }, h("header", {}, h("h2", {}, t("pipelines.writing"))), writing), note);
  fill(reading, loading());
  const again = () => read().catch(() => {});
  await every(3000, signal, read);

  async function read() {
    let told;
    try { told = await ask("pipelines", {}, signal); }
    catch (error) { if (error.name !== "AbortError" && error.status !== 503) fill(reading, problemBox(error)); throw error; }
    const stream = (row) => h("small", { class: "below" }, h("a", { href: `#/stream/${encodeName(row.stream)}` }, name(row.stream)));
    const forget = (writes) => mayAct() && { label: "", cell: (row) => h("button", { class: "small", onclick: async () => { if (await act("forget_query", { stream: row.stream, query: row.query, writes })) again(); } }, t("pipelines.forget")) };
    fill(reading, table([
      { label: t("pipelines.query"), cell: (row) => [row.last === null ? name(row.query) : h("a", { href: `#/group/${encodeName(row.stream)}/${encodeName(row.query)}` }, name(row.query)), stream(row)] },
      { label: t("pipelines.progress"), cell: progress },
      { label: t("lag"), num: true, cell: (row) => h("span", { class: row.lag ? "warn" : "" }, row.lag === null ? "–" : number(row.lag)) },
      { label: t("pipelines.speed"), num: true, narrow: true, cell: (row) => rate(speed(row)) },
      { label: t("pipelines.batches"), num: true, narrow: true, cell: (row) => [number(row.batches), row.started && h("small", { class: "below" }, t("pipelines.since", { age: duration(Math.max(Date.now() - row.started, 0)) }))] },
      { label: t("pipelines.rows"), num: true, narrow: true, cell: (row) => [number(row.rows), row.batch_rows !== null && h("small", { class: "below" }, t("pipelines.last_rows", { n: number(row.batch_rows) }))] },
      { label: t("pipelines.last_batch"), num: true, cell: (row) => ago(row.at) },
      { label: t("pipelines.error"), cell: (row) => (row.error ? h("span", { class: "bad value" }, shownName(row.error, 300), h("small", { class: "below" }, ago(row.error_at))) : h("span", { class: "quiet" }, t("pipelines.no_error"))) },
      forget(false),
    ].filter(Boolean), told.reading, { label: t("pipelines.reading"), emptyText: t("pipelines.none_reading") }));
    fill(writing, table([
      { label: t("pipelines.query"), cell: (row) => [name(row.query), stream(row)] },
      { label: t("pipelines.last_batch"), num: true, cell: (row) => number(row.batch) },
      { label: t("pipelines.rows"), num: true, cell: (row) => number(row.entries) },
      { label: t("pipelines.from_to"), narrow: true, cell: (row) => h("span", { class: "mono" }, `${row.first} – ${row.last}`) },
      { label: t("time"), narrow: true, cell: (row) => h("span", { class: "mono quiet" }, time(idTime(row.last))) },
      forget(true),
    ].filter(Boolean), told.writing, { label: t("pipelines.writing"), emptyText: t("pipelines.none_writing") }));
    fill(note, told.more && h("p", { class: "note" }, t("streams.more", { n: number(500) })));
  }

  function speed(row) { return row.batch_rows === null || row.at === null || row.before === null ? null : row.batch_rows / Math.max((row.at - row.before) / 1000, 0.001); }

  function progress(row) {
    if (row.last === null) return h("span", { class: "warn" }, t("pipelines.no_group"));
    const ids = h("small", { class: "below mono wide-only" }, `${row.last} → ${row.end ?? "–"}`);
    if (row.lag === null || row.read === null) return ids;
    const all = row.read + row.lag;
    return [h("meter", { min: "0", max: String(Math.max(all, 1)), value: String(row.read), "aria-label": t("pipelines.done", { done: number(row.read), all: number(all) }) }), ids];
  }
}
