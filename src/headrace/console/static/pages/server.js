// The server itself: INFO, the slow log, latency, clients, settings with their defaults, users.
import { ask } from "../api.js";
import { add, fill, h } from "../dom.js";
import { duration, number, size, time } from "../format.js";
import { shownName } from "../names.js";
import { settingMeaning } from "../settings_texts.js";
import { language, t } from "../texts.js";
import { journalCard, keyspaceCard, replicationCard, segmentsCard } from "./standing.js";
import { act, empty, loading, mayAct, problemBox, say, searchBox, table } from "../widgets.js";

const TABS = ["info", "slow", "latency", "clients", "settings", "users"];

export async function show(place, [chosen], signal) {
  const tab = TABS.includes(chosen) ? chosen : "info";
  const content = h("div");
  fill(place, h("h1", {}, t("nav.server")), h("nav", { class: "tabs", "aria-label": t("nav.server") },
    ...TABS.map((each) => h("a", { href: `#/server/${each}`, "aria-current": each === tab ? "page" : null }, t(`server.${each}`)))), content);
  fill(content, loading());
  const draw = { info, slow, latency, clients, settings, users }[tab];
  try { await draw(); } catch (error) { if (error.name !== "AbortError") fill(content, problemBox(error)); }

  async function info() {
    const told = await ask("server", {}, signal);
    if (told.refused) { fill(content, empty(told.refused)); return; }
    fill(content, h("div", { class: "grid cards" }, ...[replicationCard(told.replication), journalCard(told.journal), segmentsCard(told.segments), keyspaceCard(told.keyspace)].filter(Boolean)),
      h("h2", { class: "apart" }, "INFO"), h("div", { class: "grid cards" }, ...told.sections.map((section) => h("section", { class: "card list" }, h("header", {}, h("h2", {}, section.name)),
      section.fields.length ? h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": section.name }, h("table", { class: "small" }, add(h("tbody"), section.fields.map(([field, value]) => h("tr", {}, h("th", { scope: "row" }, field), h("td", { class: "value" }, shownName(value, 200)))))))
        : empty(t("nothing"))))));
  }

  async function slow() {
    const told = await ask("slow_log", {}, signal);
    fill(content, table([
      { label: t("time"), cell: (row) => time(row.at * 1000, { millis: false }) },
      { label: t("server.took"), num: true, cell: (row) => duration(row.us / 1000) },
      { label: t("server.command"), cell: (row) => h("span", { class: "value mono" }, row.words.map((word) => shownName(word, 60)).join(" ")) },
      { label: t("server.client"), narrow: true, cell: (row) => `${shownName(row.client, 40)} ${shownName(row.name, 40)}` },
    ], told.rows, { label: t("server.slow"), emptyText: t("server.none_slow") }));
  }

  async function latency() {
    const told = await ask("latency", {}, signal);
    const us = (value) => (value === null ? "–" : duration(value / 1000));
    fill(content, h("section", { class: "card list" }, h("header", {}, h("h2", {}, t("server.commands"))), table([
      { label: t("server.command"), cell: (row) => h("span", { class: "mono" }, shownName(row.command.replace("|", " "), 60)) },
      { label: t("server.calls"), num: true, cell: (row) => number(row.calls) },
      { label: t("server.each"), num: true, cell: (row) => us(row.each) },
      { label: "p50", num: true, narrow: true, cell: (row) => us(row.p50) },
      { label: "p99", num: true, cell: (row) => us(row.p99) },
      { label: "p99.9", num: true, narrow: true, cell: (row) => us(row.p99_9) },
      { label: t("server.total"), num: true, narrow: true, cell: (row) => us(row.total) },
      { label: t("server.failed"), num: true, narrow: true, cell: (row) => number((row.failed ?? 0) + (row.rejected ?? 0)) },
    ], told.commands, { label: t("server.commands"), emptyText: t("nothing") })),
    h("section", { class: "card list" }, h("header", {}, h("h2", {}, t("server.events"))), table([
      { label: t("server.event"), cell: (row) => h("span", { class: "mono" }, shownName(row.event, 60)) },
      { label: t("time"), cell: (row) => time(row.at * 1000, { millis: false }) },
      { label: t("server.latest"), num: true, cell: (row) => duration(row.latest) },
      { label: t("server.most"), num: true, cell: (row) => duration(row.most) },
    ], told.events, { label: t("server.events"), emptyText: told.threshold === 0 ? t("server.events_off") : t("server.no_events") })));
  }

  async function clients() {
    const told = await ask("clients", {}, signal);
    fill(content, table([
      { label: t("server.address"), cell: (row) => h("span", { class: "mono" }, row.addr) },
      { label: t("server.name"), cell: (row) => shownName(row.name, 60) || "–" },
      { label: t("user"), cell: (row) => shownName(row.user, 60) },
      { label: t("server.command"), narrow: true, cell: (row) => row.cmd },
      { label: t("server.age"), num: true, narrow: true, cell: (row) => duration(row.age * 1000) },
      { label: t("idle"), num: true, cell: (row) => duration(row.idle * 1000) },
      { label: t("memory"), num: true, narrow: true, cell: (row) => size(row["tot-mem"] || null) },
      mayAct() && { label: "", cell: (row) => h("button", { class: "small danger", onclick: async () => { if (await act("kill_client", { id: Number(row.id), addr: row.addr })) clients().catch(say); } }, t("server.kill")) },
    ].filter(Boolean), told.rows, { label: t("server.clients"), emptyText: t("nothing") }), h("div", { class: "pager" }, t("pager.all", { n: number(told.total) })));
  }

  async function settings() {
    const told = await ask("settings", {}, signal);
    const list = h("div");
    const meaning = (row) => [settingMeaning(row.name, language() === "zh-CN"), row.inert ? h("small", { class: "below" }, t("server.inert", { why: row.inert })) : null];
    const draw = (wanted) => fill(list, table([
      { label: t("server.setting"), cell: (row) => [h("span", { class: "mono value" }, row.name), h("small", { class: "below narrow-only" }, meaning(row))] },
      { label: t("value"), cell: (row) => h("span", { class: row.default !== null && row.default !== row.value ? "value changed" : "value" }, shownName(row.value, 120) || h("span", { class: "quiet" }, t("server.empty"))) },
      { label: t("server.default"), narrow: true, cell: (row) => (row.default === null ? "–" : shownName(row.default, 120) || h("span", { class: "quiet" }, t("server.empty"))) },
      { label: t("server.meaning"), narrow: true, cell: meaning },
    ], told.rows.filter((row) => `${row.name} ${settingMeaning(row.name, language() === "zh-CN")}`.toLowerCase().includes(wanted.toLowerCase())), { label: t("server.settings"), emptyText: t("streams.no_match", { search: wanted }) }));
    fill(content, h("div", { class: "tools" }, searchBox("", draw, t("server.search"))), list);
    draw("");
  }

  async function users() {
    const told = await ask("users", {}, signal);
    fill(content, table([{ label: t("user"), cell: (row) => shownName(row.name, 80) }, { label: t("server.rules"), cell: (row) => h("span", { class: "value mono" }, shownName(row.rules, 500)) }],
      told.rows, { label: t("server.users") }));
  }
}
