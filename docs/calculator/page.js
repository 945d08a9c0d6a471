/* The page: fields with sliders, the link, the worker, and what is shown. */
"use strict";

const byId = (id) => document.getElementById(id);

/** After this time the page says that it is still computing. */
const SLOW_MS = 1500;

/** The link of the page follows a change after this time: browsers refuse more than a hundred new links in half a minute. */
const LINK_MS = 400;

/** A worker that still computes for a run that nobody waits for any more is replaced after this time. */
const PATIENCE_MS = 300;

/**
 * The run of the fields; the worker; numbers of the newest question, of the newest that was sent, that is answered in full and that is
 * answered in part; the run to be asked about next; the timers of the note about slow answers and of the
 * link; what is shown.
 */
const page = { run: runOfLink(location.hash), worker: null, isReady: false, asked: 0, sent: 0, answered: 0, heard: 0, waiting: null, slow: 0, linking: 0, shown: {} };

/* Fields */

const toSlider = (name, value) => Math.log(Math.max(value, NUMBERS[name].slider[0]) / NUMBERS[name].slider[0])
  / Math.log(NUMBERS[name].slider[1] / NUMBERS[name].slider[0]) * 1000;

/** A number that the field may hold, in three digits. */
function allowed(name, value) {
  const { whole, above } = NUMBERS[name];
  const isWhole = whole || above || name === "length";
  return isWhole ? Math.max(1, Math.round(Number(value.toPrecision(3)))) : Number(value.toPrecision(3));
}

function ofSlider(name, place) {
  const [low, high] = NUMBERS[name].slider;
  return allowed(name, low * (high / low) ** (place / 1000));
}

/** The number after an arrow key: one, or one in a hundred, more or less. */
function stepped(name, value, direction) {
  const [low, high] = NUMBERS[name].slider;
  const next = allowed(name, value * (1 + 0.01 * direction));
  return Math.min(high, Math.max(low, next === value ? value + direction : next));
}

const DIRECTIONS = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 };

function makeField(place) {
  const name = place.dataset.field;
  const { label, hint } = NUMBERS[name];
  place.innerHTML = `<label for="${name}">${label}</label><div class="pair">`
    + `<input type="text" inputmode="decimal" id="${name}" autocomplete="off" aria-describedby="${name}-hint ${name}-error">`
    + `<input type="range" id="${name}-slider" min="0" max="1000" step="1" aria-label="${label}, slider"></div>`
    + `<span class="hint" id="${name}-hint">${hint ?? ""}</span><p class="error" id="${name}-error"></p>`;
  const [input, slider] = place.querySelectorAll("input");
  input.addEventListener("input", () => { page.run[name] = input.value; refresh(input); });
  slider.addEventListener("input", () => { page.run[name] = String(ofSlider(name, Number(slider.value))); refresh(slider); });
  slider.addEventListener("keydown", (event) => {
    const direction = DIRECTIONS[event.key];
    const value = numberIn(page.run[name]);
    if (!direction || !Number.isFinite(value)) return;
    event.preventDefault();
    page.run[name] = String(stepped(name, value, direction));
    refresh();
  });
}

function showFields(changed) {
  const counts = fieldsOf(page.run);
  for (const place of document.querySelectorAll("[data-field]")) {
    const name = place.dataset.field;
    place.hidden = !counts.includes(name);
    const [input, slider] = place.querySelectorAll("input");
    if (input !== changed) input.value = page.run[name];
    const value = numberIn(page.run[name]);
    if (slider !== changed && Number.isFinite(value)) slider.value = String(toSlider(name, value));
    slider.setAttribute("aria-valuetext", page.run[name]);
  }
  for (const name of Object.keys(CHOICES)) byId(name).value = page.run[name];
  byId("by-field").hidden = !["poisson", "allocated"].includes(page.run.scheme);
  const isShuffled = page.run.scheme === "shuffled";
  for (const option of byId("neighbours").options) {
    option.disabled = (option.value === "add_remove" && isShuffled) || (option.value === "zero_out" && !isShuffled);
  }
}

