// Inside a stream: the rax that leads to its nodes, one node byte by byte, and what its groups keep of pending entries.
import { ask } from "../api.js";
import { add, fill, h } from "../dom.js";
import { duration, number, size, time, idTime } from "../format.js";
import { decodeName, encodeName, shownName } from "../names.js";
import { meaningOf, t } from "../texts.js";
import { empty, loading, name, problemBox, table } from "../widgets.js";

const MS_BYTES = 8;       // of a key of 16: milliseconds, then the sequence number

export async function show(place, [encoded, master], signal) {
  const stream = decodeName(encoded);
  const facts = h("dl", { class: "figures" });
  const tree = h("div", { class: "rax-box scroll", tabindex: "0", role: "region", "aria-label": t("inside.rax") });
  const nodes = h("div");
  const foot = h("div", { class: "pager" });
  const bytes = h("div");
  const groups = h("div", { class: "grid" });
  let start = "-";
  fill(place, h("nav", { class: "crumbs", "aria-label": t("crumbs") }, h("a", { href: "#/streams" }, t("nav.streams")), " / ", h("a", { href: `#/stream/${encoded}` }, name(stream)), " / "),
    h("h1", {}, t("inside.title")), h("p", { class: "note" }, t("inside.about")), facts,
    h("section", { class: "card list" }, h("header", {}, h("h2", {}, t("inside.rax"))), tree),
    h("section", { class: "card list" }, h("header", {}, h("h2", {}, t("inside.nodes"))), nodes, foot),
    bytes, h("h2", {}, t("inside.groups")), groups);
  fill(nodes, loading());
  await read();

  async function read() {
    let told;
    try { told = await ask("inside", { stream, start }, signal); }
    catch (error) { if (error.name !== "AbortError") { fill(nodes, problemBox(error)); fill(tree, empty(t("nothing"))); fill(groups, empty(t("nothing"))); } return; }
    const figure = (label, value, note) => h("div", { class: "figure" }, h("dt", {}, label), h("dd", {}, value, note && h("small", {}, note)));
    const held = told.rows.reduce((sum, row) => sum + row.bytes, 0);
    fill(facts, figure(t("entries"), number(told.length)), figure(t("inside.nodes"), number(told.nodes), t("inside.keys")),
      figure(t("inside.rax_nodes"), number(told.rax_nodes), told.whole ? "" : t("inside.part", { n: number(told.shown_rax_nodes) })),
      figure(t("inside.shown"), size(held), t("inside.in_nodes", { n: number(told.rows.length) })));
    fill(tree, told.tree ? [h("p", { class: "note legend" }, h("span", { class: "byte ms" }, "ms"), " ", t("inside.ms"), "  ", h("span", { class: "byte seq" }, "seq"), " ", t("inside.seq"), told.whole ? "" : ` ${t("inside.partial")}`), branch(told.tree)] : empty(t("inside.no_nodes")));
    drawNodes(told);
    drawGroups(told.groups);
    if (told.rows.length) await readNode(master ?? told.rows[0].master, false);
  }

  // --- the rax -----------------------------------------------------------------------------------------------------

  function bytesOf(hex, depth) {
    return (hex.match(/../g) ?? []).map((each, at) => h("span", { class: depth + at < MS_BYTES ? "byte ms" : "byte seq" }, each));
  }

  // A node with one child goes on in its line; one with several has a line below for each.
  function branch(node) {
    const line = [];
    let at = node;
    while (at.children.length === 1) {
      line.push(h("span", { class: "rax-node", title: t(`inside.kind.${at.kind}`) }, bytesOf(at.edges, at.depth)));
      [at] = at.children;
    }
    if (!at.children.length) {
      line.push(h("button", { class: "link mono", "data-master": at.id, onclick: () => readNode(at.id, true) }, at.id));
      return h("div", { class: "rax-line" }, line);
    }
    const edges = at.edges.match(/../g);
    line.push(h("span", { class: "rax-node quiet", title: t("inside.kind.branching") }, t("inside.branches", { n: number(edges.length) })));
    return h("div", {}, h("div", { class: "rax-line" }, line),
      h("ul", { class: "rax" }, ...at.children.map((child, which) => h("li", {}, h("span", { class: "rax-edge" }, bytesOf(edges[which], at.depth)), branch(child)))));
  }

  // --- the nodes ---------------------------------------------------------------------------------------------------

  function drawNodes(told) {
    const most = Math.max(...told.rows.map((row) => row.bytes), 1);
    fill(nodes, table([
      { label: t("inside.master"), cell: (row) => h("button", { class: "link mono", onclick: () => readNode(row.master, true) }, row.master) },
      { label: t("inside.alive"), num: true, cell: (row) => number(row.alive) },
      { label: t("inside.deleted"), num: true, cell: (row) => number(row.deleted) },
      { label: t("inside.bytes"), num: true, cell: (row) => number(row.bytes) },
      { label: "", narrow: true, cell: (row) => h("meter", { min: "0", max: String(most), value: String(row.bytes), "aria-label": t("inside.bytes_of", { n: number(row.bytes) }) }) },
      { label: t("inside.where"), cell: (row) => h("span", { class: row.cold ? "badge" : "quiet" }, t(row.cold ? "inside.cold" : "inside.hot")) },
      { label: t("inside.fields"), narrow: true, cell: (row) => h("span", { class: "value" }, row.fields.map((each) => shownName(each, 24)).join(", ") + (row.more_fields ? ` +${number(row.more_fields)}` : "")) },
    ], told.rows, { label: t("inside.nodes"), open: (row) => readNode(row.master, true), emptyText: t("inside.no_nodes") }));
    fill(foot, start !== "-" && h("button", { onclick: () => { start = "-"; read(); } }, t("pager.first")), told.next && h("button", { onclick: () => { start = told.next; master = undefined; read(); } }, t("pager.next")));
  }

  async function readNode(wanted, moves) {
    let told;
    try { told = await ask("node", { stream, master: wanted }, signal); }
    catch (error) { if (error.name !== "AbortError") fill(bytes, problemBox(error)); return; }
    for (const each of tree.querySelectorAll("[data-master]")) each.setAttribute("aria-current", String(each.dataset.master === wanted));
    const title = h("h2", { tabindex: "-1" }, t("inside.node", { id: wanted }));
    fill(bytes, h("section", { class: "card list" }, h("header", {}, title, h("span", { class: "quiet" }, t("inside.bytes_of", { n: number(told.bytes) }))), bytesPicture(told)));
    if (moves) { title.focus(); title.scrollIntoView({ block: "nearest" }); }
  }

  // Each part is some bytes that mean one thing. Pointing at it, or moving there by the arrows, says what.
  function bytesPicture(told) {
    const meaning = h("div", { class: "byte-meaning", role: "status" }, h("span", { class: "quiet" }, t("inside.point")));
    const spans = told.parts.map((part) => {
      const digits = part.hex.match(/../g) ?? [];
      const roles = digits.map((_, at) => (!part.head && !part.tail ? "plain" : at < part.head ? "head" : at >= digits.length - part.tail ? "tail" : "data"));
      const span = h("span", { class: "part", role: "option", tabindex: "-1", "aria-selected": "false" });
      digits.forEach((each, at) => {
        if (part.cut && at === digits.length - part.tail) span.append(h("span", { class: "quiet" }, ` …${number(part.cut)}… `));
        span.append(h("span", { class: `octet ${roles[at]}` }, each));
      });
      if (part.cut && !part.tail) span.append(h("span", { class: "quiet" }, ` …${number(part.cut)}…`));
      span.setAttribute("aria-label", `${span.textContent} ${meaningOf(part.meaning)}`);
      return span;
    });
    let chosen = -1;
    const say = (at) => {
      if (at < 0 || at >= spans.length) return;
      if (chosen >= 0) { spans[chosen].setAttribute("aria-selected", "false"); spans[chosen].tabIndex = -1; }
      chosen = at;
      spans[at].setAttribute("aria-selected", "true");
      spans[at].tabIndex = 0;
      fill(meaning, sentence(told.parts[at]));
    };
    const box = h("div", { class: "octets", role: "listbox", "aria-label": t("inside.bytes_label"), "aria-orientation": "horizontal" });
    let of = null, line = null;
    told.parts.forEach((part, at) => {
      if (part.of !== of || line === null) { of = part.of; line = h("div", { class: "octet-line", role: "group", "aria-label": ofWhat(of) }); box.append(line, " "); line.append(h("span", { class: "octet-of", "aria-hidden": "true" }, ofWhat(of))); }
      spans[at].addEventListener("mouseenter", () => say(at));
      spans[at].addEventListener("click", () => { say(at); spans[at].focus(); });
      spans[at].addEventListener("focus", () => say(at));
      line.append(spans[at]);
    });
    if (spans.length) spans[0].tabIndex = 0;
    box.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -spans.length, End: spans.length }[event.key];
      if (!step) return;
      event.preventDefault();
      event.stopPropagation();
      spans[Math.min(Math.max(Math.max(chosen, 0) + step, 0), spans.length - 1)].focus();
    });
    const numbers = h("details", { class: "chart-numbers", ontoggle: () => { if (numbers.open && !numbers.querySelector("table")) numbers.append(partsTable(told.parts)); } }, h("summary", {}, t("inside.as_table")));
    return h("div", { class: "node-bytes" }, h("p", { class: "note legend" }, ...["plain", "head", "data", "tail"].map((role) => [h("span", { class: `octet ${role}` }, "00"), ` ${t(`inside.role.${role}`)}  `])),
      meaning, box, told.more ? h("p", { class: "note" }, t("inside.more_parts", { n: number(told.more) })) : null, numbers);
  }

  function ofWhat(of) {
    if (of === "") return t("inside.envelope");
    if (of === "master") return t("inside.master_entry");
    const at = idTime(of);
    return at === null ? of : `${of} · ${time(at)}`;
  }

  function valueOf(part) { return part.value === null ? "" : typeof part.value === "string" && part.encoding.startsWith("str") ? `“${shownName(part.value, 120)}”` : String(part.value); }

  function sentence(part) {
    return [h("b", {}, meaningOf(part.meaning)), " ", h("span", { class: "value" }, valueOf(part)), h("small", { class: "below mono" }, t("inside.place", { from: number(part.offset), to: number(part.offset + part.size - 1) }), ` · ${part.encoding} ${t(`encoding.${part.encoding}`)}`, part.bits ? ` · ${part.bits}` : "")];
  }

  function partsTable(parts) {
    return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("inside.as_table") }, h("table", { class: "small" },
      h("thead", {}, h("tr", {}, ...["inside.offset", "inside.bytes", "inside.encoding", "value", "inside.meaning"].map((each) => h("th", { scope: "col" }, t(each))))),
      add(h("tbody"), parts.map((part) => h("tr", {}, h("td", { class: "num" }, number(part.offset)), h("td", { class: "mono" }, (part.hex.match(/../g) ?? []).slice(0, 16).join(" ") + (part.size > 16 ? " …" : "")), h("td", { class: "mono" }, part.encoding), h("td", { class: "value" }, valueOf(part)), h("td", {}, meaningOf(part.meaning)))))));
  }

  // --- what groups keep --------------------------------------------------------------------------------------------

  function drawGroups(told) {
    if (!told.length) { fill(groups, empty(t("group.none"))); return; }
    fill(groups, ...told.map((group) => {
      const records = (rows) => h("ol", { class: "records mono" }, ...rows.map((row) => h("li", {}, row.id, h("small", { class: "quiet" }, ` ${row.consumer ? shownName(row.consumer, 30) : t("group.nobody")} · ${duration(row.idle_ms)} · ×${number(row.deliveries)}`))));
      const some = group.records.length < group.pending;
      return h("section", { class: "card" }, h("header", {}, h("h3", {}, h("a", { href: `#/group/${encodeName(stream)}/${encodeName(group.name)}` }, name(group.name))), h("span", { class: "quiet" }, t("inside.pending", { n: number(group.pending) }))),
        h("p", { class: "note" }, t("inside.position"), " ", h("span", { class: "mono" }, group.last)),
        group.records.length ? [h("h3", {}, t("inside.by_id")), records(group.records), h("h3", {}, t("inside.by_time")), records([...group.records].sort((one, other) => other.idle_ms - one.idle_ms)),
          some && h("p", { class: "note" }, t("inside.first_records", { n: number(group.records.length) })),
          h("h3", {}, t("inside.by_consumer")), h("ul", { class: "records" }, ...group.owners.map(([owner, count]) => h("li", {}, name(owner), h("span", { class: "quiet" }, ` ${number(count)}`))), group.more_owners ? h("li", { class: "quiet" }, `+${number(group.more_owners)}`) : null)]
          : h("p", { class: "quiet" }, t("group.none_pending")));
    }));
  }
}
