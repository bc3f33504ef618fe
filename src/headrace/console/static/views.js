// A value as text, JSON, MessagePack or hex: the same bytes, seen in four ways.
import { bytesOf, shownName } from "./names.js";

export function hex(text, most = 4096) {
  const bytes = bytesOf(text).subarray(0, most);
  const lines = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const row = [...bytes.subarray(at, at + 16)];
    const shown = row.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "·")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ").padEnd(47)}  ${shown}`);
  }
  return lines.join("\n");
}

export function json(text) {
  try {
    const value = JSON.parse(text);
    return typeof value === "object" && value !== null ? JSON.stringify(value, null, 2) : null;
  } catch { return null; }
}

// MessagePack: one value that fills all bytes, else null.
export function messagePack(text) {
  const bytes = bytesOf(text);
  const view = new DataView(bytes.buffer);
  let at = 0;
  const need = (count) => { if (at + count > bytes.length) throw new RangeError("end"); at += count; return at - count; };
  const big = (value) => (value <= BigInt(Number.MAX_SAFE_INTEGER) && value >= BigInt(Number.MIN_SAFE_INTEGER) ? Number(value) : `${value}`);
  const string = (count) => { const from = need(count); return new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(from, from + count)); };
  const binary = (count) => { const from = need(count); return "0x" + [...bytes.subarray(from, from + count)].map((byte) => byte.toString(16).padStart(2, "0")).join(""); };
  const length = { 1: () => view.getUint8(need(1)), 2: () => view.getUint16(need(2)), 4: () => view.getUint32(need(4)) };
  const array = (count, depth) => { if (count > bytes.length) throw new RangeError("count"); return Array.from({ length: count }, () => read(depth + 1)); };
  const map = (count, depth) => { if (count > bytes.length) throw new RangeError("count"); const found = {}; for (let n = 0; n < count; n += 1) { const key = read(depth + 1); Object.defineProperty(found, String(key), { value: read(depth + 1), enumerable: true, configurable: true }); } return found; };
  function read(depth) {
    if (depth > 32) throw new RangeError("depth");
    const first = view.getUint8(need(1));
    if (first < 0x80) return first;
    if (first < 0x90) return map(first & 15, depth);
    if (first < 0xa0) return array(first & 15, depth);
    if (first < 0xc0) return string(first & 31);
    if (first >= 0xe0) return first - 256;
    switch (first) {
      case 0xc0: return null;
      case 0xc2: return false;
      case 0xc3: return true;
      case 0xc4: return binary(length[1]());
      case 0xc5: return binary(length[2]());
      case 0xc6: return binary(length[4]());
      case 0xca: return view.getFloat32(need(4));
      case 0xcb: return view.getFloat64(need(8));
      case 0xcc: return view.getUint8(need(1));
      case 0xcd: return view.getUint16(need(2));
      case 0xce: return view.getUint32(need(4));
      case 0xcf: return big(view.getBigUint64(need(8)));
      case 0xd0: return view.getInt8(need(1));
      case 0xd1: return view.getInt16(need(2));
      case 0xd2: return view.getInt32(need(4));
      case 0xd3: return big(view.getBigInt64(need(8)));
      case 0xd9: return string(length[1]());
      case 0xda: return string(length[2]());
      case 0xdb: return string(length[4]());
      case 0xdc: return array(length[2](), depth);
      case 0xdd: return array(length[4](), depth);
      case 0xde: return map(length[2](), depth);
      case 0xdf: return map(length[4](), depth);
      default: throw new RangeError("type");
    }
  }
  try {
    const value = read(0);
    return at === bytes.length && typeof value === "object" && value !== null ? JSON.stringify(value, null, 2) : null;
  } catch { return null; }
}

// What can be said of a value, the most telling first.
export function viewsOf(text) {
  const found = [];
  const asJson = json(text);
  if (asJson !== null) found.push(["JSON", asJson]);
  const asPack = messagePack(text);
  if (asPack !== null) found.push(["MessagePack", asPack]);
  found.push(["text", shownName(text, 1 << 20)], ["hex", hex(text)]);
  return found;
}
