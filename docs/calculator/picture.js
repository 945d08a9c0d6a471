/* The curve as a picture: δ on a logarithmic axis against ε. */
"use strict";

const SVG = "http://www.w3.org/2000/svg";

function drawn(name, attributes, text = "") {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  return element;
}

/** About so many round numbers from 0 to an end. */
function ticks(end, wanted) {
  const raw = end / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= raw) * power;
  return Array.from({ length: Math.floor(end / step + 1e-9) + 1 }, (_, i) => i * step);
}

/** Draws the points [ε, δ], and the answer at a δ. */
function drawCurve(svg, points, epsilon, delta) {
  const left = 66, right = 448, top = 12, bottom = 226;
  const seen = points.filter(([, value]) => value > 0);
  if (seen.length < 2) { svg.replaceChildren(); return; }
  const end = points.at(-1)[0];
  const lowest = Math.max(-40, Math.floor(Math.log10(Math.min(delta, seen.at(-1)[1]))));
  const x = (value) => left + (right - left) * value / end;
  const y = (value) => bottom - (bottom - top) * (1 - Math.max(lowest, Math.log10(value)) / lowest);
  const parts = [drawn("title", { id: "curve-title" }, "δ against ε for this run")];
  for (const value of ticks(end, 5)) {
    parts.push(drawn("line", { x1: x(value), x2: x(value), y1: top, y2: bottom, class: "grid" }));
    parts.push(drawn("text", { x: x(value), y: bottom + 17, "text-anchor": "middle" }, general(value, 3)));
  }
  const every = Math.max(1, Math.ceil(-lowest / 5));
  for (let power = 0; power >= lowest; power -= every) {
    const value = 10 ** power;
    parts.push(drawn("line", { x1: left, x2: right, y1: y(value), y2: y(value), class: "grid" }));
    const label = drawn("text", { x: left - 7, y: y(value) + 4, "text-anchor": "end" }, power === 0 ? "1" : "10");
    if (power !== 0) label.append(drawn("tspan", { dy: -5, "font-size": 9 }, `−${-power}`));
    parts.push(label);
  }
  const line = seen.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
  parts.push(drawn("polyline", { points: line, class: "line" }));
  if (Number.isFinite(epsilon) && epsilon <= end) {
    const [cx, cy] = [x(epsilon), y(delta)];
    parts.push(drawn("path", { d: `M${left},${cy}H${cx}V${bottom}`, class: "answer-line" }));
    parts.push(drawn("circle", { cx, cy, r: 5, class: "answer-point" }));
  }
  parts.push(drawn("text", { x: (left + right) / 2, y: 263, "text-anchor": "middle", class: "axis" }, "ε"));
  parts.push(drawn("text", { x: 16, y: (top + bottom) / 2, class: "axis", "text-anchor": "middle" }, "δ"));
  svg.replaceChildren(...parts);
}
