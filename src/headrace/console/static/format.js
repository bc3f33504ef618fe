// How numbers, sizes, durations and times look, in every page alike.
import { language, t } from "./texts.js";

export function number(value) {
  return value === null || value === undefined ? "–" : Number(value).toLocaleString(language());
}

export function rate(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value === 0) return "0";
  return value >= 10 ? number(Math.round(value)) : value >= 0.1 ? value.toFixed(1) : value.toFixed(2);
}

export function size(bytes) {
  if (bytes === null || bytes === undefined) return "–";
  const units = ["B", "KB", "MB", "GB", "TB"];
  let value = Number(bytes), unit = 0;
  while (value >= 1000 && unit < units.length - 1) { value /= 1024; unit += 1; }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

export function speed(bytes) { return bytes === null || bytes === undefined ? "–" : `${size(bytes)}/s`; }

export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms > 0 && ms < 0.1) return `${Math.max(Math.round(ms * 1000), 1)} µs`;
  if (ms > 0 && ms < 10) return `${ms.toFixed(ms < 1 ? 2 : 1)} ms`;
  if (ms < 1000) return `${Math.max(Math.round(ms), 0)} ms`;
  const seconds = ms / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const parts = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = parts.findIndex(([, each]) => seconds >= each);
  const [unit, each] = parts[first];
  const rest = parts[first + 1] && Math.floor((seconds % each) / parts[first + 1][1]);
  return `${Math.floor(seconds / each)} ${unit}` + (rest ? ` ${rest} ${parts[first + 1][0]}` : "");
}

export function idTime(id) {
  if (!id) return null;
  const ms = Number(String(id).split("-")[0]);
  return ms > 946684800000 && ms < 4102444800000 ? ms : null;   // 2000 to 2100: other IDs are no times
}

const two = (value, width = 2) => String(value).padStart(width, "0");
export function time(ms, { date = true, millis = true } = {}) {
  if (ms === null || ms === undefined) return "–";
  const when = new Date(ms);
  const day = `${when.getFullYear()}-${two(when.getMonth() + 1)}-${two(when.getDate())} `;
  const clock = `${two(when.getHours())}:${two(when.getMinutes())}:${two(when.getSeconds())}`;
  return (date ? day : "") + clock + (millis ? `.${two(when.getMilliseconds(), 3)}` : "");
}

export function age(id) {
  const ms = idTime(id);
  return ms === null ? "–" : duration(Math.max(Date.now() - ms, 0));
}

export function ago(id) { return idTime(id) === null ? "–" : t("ago", { age: age(id) }); }
