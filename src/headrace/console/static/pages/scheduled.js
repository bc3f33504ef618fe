// Messages that are added later: when, how often, moving and cancelling one.
import { ask, session } from "../api.js";
import { fill, h } from "../dom.js";
import { duration, number, time } from "../format.js";
import { decodeName, encodeName, shownName } from "../names.js";
import { t } from "../texts.js";
import { act, dialog, empty, every, field, loading, mayAct, name, problemBox, table } from "../widgets.js";

const due = (ms) => (ms === null ? "–" : ms > Date.now() ? t("in", { age: duration(ms - Date.now()) }) : t("now"));

export async function show(place, [encoded], signal) {
  const list = h("div");
  const stream = encoded === undefined ? null : decodeName(encoded);
  fill(place, stream !== null && h("nav", { class: "crumbs", "aria-label": t("crumbs") }, h("a", { href: "#/scheduled" }, t("nav.scheduled")), " / "),
    h("h1", {}, stream === null ? t("nav.scheduled") : name(stream)), list);
  if (!session.about.product.headrace) { fill(list, empty(t("scheduled.only_headrace"))); return; }
  fill(list, loading());
  const read = async () => {
    let told;
    try { told = await ask("scheduled", stream === null ? {} : { stream }, signal); }
    catch (error) { if (error.name !== "AbortError" && error.status !== 503) fill(list, problemBox(error)); throw error; }
    if (stream === null) {
      fill(list, table([{ label: t("stream"), cell: (row) => h("a", { href: `#/scheduled/${encodeName(row.stream)}` }, name(row.stream)) },
        { label: t("messages"), num: true, cell: (row) => number(row.count) }, { label: t("scheduled.next"), num: true, cell: (row) => due(row.due) }],
      told.rows, { label: t("nav.scheduled"), open: (row) => { location.hash = `#/scheduled/${encodeName(row.stream)}`; }, emptyText: t("scheduled.none") }));
      return;
    }
    fill(list, table([
      { label: t("scheduled.due"), cell: (row) => [due(row.due), h("small", { class: "below mono" }, time(row.due))] },
      { label: t("scheduled.every"), num: true, cell: (row) => (row.every ? duration(row.every) : t("once")) },
      { label: t("scheduled.ticket"), narrow: true, cell: (row) => h("span", { class: "mono quiet" }, shownName(row.ticket, 60)) },
      { label: t("fields"), cell: (row) => h("span", { class: "value" }, row.fields.slice(0, 6).map(([each, value]) => `${shownName(each, 30)}=${shownName(value, 40)}`).join("  ")) },
      { label: t("scheduled.held"), narrow: true, cell: (row) => (row.held ? h("span", { class: "warn" }, shownName(row.held, 80)) : "–") },
      mayAct() && { label: "", cell: (row) => h("span", { class: "actions" }, h("button", { class: "small", onclick: () => move(row) }, t("scheduled.move")),
        h("button", { class: "small danger", onclick: async () => { if (await act("unschedule", { stream, ticket: row.ticket })) again(); } }, t("scheduled.cancel"))) },
    ].filter(Boolean), told.rows, { label: t("nav.scheduled"), emptyText: t("scheduled.empty") }),
    told.total > told.rows.length && h("p", { class: "note" }, t("scheduled.first", { n: number(told.rows.length), all: number(told.total) })));
  };
  const again = () => read().catch(() => {});
  const move = (row) => {
    const when = h("input", { type: "datetime-local", step: "1", value: time(row.due, { millis: false }).replace(" ", "T") });
    const { close } = dialog(t("scheduled.move"), field(t("scheduled.due"), when, t("scheduled.move_hint")), [
      (shut) => h("button", { onclick: shut }, t("cancel")),
      () => h("button", { class: "primary", onclick: async () => {
        const at = Date.parse(when.value);
        if (Number.isNaN(at)) { when.focus(); return; }
        close();
        if (await act("reschedule", { stream, ticket: row.ticket, at: Math.max(at, 0), when: time(at, { millis: false }) }, { danger: false })) again();
      } }, t("next"))]);
  };
  await every(3000, signal, read);
}
