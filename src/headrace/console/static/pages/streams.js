// All streams by pages: search, sort, groups with lag and pending on the same line, a sparkline of what is added.
import { ask } from "../api.js";
import { fill, h, sparkline } from "../dom.js";
import { age, number, rate, size } from "../format.js";
import { encodeName } from "../names.js";
import { t } from "../texts.js";
import { empty, every, loading, name, pager, problemBox, searchBox, table } from "../widgets.js";

const EVERY_MS = 3000;
const POINTS = 20;

export async function show(place, _words, signal) {
  const state = { search: "", sort: "name", descending: false, page: 0, size: 50 };
  const history = new Map();          // name -> [[at, added], …], of the streams that are shown
  const list = h("div");
  const foot = h("div");
  const search = searchBox("", (text) => { state.search = text; state.page = 0; again(); }, t("streams.search"));
  fill(place, h("div", { class: "title" }, h("h1", {}, t("nav.streams")), search), list, foot);
  fill(list, loading());
  const refresh = async () => {
    let told;
    try { told = await ask("streams", state, signal); }
    catch (error) { if (error.name !== "AbortError" && error.status !== 503) fill(list, problemBox(error)); throw error; }
    note(told.rows);
    draw(told);
  };
  const again = () => refresh().catch(() => {});
  await every(EVERY_MS, signal, refresh);

  function note(rows) {
    const shown = new Set(rows.map((row) => row.name));
    for (const known of history.keys()) if (!shown.has(known)) history.delete(known);
    for (const row of rows) {
      if (row.added === undefined || row.added === null) continue;
      const points = history.get(row.name) ?? [];
      points.push([performance.now(), row.added]);
      if (points.length > POINTS) points.shift();
      history.set(row.name, points);
    }
  }

  function rates(row) {
    const points = history.get(row.name) ?? [];
    return points.slice(1).map(([at, added], place) => Math.max(added - points[place][1], 0) / ((at - points[place][0]) / 1000));
  }

  function sortBy(column) {
    if (state.sort === column) state.descending = !state.descending;
    else { state.sort = column; state.descending = column !== "name"; }
    state.page = 0;
    again();
  }

  function draw(told) {
    const columns = [
      { label: t("stream"), sort: "name", cell: (row) => h("a", { href: `#/stream/${encodeName(row.name)}` }, name(row.name)) },
      { label: t("length"), num: true, sort: "length", cell: (row) => (row.refused ? h("span", { class: "warn", title: row.refused }, t("refused")) : number(row.length)) },
      { label: t("rate"), num: true, sort: "growth", cell: (row) => { const all = rates(row); return all.length ? rate(all.at(-1)) : "–"; } },
      { label: "", narrow: true, cell: (row) => { const all = rates(row); return sparkline(all, all.length ? t("streams.spark", { rates: all.map(rate).join(", ") }) : t("streams.no_spark")); } },
      { label: t("groups"), sort: "lag", cell: (row) => groups(row) },
      { label: t("memory"), num: true, narrow: true, cell: (row) => [size(row.memory), row.disk ? h("small", { class: "below" }, t("streams.on_disk", { size: size(row.disk) })) : null] },
      { label: t("last_entry"), num: true, narrow: true, cell: (row) => age(row.last) },
    ];
    const focused = [...list.querySelectorAll("tbody tr")].indexOf(document.activeElement);
    fill(list, told.all === 0
      ? empty(t("streams.none"), h("code", {}, "redis-cli XADD orders '*' item book"))
      : table(columns, told.rows, { label: t("nav.streams"), sort: { by: state.sort, descending: state.descending }, onSort: sortBy,
        open: (row) => { location.hash = `#/stream/${encodeName(row.name)}`; }, emptyText: t("streams.no_match", { search: state.search }) }));
    if (focused >= 0) list.querySelectorAll("tbody tr")[focused]?.focus();
    fill(foot, pager(told.page, told.size, told.total, (page) => { state.page = page; again(); }), told.more && h("p", { class: "note" }, t("streams.more", { n: number(told.all) })));
  }

  function groups(row) {
    if (!row.groups?.length) return h("span", { class: "quiet" }, "–");
    const shown = row.groups.slice(0, 3).map((group) => h("a", { class: "chip", href: `#/group/${encodeName(row.name)}/${encodeName(group.name)}` },
      name(group.name), h("span", { class: group.lag ? "warn" : "quiet", title: t("lag") }, ` ${t("lag")} ${number(group.lag)}`),
      h("span", { class: group.pending ? "" : "quiet", title: t("pending") }, ` ${t("pending")} ${number(group.pending)}`)));
    if (row.groups.length > 3) shown.push(h("span", { class: "quiet" }, ` +${number(row.groups.length - 3)}`));
    return h("span", { class: "chips" }, shown);
  }
}
