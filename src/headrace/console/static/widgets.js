// What pages are made of: tables, pagers, dialogs, confirmations, notices.
import { Problem, ask, session } from "./api.js";
import { add, fill, freshId, h } from "./dom.js";
import { number } from "./format.js";
import { shownName } from "./names.js";
import { t } from "./texts.js";

export function notice(text, kind = "info") {
  const element = h("div", { class: `notice ${kind}` }, h("span", {}, text),
    h("button", { class: "plain", "aria-label": t("close"), onclick: () => element.remove() }, "×"));
  document.getElementById("notices").append(element);
  setTimeout(() => element.remove(), kind === "error" ? 15000 : 6000);
}

export function say(error) {
  if (error.name === "AbortError" || error.code === "session") return;
  notice(error instanceof Problem ? error.sentence : String(error), "error");
}

export function problemBox(error) {
  return h("div", { class: "empty error", role: "alert" }, error instanceof Problem ? error.sentence : String(error));
}

export function empty(text, ...more) { return h("div", { class: "empty" }, h("p", {}, text), ...more); }

export function loading() { return h("div", { class: "empty quiet" }, t("loading")); }

// columns: [{ label, num, sort, cell: row => node, narrow: hidden on phones }]
export function table(columns, rows, { label, open, sort, onSort, emptyText } = {}) {
  if (!rows.length) return empty(emptyText ?? t("nothing"));
  const head = h("tr", {}, ...columns.map((column) => {
    const attributes = { scope: "col", class: cellClass(column) };
    if (!column.sort) return h("th", attributes, column.label);
    const active = sort?.by === column.sort;
    attributes["aria-sort"] = active ? (sort.descending ? "descending" : "ascending") : "none";
    return h("th", attributes, h("button", { class: "sort", onclick: () => onSort(column.sort) },
      column.label, h("span", { "aria-hidden": "true" }, active ? (sort.descending ? " ↓" : " ↑") : "")));
  }));
  const body = add(h("tbody"), rows.map((row) => {
    const line = h("tr", { class: open ? "opens" : null, tabindex: open ? "0" : null },
      ...columns.map((column) => h("td", { class: cellClass(column) }, column.cell(row))));
    if (open) {
      line.addEventListener("click", (event) => { if (!event.target.closest("a,button,input,summary")) open(row, line); });
      line.addEventListener("keydown", (event) => { if (event.key === "Enter" && event.target === line) open(row, line); });
    }
    return line;
  }));
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, h("table", {}, h("thead", {}, head), body));
}

function cellClass(column) { return [column.num && "num", column.narrow && "wide-only", column.class].filter(Boolean).join(" ") || null; }

export function pager(page, size, total, go) {
  if (total <= size) return h("div", { class: "pager" }, t("pager.all", { n: number(total) }));
  const last = Math.ceil(total / size) - 1;
  const button = (label, target, text) => h("button", { "aria-label": label, disabled: target < 0 || target > last || target === page, onclick: () => go(target) }, text);
  return h("nav", { class: "pager", "aria-label": t("pager.label") }, button(t("pager.first"), 0, "«"), button(t("pager.previous"), page - 1, "‹"),
    h("span", {}, t("pager.some", { from: number(page * size + 1), to: number(Math.min((page + 1) * size, total)), n: number(total) })),
    button(t("pager.next"), page + 1, "›"), button(t("pager.last"), last, "»"));
}

export function name(text) { return h("span", { class: "name", title: shownName(text, 1000) }, shownName(text, 120)); }

export function dialog(title, content, buttons = []) {
  const id = freshId();
  const box = h("dialog", { "aria-labelledby": id, onclose: () => box.remove() });
  const close = () => box.close();
  fill(box, h("header", {}, h("h2", { id }, title), h("button", { class: "plain", "aria-label": t("close"), onclick: close }, "×")),
    h("div", { class: "dialog-body" }, content), buttons.length ? h("footer", {}, ...buttons.map((each) => (each instanceof Node ? each : each(close)))) : null);
  document.getElementById("dialogs").append(box);
  box.showModal();
  return { box, close };
}

export function copyButton(text) {
  return h("button", { class: "small", onclick: async () => {
    try { await navigator.clipboard.writeText(text); notice(t("copied")); }
    catch { dialog(t("copy"), h("textarea", { rows: "6", readonly: true }, text)); }
  } }, t("copy"));
}

// Say what will happen and which command does it, and do it only then. Resolves to the reply, or null where it was not done.
export async function act(kind, body, { danger = true } = {}) {
  let plan;
  try { plan = await ask("act", { ...body, kind, preview: true }); } catch (error) { say(error); return null; }
  return new Promise((resolve) => {
    let done = null;
    const go = h("button", { class: danger ? "danger" : "primary", onclick: async () => {
      go.disabled = true;
      try {
        done = await ask("act", { ...body, kind });
        notice(t("act.done", { reply: typeof done.reply === "object" ? JSON.stringify(done.reply) : done.reply }));
        box.close();
      } catch (error) { say(error); go.disabled = false; }
    } }, t(`act.${kind}.go`));
    const { box } = dialog(t(`act.${kind}.title`), h("div", {}, h("p", {}, t(`act.${kind}`, describe(body, plan.facts))),
      plan.facts.more ? h("p", {}, t("act.more")) : null,
      h("p", { class: "label" }, t("act.command")), h("div", { class: "command" }, h("code", {}, plan.command), copyButton(plan.command))),
    [(close) => h("button", { onclick: close, autofocus: true }, t("cancel")), go]);
    box.addEventListener("close", () => resolve(done));
  });
}

function describe(body, facts) {
  const shown = {};
  for (const [key, value] of Object.entries({ ...body, ...facts })) shown[key] = typeof value === "number" ? number(value) : shownName(String(value ?? ""), 80);
  if ("query" in body) shown.what = t(body.writes ? "act.forget_query.writes" : "act.forget_query.reads");
  if ("back" in facts) shown.what = t(facts.back ? "act.position.again" : "act.position.never", { count: number(facts.count) });
  return shown;
}

export function mayAct() { return !session.about?.read_only; }

export function field(label, input, hint = "") {
  const id = freshId();
  input.id = id;
  return h("div", { class: "field" }, h("label", { for: id }, label), input, hint && h("small", {}, hint));
}

export function searchBox(value, onInput, label) {
  let timer = 0;
  const input = h("input", { type: "search", "data-search": "", placeholder: label, "aria-label": label, value,
    oninput: () => { clearTimeout(timer); timer = setTimeout(() => onInput(input.value), 200); } });
  return input;
}

// Read again and again while the page is shown and visible.
export function every(ms, signal, read) {
  let timer = 0;
  const turn = async () => {
    if (signal.aborted) return;
    if (!document.hidden) { try { await read(); } catch (error) { if (error.name === "AbortError") return; } }
    if (!signal.aborted) timer = setTimeout(turn, ms);
  };
  signal.addEventListener("abort", () => clearTimeout(timer));
  return turn();
}