function showProblems(problems) {
  for (const name of Object.keys(NUMBERS)) {
    byId(name).setAttribute("aria-invalid", String(Boolean(problems[name])));
    byId(`${name}-error`).textContent = problems[name] ?? "";
  }
}

/* Results */

function showProblem(text) {
  byId("problem").textContent = text;
  byId("problem").hidden = !text;
  byId("answer").hidden = Boolean(text);
  if (text) byId("bar").textContent = "no result";
}

function showEpsilon(run, epsilon, took) {
  showProblem("");
  const shown = Number.isFinite(epsilon.upper) ? `ε = ${roundedUp(epsilon.upper)}` : "no finite ε";
  const small = document.createElement("small");
  small.textContent = `at δ = ${oneIn(run.delta)}, for ${protectedBy(run)}`;
  byId("epsilon").replaceChildren(shown, small);
  byId("bar").textContent = shown;
  showNote(run, null);
  byId("python").textContent = pythonWords(run);
  byId("took").textContent = `Computed in ${took < 10 ? took.toFixed(1) : Math.round(took)} ms.`;
  byId("answer").dataset.took = took;
  showInterval(run, epsilon);
}

/** Both ends: the lower one of shuffled batches is known later. */
function showInterval(run, epsilon) {
  byId("interval").textContent = intervalWords(run, epsilon);
  byId("statement-text").replaceChildren(...statementWords(run, epsilon, address(), self.HOCKEYSTICK_VERSION).map(paragraph));
  Object.assign(byId("answer").dataset, { lower: epsilon.lower ?? "", upper: epsilon.upper });
}

function showNote(run, other) {
  const note = schemeNote(run, other);
  byId("scheme-warning").textContent = note;
  byId("scheme-warning").hidden = !note;
}

function paragraph(text) {
  const made = document.createElement("p");
  made.textContent = text;
  return made;
}

function showCurve(run, epsilon, found) {
  byId("attacks-about").textContent = attackerWords(run);
  byId("attacks").replaceChildren(...attackWords(run, found).map((text) => {
    const item = document.createElement("li");
    item.textContent = text;
    return item;
  }));
  drawCurve(byId("curve"), found.curve, epsilon.upper, run.delta);
  byId("curve-text").textContent = "A smaller chance δ that the guarantee fails goes with a larger ε. "
    + `The point is this run's answer, ε = ${roundedUp(epsilon.upper)} at δ = ${oneIn(run.delta)}.`;
  byId("points").tBodies[0].replaceChildren(...found.curve.filter((_, i) => i % 2 === 0).map(([at, delta]) => {
    const row = document.createElement("tr");
    for (const text of [general(at, 4), roundedUp(delta, 3)]) row.append(Object.assign(document.createElement("td"), { textContent: text }));
    return row;
  }));
}

/* The worker */

function startWorker() {
  if (!self.HOCKEYSTICK_ENGINE) {
    showProblem("The calculator's engine is missing from this copy of the documentation: `make calculator` builds it.");
    settle();
    return;
  }
  page.worker?.terminate();
  const source = URL.createObjectURL(new Blob([`(${calculatorWorker})()`], { type: "text/javascript" }));
  const worker = new Worker(source);
  page.worker = worker;
  page.isReady = false;
  page.answered = page.asked;
  worker.onmessage = ({ data }) => told(data);
  worker.onerror = (event) => failed(event.message);
  compiledEngine().then((module) => worker.postMessage({ module }), (error) => failed(String(error)));
}

/** The engine, compiled once: workers that are started later share its code, which the browser makes faster while it is used. */
function compiledEngine() {
  const compile = async () => {
    const packed = Uint8Array.from(atob(self.HOCKEYSTICK_ENGINE), (letter) => letter.charCodeAt(0));
    const code = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    return WebAssembly.compile(await new Response(code).arrayBuffer());
  };
  page.engine ??= compile();
  return page.engine;
}

