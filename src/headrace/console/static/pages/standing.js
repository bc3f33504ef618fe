// Cards of what stands behind a server: replicas or a master, the journal, segments on disk, the keyspace.
import { h } from "../dom.js";
import { duration, number, rate, size, time } from "../format.js";
import { shownName } from "../names.js";
import { t } from "../texts.js";
import { empty, table } from "../widgets.js";

function card(title, ...content) { return h("section", { class: "card list" }, h("header", {}, h("h2", {}, title)), ...content); }

function heard(ms) { return ms === null ? "–" : ms === 0 ? t("now") : t("ago", { age: duration(ms) }); }

// rows: [label, value, note, kind]; those whose value is null or undefined are left out
function facts(title, rows) {
  const shown = rows.filter((row) => row && row[1] !== null && row[1] !== undefined);
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, h("table", { class: "facts" }, h("tbody", {}, ...shown.map(([label, value, note, kind]) =>
    h("tr", {}, h("th", { scope: "row" }, label), h("td", { class: kind ?? null }, value, note && h("small", { class: "below" }, note)))))));
}

export function replicationCard(told) {
  const title = t("standing.replication");
  const confirm = told.to_confirm === undefined || told.to_confirm === null ? null
    : Number(told.to_confirm) ? t("standing.confirmed", { n: told.to_confirm }) : t("standing.not_confirmed");
  const parts = [];
  if (told.role === "slave") {
    const up = told.link === "up";
    parts.push(facts(title, [[t("standing.master"), shownName(told.master, 80)],
      [t("standing.link"), up ? t("standing.up") : t("standing.down"), told.loading ? t("standing.loading") : shownName(told.error ?? "", 200), up ? "" : "bad"],
      [t("standing.heard"), heard(up ? told.heard_ms : told.down_ms)]]));
  }
  if (told.replicas.length) parts.push(table([
    { label: t("standing.replica"), cell: (row) => h("span", { class: "mono" }, shownName(row.address, 80)) },
    { label: t("standing.state"), cell: (row) => (row.state === "online" ? t("standing.online") : h("span", { class: "warn" }, shownName(row.state, 40))) },
    { label: t("standing.behind"), num: true, cell: (row) => (row.behind === 0 ? t("standing.nothing_behind") : size(row.behind)) },
    { label: t("standing.heard"), num: true, cell: (row) => (heard(row.heard_ms)) },
  ], told.replicas, { label: title }));
  else if (told.role !== "slave") parts.push(empty(t("standing.no_replicas")));
  if (confirm && told.role !== "slave") parts.push(h("p", { class: "note" }, confirm));
  return card(title, ...parts);
}

export function journalCard(told) {
  const title = t("standing.journal");
  const saved = told.saved_at_ms && [t("standing.saved"), time(told.saved_at_ms, { millis: false }), told.save_ok ? t("standing.unsaved", { n: number(told.unsaved) }) : t("standing.save_failed"), told.save_ok ? "" : "bad"];
  if (!told.enabled) return card(title, empty(t("standing.no_journal")), facts(title, [saved]));
  return card(title, facts(title, [
    [t("standing.policy"), told.policy && h("span", { class: "mono" }, told.policy), told.policy && t(`standing.policy.${told.policy}`)],
    [t("standing.state"), told.write_ok ? t("standing.writes") : t("overview.disk_refuses"), "", told.write_ok ? "" : "bad"],
    [t("standing.size"), size(told.size), t("standing.base", { size: size(told.base) })],
    [t("standing.rewrite"), told.rewriting ? t("standing.rewriting") : told.rewrite_ok ? t("standing.rewrite_ok") : t("standing.rewrite_failed"), "", told.rewrite_ok ? "" : "bad"],
    told.waiting ? [t("standing.waiting"), size(told.waiting)] : null,
    told.syncs ? [t("standing.syncs"), number(told.syncs), t("standing.each", { time: duration(told.sync_ms), n: rate(told.commands) })] : null,
    saved,
  ]));
}

export function segmentsCard(told) {
  const title = t("standing.segments");
  if (told === null) return null;
  if (!told.files) return card(title, empty(t("standing.no_segments")));
  return card(title, facts(title, [
    [t("standing.files"), number(told.files), size(told.bytes)],
    [t("standing.alive"), size(told.alive), told.bytes ? `${Math.round(100 * told.alive / told.bytes)} %` : ""],
    [t("standing.moved"), size(told.moved), t("standing.since_start")],
    [t("standing.copied"), size(told.copied), t("standing.since_start")],
    [t("standing.state"), told.problem ? shownName(told.problem, 200) : t("standing.takes"), "", told.problem ? "bad" : ""],
  ]));
}

export function keyspaceCard(rows) {
  return card(t("standing.keyspace"), table([
    { label: t("standing.db"), cell: (row) => String(row.db) },
    { label: t("standing.keys"), num: true, cell: (row) => number(row.keys) },
    { label: t("standing.expiring"), num: true, cell: (row) => number(row.expires) },
    { label: t("standing.ttl"), num: true, cell: (row) => duration(row.ttl_ms) },
  ], rows, { label: t("standing.keyspace"), emptyText: t("standing.no_keys") }));
}
