// Questions to the console's own server. A session that is over leads to the login; a server that is away is said in a
// banner until it is back.
import { t } from "./texts.js";

export const session = { token: "", user: "", about: null };
const listeners = { lost: () => {}, away: () => {} };
export function onLost(call) { listeners.lost = call; }
export function onAway(call) { listeners.away = call; }

export class Problem extends Error {
  constructor(status, code, text) {
    super(text || code);
    this.status = status;
    this.code = code;
    this.detail = text;
  }
  get sentence() {
    const known = t(`error.${this.code}`);
    return this.detail && !["session", "token"].includes(this.code) ? `${known} ${this.detail}` : known;
  }
}

async function post(path, body, signal) {
  let response;
  try {
    response = await fetch(path, {
      method: "POST", signal, credentials: "same-origin", cache: "no-store",
      headers: { "Content-Type": "application/json", "X-CSRF-Token": session.token },
      body: JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    listeners.away(true, t("error.console_away"));
    throw new Problem(0, "console_away", "");
  }
  if (response.ok) { listeners.away(false); return response; }
  const told = await response.json().catch(() => ({ error: "request", text: `HTTP ${response.status}` }));
  const problem = new Problem(response.status, told.error, told.text);
  if (problem.code === "session" || problem.code === "token") listeners.lost();
  if (response.status === 503) listeners.away(true, problem.sentence);
  throw problem;
}

export async function ask(name, body = {}, signal = undefined) {
  return (await post(`/api/${name}`, body, signal)).json();
}

export function take(about) {
  session.about = about;
  session.token = about.token ?? "";
  session.user = about.user ?? "";
}

// Lines of JSON, as they come.
export async function* lines(name, body, signal) {
  const response = await post(`/api/${name}`, body, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    held += value;
    const parts = held.split("\n");
    held = parts.pop();
    for (const part of parts) if (part) yield JSON.parse(part);
  }
}
