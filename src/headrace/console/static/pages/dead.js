// Dead letters: why and from where; put back one stream's, with a rate, or drop some.
import { ask, session } from "../api.js";
import { fill, h } from "../dom.js";
import { duration, number, time } from "../format.js";
import { decodeName, encodeName, shownName } from "../names.js";
import { t } from "../texts.js";
import { act, dialog, every, field, loading, mayAct, name, notice, problemBox, table } from "../widgets.js";

export async function show(place, [encoded], signal) {
  const list = h("div");
  if (encoded === undefined) {
    fill(place, h("h1", {}, t("nav.dead")), h("p", { class: "note" }, t("dead.about")), list);
    fill(list, loading());
    await every(5000, signal, async () => {
      let told;
      try { told = await ask("dead", {}, signal); } catch (error) { fill(list, problemBox(error)); throw error; }
      fill(list, table([{ label: t("stream"), cell: (row) => h("a", { href: `#/dead/${encodeName(row.stream)}` }, name(row.stream)) }, { label: t("letters"), num: true, cell: (row) => number(row.length) }],
        told.rows, { label: t("nav.dead"), open: (row) => { location.hash = `#/dead/${encodeName(row.stream)}`; }, emptyText: t("dead.none") }));
    });
    return;
  }
  const stream = decodeName(encoded);
  const chosen = new Set();
  const progress = h("div");
  const foot = h("div", { class: "pager" });
  let start = "-";
  fill(place, h("nav", { class: "crumbs", "aria-label": t("crumbs") }, h("a", { href: "#/dead" }, t("nav.dead")), " / "),
    h("div", { class: "title" }, h("h1", {}, name(stream)), mayAct() && h("span", { class: "actions" },
      session.about.product.headrace ? [h("button", { class: "primary", onclick: redrive }, t("dead.redrive")), h("button", { onclick: () => settle("redrive_chosen", { danger: false }) }, t("dead.redrive_chosen"))]
        : h("small", { class: "quiet" }, t("dead.no_redrive")),
      h("button", { class: "danger", onclick: () => settle("delete") }, t("dead.drop")))), progress, list, foot);
  fill(list, loading());
  await read();

  async function settle(kind, options) {
    if (!chosen.size) { notice(t("group.choose_some"), "error"); return; }
    if (await act(kind, { stream, ids: [...chosen] }, options)) read();
  }

  async function read() {
    let told;
    try { told = await ask("dead", { stream, start }, signal); } catch (error) { if (error.name !== "AbortError") fill(list, problemBox(error)); return; }
    chosen.clear();
    fill(progress, told.redriving && h("p", { class: "note" }, t("dead.redriving", { n: number(Number(told.redriving.moved ?? 0)) }), " ",
      mayAct() && h("button", { class: "small", onclick: async () => { if (await act("end_redrive", { stream })) read(); } }, t("dead.end"))));
    const origin = (call) => (row) => (row.origin ? call(row.origin) : "–");
    const boxes = [];
    const all = h("input", { type: "checkbox", "aria-label": t("choose_all"), onchange: () => boxes.forEach((box) => { if (box.checked !== all.checked) box.click(); }) });
    fill(list, table([
      mayAct() && { label: all, cell: (row) => { const box = h("input", { type: "checkbox", "aria-label": t("choose", { id: row.id }), onchange: () => (box.checked ? chosen.add(row.id) : chosen.delete(row.id)) }); boxes.push(box); return box; } },
      { label: t("id"), cell: (row) => h("span", { class: "mono" }, row.id) },
      { label: t("dead.why"), cell: origin((from) => h("b", { class: "keep" }, known(from.reason))) },
      { label: t("dead.from"), cell: origin((from) => [h("a", { href: `#/stream/${encodeName(from.stream)}` }, name(from.stream)), h("small", { class: "below mono" }, shownName(from.id, 60))]) },
      { label: t("group"), cell: origin((from) => name(from.group)) },
      { label: t("consumer"), narrow: true, cell: origin((from) => name(from.consumer)) },
      { label: t("deliveries"), num: true, cell: origin((from) => number(from.deliveries)) },
      { label: t("dead.last"), narrow: true, cell: origin((from) => (from.last_ms ? t("ago", { age: duration(Date.now() - from.last_ms) }) : "–")) },
      { label: t("fields"), narrow: true, cell: (row) => h("span", { class: "value" }, row.fields.slice(0, 6).map(([each, value]) => `${shownName(each, 30)}=${shownName(value, 40)}`).join("  ")) },
    ].filter(Boolean), told.rows, { label: t("nav.dead"), emptyText: t("dead.empty") }));
    fill(foot, h("span", {}, t("pager.all", { n: number(told.length) })), start !== "-" && h("button", { onclick: () => { start = "-"; read(); } }, t("pager.first")),
      told.next && h("button", { onclick: () => { start = told.next; read(); } }, t("pager.next")));
  }

  function known(reason) { return ["deliveries", "fatal"].includes(reason) ? t(`dead.reason.${reason}`) : shownName(reason, 60); }

  function redrive() {
    const rate = h("input", { type: "number", min: "0", value: "0" });
    const { close } = dialog(t("dead.redrive"), field(t("dead.rate"), rate, t("dead.rate_hint")), [
      (shut) => h("button", { onclick: shut }, t("cancel")),
      () => h("button", { class: "primary", onclick: async () => { close(); if (await act("redrive", { stream, rate: Math.max(Math.trunc(Number(rate.value)) || 0, 0) })) read(); } }, t("next"))]);
  }
}
