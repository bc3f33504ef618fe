// The overview: what the server does now, and the streams that are worst off.
import { ask, session } from "../api.js";
import { Chart } from "../charts.js";
import { fill, h } from "../dom.js";
import { duration, idTime, number, rate, size, speed } from "../format.js";
import { encodeName } from "../names.js";
import { t } from "../texts.js";
import { empty, every, loading, name, problemBox, table } from "../widgets.js";
import { replicationCard } from "./standing.js";

const EVERY_MS = 2000;

function figure(label, value, note, kind = "") {
  return h("div", { class: `figure ${kind}` }, h("dt", {}, label), h("dd", {}, value, note && h("small", {}, note)));
}

export async function show(place, _words, signal) {
  const charts = [
    new Chart(t("overview.traffic"), [{ label: t("overview.writes"), show: rate }, { label: t("overview.reads"), show: rate }]),
    new Chart(t("overview.memory"), [{ label: t("overview.used"), show: size }]),
    new Chart(t("overview.clients"), [{ label: t("overview.connected"), show: number }, { label: t("overview.blocked"), show: number }]),
    new Chart(t("overview.network"), [{ label: t("overview.in"), show: speed }, { label: t("overview.out"), show: speed }]),
  ];
  if (session.about.product.headrace) charts.push(new Chart(t("overview.sync"), [{ label: t("overview.average"), show: duration }]),
    new Chart(t("overview.group_chart"), [{ label: t("overview.commands"), show: rate }]));
  signal.addEventListener("abort", () => charts.forEach((chart) => chart.close()));
  const figures = h("dl", { class: "figures" });
  const worst = h("div", { class: "grid" });
  const trouble = h("div");
  const standing = h("div");
  fill(place, h("h1", {}, t("nav.overview")), trouble, figures, h("div", { class: "grid charts" }, ...charts.map((chart) => chart.element)),
    standing, h("h2", {}, t("overview.worst")), worst);
  fill(worst, loading());
  let before = null;
  await every(EVERY_MS, signal, async () => {
    let told;
    try { told = await ask("overview", {}, signal); fill(trouble); }
    catch (error) { if (error.name !== "AbortError" && error.status !== 503) fill(trouble, problemBox(error)); before = null; throw error; }
    const now = performance.now();
    if (told.server) drawServer(told, before && { ...before, seconds: (now - before.at) / 1000 });
    else fill(figures, empty(told.server_refused));
    before = told.server && { ...told.server, at: now };
    if (told.streams) drawWorst(told.streams); else fill(worst, empty(told.streams_refused));
  });

  function drawServer({ server, streams }, former) {
    const per = (field) => (former && server[field] >= former[field] ? (server[field] - former[field]) / former.seconds : null);
    charts[0].push(Date.now(), [per("writes"), per("reads")]);
    charts[1].push(Date.now(), [server.used_memory]);
    charts[2].push(Date.now(), [server.connected_clients, server.blocked_clients]);
    charts[3].push(Date.now(), [per("total_net_input_bytes"), per("total_net_output_bytes")]);
    const syncs = former && server.headrace_syncs > former.headrace_syncs ? server.headrace_syncs - former.headrace_syncs : 0;
    const syncMs = syncs ? (server.headrace_sync_usec - former.headrace_sync_usec) / syncs / 1000 : null;
    const group = syncs ? (server.headrace_synced_units - former.headrace_synced_units) / syncs : null;
    const groups = syncs ? t("overview.group_size", { n: rate(group) }) : t("overview.no_syncs");
    charts[4]?.push(Date.now(), [syncMs]);
    charts[5]?.push(Date.now(), [group]);
    const limit = server.maxmemory ? t("overview.of", { size: size(server.maxmemory) }) : t("overview.no_limit");
    const disk = server.aof_enabled ? size(server.aof_current_size) : t("overview.memory_only");
    const segments = server.headrace_segments ? t("overview.segments", { n: number(server.headrace_segments), size: size(server.headrace_segment_bytes) }) : "";
    const sick = server.aof_last_write_status === "err";
    fill(figures,
      figure(t("overview.streams"), streams ? number(streams.streams) : "–", streams && t("overview.entries", { n: number(streams.entries) })),
      figure(t("overview.commands"), rate(server.instantaneous_ops_per_sec), t("per_second")),
      figure(t("overview.memory"), size(server.used_memory), limit),
      figure(t("overview.disk"), disk, sick ? t("overview.disk_refuses") : segments, sick ? "bad" : ""),
      server.headrace_syncs === undefined ? null : figure(t("overview.journal"), t("overview.syncs", { n: rate(former ? syncs / former.seconds : 0) }), groups),
      figure(t("overview.clients"), number(server.connected_clients), t("overview.n_blocked", { n: number(server.blocked_clients) })),
      figure(t("overview.role"), t(`role.${server.role}`), server.role === "slave"
        ? `${server.master_host}:${server.master_port} ${server.master_link_status}` : server.connected_slaves === 1 ? t("overview.replica") : t("overview.replicas", { n: number(server.connected_slaves) }),
      server.role === "slave" && server.master_link_status !== "up" ? "bad" : ""),
      figure(t("overview.uptime"), duration(server.uptime_in_seconds * 1000), `${session.about.product.name} ${session.about.product.version}`));
    drawReplication(server.replication);
  }

  function drawReplication(told) {
    if (told.replicas.length || told.role === "slave") fill(standing, replicationCard(told)); else fill(standing);
  }

  function drawWorst(told) {
    const group = (row) => [h("a", { href: `#/group/${encodeName(row.stream)}/${encodeName(row.name)}` }, name(row.name)), h("small", { class: "below" }, name(row.stream))];
    const open = (row) => { location.hash = `#/group/${encodeName(row.stream)}/${encodeName(row.name)}`; };
    const stream = (row) => h("a", { href: `#/stream/${encodeName(row.stream)}` }, name(row.stream));
    const card = (title, content) => h("section", { class: "card list" }, h("header", {}, h("h3", {}, title)), content);
    const behindMs = (row) => { const first = idTime(row.next); return first === null ? "–" : duration(Date.now() - first); };
    fill(worst,
      card(t("overview.behind"), table([{ label: t("group"), cell: group }, { label: t("lag"), num: true, cell: (row) => number(row.lag) },
        { label: t("in_time"), num: true, cell: behindMs }], told.behind, { label: t("overview.behind"), open, emptyText: t("overview.none_behind") })),
      card(t("overview.waiting"), table([{ label: t("group"), cell: group }, { label: t("pending"), num: true, cell: (row) => number(row.pending) },
        { label: t("oldest"), num: true, cell: (row) => duration(row.oldest_ms) }], told.waiting, { label: t("overview.waiting"), open, emptyText: t("overview.none_waiting") })),
      card(t("nav.dead"), table([{ label: t("stream"), cell: (row) => h("a", { href: `#/dead/${encodeName(row.stream)}` }, name(row.stream)) }, { label: t("letters"), num: true, cell: (row) => number(row.length) }],
        told.dead, { label: t("nav.dead"), emptyText: t("overview.none_dead") })),
      card(t("overview.growing"), table([{ label: t("stream"), cell: stream }, { label: t("entries_per_second"), num: true, cell: (row) => rate(row.rate) }],
        told.growing, { label: t("overview.growing"), emptyText: t("overview.none_growing") })));
  }
}