function failed(said) {
  page.worker?.terminate();
  page.worker = null;
  settle();
  showProblem("The calculator failed on these numbers, which is a defect: please report it with the link to this page. "
    + `It said: ${said}`);
}

function settle() {
  clearTimeout(page.slow);
  byId("busy").textContent = "";
  page.answered = page.asked;
  byId("answer").setAttribute("aria-busy", "false");
}

function told(data) {
  if (data.ready) {
    page.isReady = true;
    if (page.waiting) send();
    return;
  }
  if (data.failed !== undefined) { failed(data.failed); return; }
  if (data.id !== page.asked) return;
  page.heard = data.id;
  const { run } = page.shown;
  if (data.refused) { showProblem(`${data.refused}.`); settle(); }
  if (data.epsilon) {
    const known = page.shown.epsilon;
    page.shown.epsilon = data.epsilon;
    byId("busy").textContent = "";
    byId("answer").setAttribute("aria-busy", "false");
    // A first bound may come sooner than the closest one, and of shuffled batches that sooner than the lower end.
    page.shown.took ??= data.took;
    if (known && roundedUp(known.upper) === roundedUp(data.epsilon.upper)) showInterval(run, data.epsilon);
    else showEpsilon(run, data.epsilon, page.shown.took);
  }
  if (data.curve) showCurve(run, page.shown.epsilon, data);
  if (data.other) showNote(run, data.other);
  if (data.done) settle();
}

function send() {
  const run = page.waiting;
  const id = page.asked;
  const isBusy = page.answered < page.sent;
  page.waiting = null;
  page.shown = { run };
  page.sent = id;
  page.worker.postMessage({
    id: page.asked, scheme: run.scheme, fields: codesOf(run), delta: run.delta, compared: comparedWith(run),
  });
  if (!isBusy) return;
  setTimeout(() => {
    if (page.asked !== id || page.heard === id || !page.worker) return;
    page.waiting = run;
    startWorker();
  }, PATIENCE_MS);
}

/** The address of the page with the run of the fields. */
const address = () => new URL(linkOf(page.run), location.href).href;

function showLink() {
  history.replaceState(null, "", linkOf(page.run));
}

/** Shows the fields as they are, and asks for the answer. */
function refresh(changed = null) {
  showFields(changed);
  const found = numbersOf(page.run);
  showProblems(found.problems ?? {});
  clearTimeout(page.linking);
  page.linking = setTimeout(showLink, LINK_MS);
  byId("steps").textContent = found.problems ? "" : `${counted(found.steps)} ${found.steps === 1 ? "step" : "steps"} in all`;
  page.asked += 1;
  if (found.problems) {
    page.waiting = null;
    showProblem("Some numbers cannot be used: see beside the fields.");
    settle();
    return;
  }
  page.waiting = found;
  byId("answer").setAttribute("aria-busy", "true");
  clearTimeout(page.slow);
  page.slow = setTimeout(() => {
    byId("busy").textContent = page.heard === page.asked ? "Still computing the details." : "Still computing: this run is a hard one. "
      + "Changing a number stops it.";
  }, SLOW_MS);
  if (!page.worker) startWorker();
  if (page.worker && page.isReady) send();
}

/* What the user does */

document.querySelectorAll("[data-field]").forEach(makeField);
for (const name of Object.keys(CHOICES)) {
  byId(name).addEventListener("change", () => {
    page.run[name] = byId(name).value;
    if (name === "scheme" && page.run.scheme === "shuffled" && page.run.neighbours === "add_remove") page.run.neighbours = "zero_out";
    if (name === "scheme" && page.run.scheme !== "shuffled" && page.run.neighbours === "zero_out") page.run.neighbours = "add_remove";
    refresh();
  });
}
byId("run").addEventListener("submit", (event) => event.preventDefault());
byId("print").addEventListener("click", () => window.print());
byId("copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(address());
    byId("copied").textContent = "Copied.";
  } catch {
    byId("copied").textContent = `The link is ${address()}`;
  }
});
window.addEventListener("hashchange", () => { page.run = runOfLink(location.hash); refresh(); });
startWorker();
refresh();
