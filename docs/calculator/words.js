/* What the page says about a run, in words. */
"use strict";

const ONE_RECORD = { add_remove: "any one record that is added to the data or removed from it",
                     replace: "any one record that is replaced by another",
                     zero_out: "any one record whose contribution is left out" };

const SEVERAL = { add_remove: "are added to the data or removed from it",
                  replace: "are replaced by others",
                  zero_out: "have their contributions left out" };

/** Who is protected. */
function protectedBy(run) {
  if (run.group === 1) return ONE_RECORD[run.neighbours];
  return `any person with at most ${counted(run.group)} records, which ${SEVERAL[run.neighbours]}`;
}

/** How the batches are drawn. */
function drawing(run) {
  const size = run.bySize ? `${counted(run.batch)} of ${counted(run.records)} records` : "";
  return {
    poisson: run.bySize
      ? `every record is in a batch with probability ${counted(run.batch)}/${counted(run.records)}, independently of all others`
      : `every record is in a batch with probability ${general(run.rate, 6)}, independently of all others`,
    fixed: `every batch is a fresh random choice of ${size}`,
    shuffled: `the data are shuffled in every epoch and cut into batches of ${size}`,
    allocated: `in every epoch each record goes into one of ${counted(run.batches ?? 1)} batches, at random and on its own`,
    full: "all records are in every step",
  }[run.scheme];
}

/** What has to be true of the training for the number to hold, and whether δ is too large to mean much. */
function schemeNote(run, other) {
  const large = run.bySize && run.delta > 1 / run.records
    ? " δ is above one in the number of records: publishing a few records in full would pass as private." : "";
  return (drawingNote(run, other) + large).trim();
}

/** What has to be true of how batches are drawn. */
function drawingNote(run, other) {
  if (run.scheme === "poisson") {
    const between = other
      ? ` With shuffled batches of the same size, ε lies between ${roundedDown(other.lower, 3)} and ${roundedUp(other.upper, 3)}.`
      : "";
    return `This holds only if each record joins each batch independently of all others. Most data loaders shuffle instead.${between}`;
  }
  if (run.scheme === "shuffled") {
    const poisson = other ? ` Accounting for Poisson sampling would claim ${roundedUp(other.upper, 3)}, which is not this run's.` : "";
    return `No exact value is known for shuffled batches, only this interval: quote its upper end.${poisson}`;
  }
  if (run.scheme === "fixed") {
    return "This holds only for a fresh random choice in every step. Cutting shuffled data into batches is something else.";
  }
  if (run.scheme === "allocated") {
    return "This holds only if each record draws its batch on its own, so that batches differ in size. "
      + "Cutting shuffled data into equal batches is something else.";
  }
  return "";
}

/** Whether the interval is about an upper bound, which the run itself may stay below. */
function isUpperBound(run) {
  return run.scheme === "shuffled" || (run.scheme === "fixed" && run.neighbours === "replace")
    || (run.scheme === "allocated" && (run.group > 1 || run.steps % run.batches !== 0));
}

/** What the interval says. */
function intervalWords(run, epsilon) {
  if (!Number.isFinite(epsilon.upper)) return "No finite ε is known for this run: it gives no guarantee at this δ.";
  if (epsilon.lower === null) return `Certified: ε is at most ${roundedUp(epsilon.upper)}. The lower end is being computed.`;
  if (run.scheme === "shuffled") return `Certified: ε lies between ${roundedDown(epsilon.lower, 3)} and ${roundedUp(epsilon.upper)}.`;
  const ends = `between ${roundedDown(epsilon.lower, 7)} and ${roundedUp(epsilon.upper, 7)}`;
  if (isUpperBound(run)) return `Certified: this upper bound lies ${ends}. The true ε may be smaller.`;
  return `Certified: the exact value lies ${ends}.`;
}

/** How often attacks miss at least at a rate of false alarms, by points of the curve: two lines each (Wasserman and Zhou 2010). */
function missesByCurve(curve, rate) {
  const lines = curve.map(([epsilon, delta]) =>
    Math.max(1 - delta - Math.exp(epsilon) * rate, (1 - delta - rate) * Math.exp(-epsilon)));
  return Math.max(0, ...lines);
}

/** What attacks can do, in sentences. */
function attackWords(run, { advantage, misses, curve }) {
  const who = run.group === 1 ? "record" : "person";
  const rates = misses.length ? misses : [0.01, 0.001].map((rate) => [rate, missesByCurve(curve, rate)]);
  const found = rates.map(([rate, missed]) =>
    `An attacker who wrongly accuses at most ${oneIn(rate)} of the ${who}s that did not take part finds at most ${percentUp(1 - missed)} of those that did `
    + `(by guessing: ${percentUp(rate)}).`);
  return [
    `If a ${who} took part with probability 1/2, an attacker who guesses whether it did is right at most ${percentUp((1 + advantage) / 2)} `
    + "of the time (by guessing: 50 %).",
    ...found,
  ];
}

const attackerWords = (run) =>
  `No attacker can do better than this, not even one who sees every step of the training and knows all ${run.group === 1 ? "other records" : "records of everybody else"}:`;

/** The statement to print: paragraphs. */
function statementWords(run, epsilon, link, version) {
  const finite = Number.isFinite(epsilon.upper);
  const what = finite
    ? `The training satisfies (ε, δ)-differential privacy with ε = ${roundedUp(epsilon.upper)} and δ = ${oneIn(run.delta)} for ${protectedBy(run)}.`
    : `The training gives no guarantee at δ = ${oneIn(run.delta)} for ${protectedBy(run)}.`;
  return [
    what,
    `It has ${counted(run.steps)} ${run.steps === 1 ? "step" : "steps"} of DP-SGD with Gaussian noise of ${general(run.noise, 6)} times the clipping norm; ${drawing(run)}. `
    + intervalWords(run, epsilon),
    "It holds against an attacker who sees the noisy sum of every step, and so all checkpoints, and who knows all other records. "
    + "It assumes that every contribution is clipped, and that sums are divided by a public number rather than by the size of the batch.",
    "It does not cover other uses of the same data: tuning runs, earlier models, statistics computed from them.",
    `Computed with hockeystick ${version} in a browser on ${new Date().toISOString().slice(0, 10)}. To check it: ${link}`,
  ];
}

/** The call that gives the same number in Python. */
function pythonWords(run) {
  const text = (value) => String(value);
  const sampling = {
    poisson: run.bySize ? `sample_rate=${text(run.batch)} / ${text(run.records)}` : `sample_rate=${text(run.rate)}`,
    fixed: `sampling=hs.WithoutReplacement(${text(run.batch)}, ${text(run.records)})`,
    shuffled: `sampling=hs.Shuffle(${text(run.batch)}, ${text(run.records)})`,
    allocated: `sampling=hs.RandomAllocation(${text(run.batches)})`,
    full: "sampling=hs.FullBatch()",
  }[run.scheme];
  const parts = [`delta=1 / ${text(run.oneOver)}`,
                 `noise_multiplier=${text(run.noise)}`, sampling, `steps=${text(run.steps)}`];
  if (run.group > 1) parts.push(`group_size=${text(run.group)}`);
  if (run.neighbours !== "add_remove") parts.push(`adjacency="${run.neighbours}"`);
  return `import hockeystick as hs\n\nhs.get_epsilon(\n    ${parts.join(",\n    ")},\n    bounds=True,\n)`;
}
