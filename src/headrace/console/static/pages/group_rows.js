// Lines of groups, as several pages have them, and the dialog that makes one.
import { h } from "../dom.js";
import { duration, idTime, number } from "../format.js";
import { encodeName } from "../names.js";
import { t } from "../texts.js";
import { act, dialog, field, name } from "../widgets.js";

export function lagMs(row) {
  if (row.lag === 0) return 0;
  const first = idTime(row.next);
  return first === null ? null : Math.max(Date.now() - first, 0);
}

export function groupColumns({ withStream }) {
  return [
    { label: t("group"), sort: withStream ? "name" : null, cell: (row) => h("a", { href: `#/group/${encodeName(row.stream)}/${encodeName(row.name)}` }, name(row.name)) },
    withStream && { label: t("stream"), sort: "stream", cell: (row) => h("a", { href: `#/stream/${encodeName(row.stream)}` }, name(row.stream)) },
    { label: t("lag"), num: true, sort: withStream ? "lag" : null, cell: (row) => h("span", { class: row.lag ? "warn" : "" }, row.lag === null ? t("unknown") : number(row.lag)) },
    { label: t("in_time"), num: true, cell: (row) => duration(lagMs(row)) },
    { label: t("pending"), num: true, sort: withStream ? "pending" : null, cell: (row) => number(row.pending) },
    { label: t("oldest"), num: true, narrow: true, cell: (row) => duration(row.oldest_ms) },
    { label: t("consumers"), num: true, narrow: true, sort: withStream ? "consumers" : null, cell: (row) => number(row.consumers) },
    { label: t("position"), narrow: true, cell: (row) => h("span", { class: "mono quiet" }, row.last) },
  ].filter(Boolean);
}

export function createGroup(stream) {
  return new Promise((resolve) => {
    const group = h("input", {});
    const id = h("input", { value: "$" });
    let made = null;
    const { box } = dialog(t("group.create"), h("div", {}, field(t("group.name"), group), field(t("position"), id, t("group.position_hint"))), [
      (shut) => h("button", { onclick: shut }, t("cancel")),
      () => h("button", { class: "primary", onclick: async () => {
        if (!group.value) { group.focus(); return; }
        made = act("create_group", { stream, group: group.value, id: id.value }, { danger: false });
        box.close();
      } }, t("next")),
    ]);
    box.addEventListener("close", async () => resolve(await made));
  });
}
