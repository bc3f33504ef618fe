// The frame of the console: login, navigation, keys, and the page that the address names.
import { ask, onAway, onLost, session, take } from "./api.js";
import { fill, h } from "./dom.js";
import { LANGUAGES, chooseLanguage, language, t } from "./texts.js";
import { dialog, problemBox, say } from "./widgets.js";

const PAGES = { overview: "overview", streams: "streams", stream: "stream", inside: "inside", groups: "groups", group: "group", dead: "dead", scheduled: "scheduled", pipelines: "pipelines", server: "server" };
const LINKS = ["overview", "streams", "groups", "dead", "scheduled", "pipelines", "server"];
const PARTS = { stream: "streams", inside: "streams", group: "groups" };   // which link a page belongs to
const root = document.getElementById("root");
let leaving = new AbortController();

function keep(name, value) { try { localStorage.setItem(name, value); } catch { /* a browser that keeps nothing */ } }

function toggleTheme() {
  const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  keep("headrace-theme", document.documentElement.dataset.theme);
}

function preferences() {
  return [h("select", { "aria-label": t("language"), onchange: (event) => { chooseLanguage(event.target.value); start(session.about); } },
    ...LANGUAGES.map(([code, label]) => h("option", { value: code, selected: code === language() }, label))),
  h("button", { class: "plain", "aria-label": t("theme"), title: t("theme"), onclick: toggleTheme }, "◐")];
}

// --- login ---------------------------------------------------------------------------------------------------------------

function login(about, problem = null) {
  leaving.abort();
  document.title = "Headrace";
  const user = h("input", { name: "user", autocomplete: "username", value: "default", required: true });
  const password = h("input", { name: "password", type: "password", autocomplete: "current-password" });
  const trouble = h("div", { "aria-live": "assertive" }, problem);
  const button = h("button", { class: "primary", type: "submit" }, t("login.go"));
  const form = h("form", { class: "login card", onsubmit: async (event) => {
    event.preventDefault();
    button.disabled = true;
    try { const told = await ask("login", { user: user.value, password: password.value }); take(told); start(told); }
    catch (error) { fill(trouble, problemBox(error)); password.select(); }
    button.disabled = false;
  } }, h("h1", {}, h("img", { src: "/static/icon.svg", alt: "", width: 28, height: 28 }), " Headrace"), h("p", { class: "quiet" }, t("login.about", { server: about.server })), trouble,
  h("label", {}, t("user"), user), h("label", {}, t("login.password"), password, h("small", {}, t("login.hint"))), button);
  fill(root, h("main", { class: "login-page" }, form, h("div", { class: "preferences" }, preferences())));
  password.focus();
}

// --- the frame -----------------------------------------------------------------------------------------------------------

const place = h("main", { id: "page", tabindex: "-1" });
const banner = h("div", { class: "banner", role: "alert", hidden: true });

function start(about) {
  document.documentElement.lang = language();
  if (!about?.token) { login(about ?? { server: "" }); return; }
  fill(root, h("a", { class: "skip", href: "#page", onclick: (event) => { event.preventDefault(); place.focus(); } }, t("skip")),
    h("header", { class: "top" }, h("a", { class: "brand", href: "#/overview" }, h("img", { src: "/static/icon.svg", alt: "", width: 22, height: 22 }), "Headrace"),
      h("nav", { class: "main", "aria-label": t("nav.label") }, ...LINKS.map((each) => h("a", { href: `#/${each}`, "data-page": each }, t(`nav.${each}`)))),
      h("div", { class: "who" }, h("span", { class: "quiet server", title: `${about.product.name} ${about.product.version}` }, about.server), about.read_only && h("span", { class: "badge" }, t("read_only")),
        h("span", { class: "quiet" }, about.user), h("button", { class: "plain", "aria-label": t("help.title"), title: t("help.title"), onclick: help }, "?"), preferences(),
        h("button", { class: "small", onclick: async () => { try { await ask("logout"); } catch (error) { say(error); } take({ server: about.server }); login(about); } }, t("logout")))),
    banner, place);
  route();
}

async function route() {
  if (!session.token) return;
  const [page = "overview", ...words] = location.hash.replace(/^#\/?/, "").split("/").filter(Boolean);
  if (!Object.hasOwn(PAGES, page)) { location.hash = "#/overview"; return; }
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  for (const link of document.querySelectorAll("nav.main a")) {
    if (link.dataset.page === (PARTS[page] ?? page)) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  document.title = `${t(`nav.${PARTS[page] ?? page}`)} · Headrace`;
  window.scrollTo(0, 0);
  delete place.dataset.shown;
  try {
    const { show } = await import(`./pages/${PAGES[page]}.js`);
    if (!signal.aborted) await show(place, words, signal);
  } catch (error) { if (error.name !== "AbortError" && !signal.aborted) fill(place, problemBox(error)); }
  if (!signal.aborted) place.dataset.shown = location.hash;   // the first reading is there
}

// --- keys ----------------------------------------------------------------------------------------------------------------

function help() {
  const keys = [["/", t("help.search")], ["?", t("help.help")], ["↑ ↓", t("help.rows")], ["Enter", t("help.open")], ["Esc", t("help.close")], ["g o  g s  g g  g d", t("help.go")]];
  dialog(t("help.title"), h("table", { class: "small keys" }, h("tbody", {}, ...keys.map(([key, what]) => h("tr", {}, h("th", { scope: "row" }, h("kbd", {}, key)), h("td", {}, what))))));
}

let pressed = "";
document.addEventListener("keydown", (event) => {
  if (event.target.closest("input,textarea,select,dialog") || event.ctrlKey || event.metaKey || event.altKey || !session.token) return;
  if (pressed === "g") {
    const target = { o: "overview", s: "streams", g: "groups", d: "dead" }[event.key];
    pressed = "";
    if (target) { location.hash = `#/${target}`; return; }
  }
  if (event.key === "/") { const search = document.querySelector("[data-search]"); if (search) { event.preventDefault(); search.focus(); search.select(); } }
  else if (event.key === "?") help();
  else if (event.key === "g") { pressed = "g"; setTimeout(() => { pressed = ""; }, 1000); }
  else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    const rows = [...document.querySelectorAll("#page tr.opens")];
    if (!rows.length) return;
    event.preventDefault();
    const at = rows.indexOf(document.activeElement.closest("tr.opens"));
    rows[Math.min(Math.max(at + (event.key === "ArrowDown" ? 1 : -1), 0), rows.length - 1)].focus();
  }
});

window.addEventListener("hashchange", route);
onLost(() => { if (session.token) { const about = session.about; take({ server: about.server }); login(about, h("p", { class: "note" }, t("error.session"))); } });
onAway((away, text) => { banner.hidden = !away; banner.textContent = away ? text : ""; });

try { const about = await ask("session"); take(about); start(about); }
catch (error) { fill(root, problemBox(error)); }
