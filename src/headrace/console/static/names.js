// Names and values are any bytes. A string of the console has one lone surrogate (U+DC80 to U+DCFF) for each byte that is
// not UTF-8, as the server's JSON does, so that nothing is lost on the way to the page and back.

export function bytesOf(text) {
  const bytes = [];
  const encoder = new TextEncoder();
  for (const character of text) {
    const code = character.codePointAt(0);
    if (code >= 0xdc80 && code <= 0xdcff) bytes.push(code - 0xdc00);
    else bytes.push(...encoder.encode(character));
  }
  return Uint8Array.from(bytes);
}

export function textOf(bytes) {
  const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  try { return strict.decode(bytes); } catch { /* some of it is no text */ }
  let text = "";
  for (let at = 0; at < bytes.length;) {
    let length = 1;
    const first = bytes[at];
    if (first >= 0xc2 && first <= 0xf4) length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    try {
      if (length === 1 && first >= 0x80) throw new RangeError();
      text += strict.decode(bytes.subarray(at, at + length));
      at += length;
    } catch {
      text += String.fromCharCode(0xdc00 + first);
      at += 1;
    }
  }
  return text;
}

// A name as a part of an address: bytes that are no text become %FF and the like.
export function encodeName(text) {
  let encoded = "";
  for (const byte of bytesOf(text)) {
    const character = String.fromCharCode(byte);
    encoded += /[A-Za-z0-9_.:-]/.test(character) ? character : "%" + byte.toString(16).padStart(2, "0").toUpperCase();
  }
  return encoded;
}

export function decodeName(encoded) {
  const bytes = [];
  for (let at = 0; at < encoded.length; at += 1) {
    if (encoded[at] === "%") { bytes.push(parseInt(encoded.slice(at + 1, at + 3), 16) || 0); at += 2; }
    else bytes.push(...new TextEncoder().encode(encoded[at]));
  }
  return textOf(Uint8Array.from(bytes));
}

// A word of a command as redis-cli reads it, byte for byte.
export function word(text) {
  if (/^[!#-&(-[\]-~]+$/.test(text)) return text;
  const escaped = (byte) => ({ 9: "\\t", 10: "\\n", 13: "\\r", 34: "\\\"", 92: "\\\\" })[byte]
    ?? (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "\\x" + byte.toString(16).padStart(2, "0"));
  return `"${[...bytesOf(text)].map(escaped).join("")}"`;
}

// What a person sees of a name: control characters and bytes that are no text are escaped.
export function shownName(text, most = 300) {
  let shown = "";
  for (const character of text) {
    const code = character.codePointAt(0);
    if (code >= 0xdc80 && code <= 0xdcff) shown += "\\x" + (code - 0xdc00).toString(16);
    else if (code < 0x20 || code === 0x7f) {
      shown += { 9: "\\t", 10: "\\n", 13: "\\r" }[code] ?? "\\x" + code.toString(16).padStart(2, "0");
    } else if (/[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]/.test(character)) shown += "\\u" + code.toString(16);
    else shown += character;
    if (shown.length > most) return shown.slice(0, most) + "…";
  }
  return shown;
}
