// All groups of all streams, those farthest behind first.
import { ask } from "../api.js";
import { fill, h } from "../dom.js";
import { number } from "../format.js";
import { encodeName } from "../names.js";
import { t } from "../texts.js";
import { every, loading, pager, problemBox, searchBox, table } from "../widgets.js";
import { groupColumns } from "./group_rows.js";

export async function show(place, _words, signal) {
  const state = { search: "", sort: "lag", descending: true, page: 0, size: 50 };
  const list = h("div");
  const foot = h("div");
  fill(place, h("div", { class: "title" }, h("h1", {}, t("nav.groups")), searchBox("", (text) => { state.search = text; state.page = 0; again(); }, t("groups.search"))), list, foot);
  fill(list, loading());
  const refresh = async () => {
    let told;
    try { told = await ask("groups", state, signal); }
    catch (error) { if (error.name !== "AbortError" && error.status !== 503) fill(list, problemBox(error)); throw error; }
    fill(list, table(groupColumns({ withStream: true }), told.rows, { label: t("nav.groups"), sort: { by: state.sort, descending: state.descending },
      onSort: (column) => { state.descending = state.sort === column ? !state.descending : !["name", "stream"].includes(column); state.sort = column; state.page = 0; again(); },
      open: (row) => { location.hash = `#/group/${encodeName(row.stream)}/${encodeName(row.name)}`; }, emptyText: state.search ? t("streams.no_match", { search: state.search }) : t("groups.none") }));
    fill(foot, pager(told.page, told.size, told.total, (page) => { state.page = page; again(); }), told.more && h("p", { class: "note" }, t("streams.more", { n: number(20000) })));
  };
  const again = () => refresh().catch(() => {});
  await every(4000, signal, refresh);
}
