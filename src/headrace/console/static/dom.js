// Elements are made by `h`, and texts are always text: no value of a stream is ever read as HTML.

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && typeof value !== "string") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  add(element, children);
  return element;
}

export function add(element, children) {
  for (const child of children.flat(3)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

export function fill(element, ...children) {
  element.replaceChildren();
  return add(element, children);
}

let numbered = 0;
export function freshId() { numbered += 1; return `id${numbered}`; }

const SVG = "http://www.w3.org/2000/svg";
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// A sparkline: a picture of few numbers, which are said in its label.
export function sparkline(values, label) {
  const picture = svg("svg", { viewBox: "0 0 80 20", class: "spark", role: "img", "aria-label": label });
  if (values.length > 1) {
    const most = Math.max(...values, 1e-9);
    const points = values.map((value, at) => `${(at * 80) / (values.length - 1)},${18.5 - (17 * value) / most}`).join(" ");
    picture.append(svg("polygon", { points: `0,20 ${points} 80,20` }), svg("polyline", { points }));
  }
  return picture;
}
