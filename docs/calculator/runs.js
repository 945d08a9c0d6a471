/* A run: its fields, what they may be, how a link holds them, and the numbers that the core is given. */
"use strict";

/** Fields with a number: label, hint, ends of the slider, and what may be typed. */
const NUMBERS = {
  noise: { label: "Noise multiplier σ", hint: "standard deviation of the noise over the clipping norm",
           slider: [0.2, 20], least: 0, start: 1 },
  rate: { label: "Sampling rate", hint: "chance of each record to be in a batch",
          slider: [1e-5, 1], least: 0, most: 1, start: 0.01 },
  batch: { label: "Batch size", hint: "records, on average with Poisson sampling",
           slider: [1, 65536], whole: true, least: 1, start: 600 },
  records: { label: "Records in the data set", slider: [100, 1e8], whole: true, least: 1, start: 60000 },
  length: { label: "Length of the training", slider: [1, 100000], least: 0, start: 10 },
  group: { label: "Records per person, at most", hint: "1 protects single records",
           slider: [1, 64], whole: true, least: 1, start: 1 },
  delta: { label: "δ is 1 in", hint: "chance that the guarantee fails; more than the number of records",
           slider: [100, 1e12], above: 1, start: 100000 },
};

const CHOICES = {
  scheme: ["poisson", "shuffled", "fixed", "allocated", "full"],
  by: ["size", "rate"],
  unit: ["epochs", "steps"],
  neighbours: ["add_remove", "replace", "zero_out"],
};

const CODES = { poisson: 0, fixed: 1, full: 2, allocated: 3, shuffled: 4 };

/** The run of a page without a link. */
function firstRun() {
  const run = { scheme: "poisson", by: "size", unit: "epochs", neighbours: "add_remove" };
  for (const [name, field] of Object.entries(NUMBERS)) run[name] = String(field.start);
  return run;
}

/** Whether the scheme is described by a batch and the number of records, and not by a rate. */
function isBySize(run) {
  if (run.scheme === "shuffled" || run.scheme === "fixed") return true;
  return run.scheme !== "full" && run.by === "size";
}

/** The fields that count for a run, in their order. */
function fieldsOf(run) {
  const batches = run.scheme === "full" ? [] : isBySize(run) ? ["batch", "records"] : ["rate"];
  return ["noise", ...batches, "length", "group", "delta"];
}

/** What is wrong with the text of a field, or "". */
function wrong(name, text) {
  const field = NUMBERS[name];
  const value = text.trim() === "" ? NaN : Number(text.replace(/(?<=\d),(?=\d{3}(\D|$))/g, ""));
  if (!Number.isFinite(value)) return "Enter a number.";
  if (field.whole && !Number.isSafeInteger(value)) return "Enter a whole number.";
  if ("above" in field && value <= field.above) return `Enter a number above ${field.above}.`;
  if ("least" in field && value < field.least) return `Enter ${field.least} or more.`;
  if ("most" in field && value > field.most) return `Enter ${field.most} or less.`;
  return "";
}

const numberIn = (text) => Number(text.replace(/,/g, ""));

/** The run in numbers, or what is wrong with it: `{problems}` by field. */
function numbersOf(run) {
  const problems = {};
  const value = {};
  for (const name of fieldsOf(run)) {
    const problem = wrong(name, run[name]);
    if (problem) problems[name] = problem;
    value[name] = numberIn(run[name]);
  }
  if (isBySize(run) && !problems.batch && !problems.records && value.batch > value.records) {
    problems.batch = "A batch has at most as many records as the data set.";
  }
  if (Object.keys(problems).length) return { problems };
  const found = { ...value, delta: 1 / value.delta, oneOver: value.delta, scheme: run.scheme, neighbours: run.neighbours };
  found.rate = run.scheme === "full" ? 1 : isBySize(run) ? value.batch / value.records : value.rate;
  found.bySize = isBySize(run);
  if (run.scheme === "allocated") {
    if (found.rate === 0) return { problems: { rate: "Enter a rate above 0." } };
    // Fewer batches reveal more, so that rounding down is safe.
    found.batches = Math.max(1, Math.floor(1 / found.rate + 1e-9));
  }
  const stepsOfEpoch = run.scheme === "full" ? 1
    : run.scheme === "shuffled" ? Math.floor(value.records / value.batch)
    : run.scheme === "allocated" ? found.batches : 1 / found.rate;
  // More steps reveal more, so that rounding up is safe; a billionth less is rounding of the division.
  found.steps = run.unit === "steps" ? value.length : Math.ceil(value.length * stepsOfEpoch * (1 - 1e-12));
  if (!Number.isSafeInteger(found.steps)) {
    return { problems: { length: run.unit === "steps" ? "Enter a whole number." : "These are too many steps." } };
  }
  return found;
}

/** The numbers that the core is given for a run under a scheme. */
function codesOf(run, scheme = run.scheme, neighbours = run.neighbours) {
  const [first, second] = { poisson: [run.rate, 0], full: [0, 0], allocated: [run.batches, 0] }[scheme]
    ?? [run.batch, run.records];
  return [run.noise, CODES[scheme], first, second, run.steps, run.group, CHOICES.neighbours.indexOf(neighbours)];
}

/** The numbers of the run with which the scheme warning compares, shuffled batches or Poisson sampling beside them, or null. */
function comparedWith(run) {
  if (run.scheme === "shuffled") return codesOf({ ...run, rate: run.batch / run.records }, "poisson", "add_remove");
  const isComparable = run.scheme === "poisson" && run.bySize && run.batch >= 1 && run.group <= run.records;
  const neighbours = run.neighbours === "replace" ? "replace" : "zero_out";
  return isComparable ? codesOf(run, "shuffled", neighbours) : null;
}

/** The part of a link that holds a run. */
function linkOf(run) {
  const kept = ["scheme", ...(run.scheme === "poisson" || run.scheme === "allocated" ? ["by"] : []), "unit", "neighbours"];
  const parts = [...kept, ...fieldsOf(run)].map((name) => [name, run[name]]);
  return `#${new URLSearchParams(parts)}`;
}

/** The run that a link holds; what it does not say, or says wrongly, is that of a page without a link. */
function runOfLink(hash) {
  const run = firstRun();
  for (const [name, value] of new URLSearchParams(hash.replace(/^#/, ""))) {
    if (CHOICES[name]?.includes(value)) run[name] = value;
    if (NUMBERS[name]) run[name] = value.slice(0, 40);
  }
  return run;
}
