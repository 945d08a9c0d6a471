/* What runs beside the page: the compiled core, and the questions that the page asks about a run. */
"use strict";

/** The body of a worker. It is passed on as text, so that the page also works when it is opened as a file. */
function calculatorWorker() {
  const EPSILON = 0, DELTA = 1, MISSES = 2, UPPER = 3;
  const ACCURATE = 1e-6, DRAWN = 1e-3, FIRST = 0.1;
  /** A first bound that is there within this time is not shown: the closest one follows at once. */
  const NOTICED_MS = 3;
  /** Points of the curve; of shuffled batches, whose points take up to a second each, fewer. */
  const POINTS = 33, SHUFFLED_POINTS = 9;
  /** Runs of the kinds whose code is slow at first, as the core takes them: browsers compile what is used for the first time, for up to a tenth of a second. */
  const KINDS = [
    [1, 0, 0.01, 0, 1000, 8, 0], [1, 0, 0.01, 0, 1000, 1, 1], [1, 1, 100, 10000, 100, 1, 0], [1, 1, 100, 10000, 100, 1, 1],
    [3, 3, 100, 0, 300, 1, 0], [3, 3, 20, 0, 20, 1, 0],
  ];
  const ROUNDS = 3;
  let core = null;
  let newest = 0;
  let isWarm = false;

  class Refused extends Error {}

  const reason = () => {
    const bytes = new Uint8Array(core.memory.buffer, core.message(), core.message_length());
    return new TextDecoder().decode(bytes.slice());
  };

  function begin(fields) {
    new Float64Array(core.memory.buffer, core.fields(), fields.length).set(fields);
    if (!core.start()) throw new Refused(reason());
  }

  function ask(question, at, tolerance) {
    if (!core.ask(question, at, tolerance)) throw new Refused(reason());
    const [lower, upper] = new Float64Array(core.memory.buffer, core.ends(), 2);
    return { lower, upper };
  }

  /** Lets messages of the page in between. */
  const breathe = () => new Promise((resume) => setTimeout(resume, 0));

  function epsilons(largest, points) {
    return Array.from({ length: points }, (_, i) => largest * (i / (points - 1)));
  }

  async function answer({ id, scheme, fields, delta, compared }) {
    const isShuffled = scheme === "shuffled";
    const tell = (part) => self.postMessage({ id, ...part });
    const began = performance.now();
    begin(fields);
    // A bound that is proven too, and less close, is shown first where it is not there at once: the closest one takes a few times as long.
    // Not so with dealt batches, of which the first bound takes as long as the second.
    if (scheme !== "allocated") {
      const sooner = ask(UPPER, delta, FIRST).upper;
      const hasPassed = performance.now() - began;
      if (hasPassed > NOTICED_MS) {
        tell({ epsilon: { lower: null, upper: sooner }, took: hasPassed });
        await breathe();
        if (id !== newest) return;
      }
    }
    if (isShuffled) {
      // The lower end takes up to two seconds, and the upper one is the one to quote.
      tell({ epsilon: { lower: null, upper: ask(UPPER, delta, ACCURATE).upper }, took: performance.now() - began });
      await breathe();
      if (id !== newest) return;
    }
    const epsilon = ask(EPSILON, delta, ACCURATE);
    tell({ epsilon, took: performance.now() - began });
    await breathe();
    if (id !== newest) return;
    const advantage = ask(DELTA, 0, ACCURATE).upper;
    const misses = isShuffled ? [] : [0.01, 0.001].map((rate) => [rate, ask(MISSES, rate, ACCURATE).lower]);
    const top = Number.isFinite(epsilon.upper) && epsilon.upper > 0 ? 1.6 * epsilon.upper : 1;
    const curve = [];
    for (const at of epsilons(top, isShuffled ? SHUFFLED_POINTS : POINTS)) {
      curve.push([at, ask(DELTA, at, DRAWN).upper]);
      await breathe();
      if (id !== newest) return;
    }
    tell({ advantage, misses, curve });
    if (compared) {
      await breathe();
      if (id !== newest) return;
      begin(compared);
      tell({ other: ask(EPSILON, delta, 1e-4) });
    }
    tell({ done: true });
    if (!isWarm) await warm(id);
  }

  /** Asks about `KINDS`, so that their code is fast when somebody does; stops when somebody does. */
  async function warm(id) {
    for (let round = 0; round < ROUNDS; round += 1) {
      for (const fields of KINDS) {
        await breathe();
        if (id !== newest) return;
        begin(fields);
        ask(EPSILON, 1e-5, ACCURATE);
      }
    }
    isWarm = true;
  }

  self.onmessage = async ({ data }) => {
    try {
      if (data.module) {
        core = (await WebAssembly.instantiate(data.module, {})).exports;
        self.postMessage({ ready: true });
        return;
      }
      newest = data.id;
      await answer(data);
    } catch (error) {
      if (error instanceof Refused) {
        self.postMessage({ id: data.id, refused: error.message });
        return;
      }
      // A panic of the core traps; what it said is still in its memory.
      let said = "";
      try { said = core ? reason() : ""; } catch { /* its memory is gone too */ }
      self.postMessage({ id: data.id, failed: said || String(error) });
    }
  };
}
