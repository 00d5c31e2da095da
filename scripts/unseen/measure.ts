/**
 * First schedules of unseen problems beside cuBLASLt's first choice, then other schedules of those that were behind.
 *
 *   node measure.mjs --seed 1 --count 20 --out FILE.jsonl --seconds 300 [--others 8] [--random 4] [--below 1] [--rows bf16,f32] [--kinds any,odd] [--given FILE] [--workers 14]
 *
 * A second run with the same --out goes on behind what stands there. One line a problem; `timed`: [µs, predicted, by, backend, schedule].
 */
import { type ChildProcess, fork } from "node:child_process";
import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { Bed } from "./bed.ts";
import type { Asked, Made, Wanted } from "./compile.ts";
import { type Drawn, draw, type Kind, type RowName, requestOf } from "./draw.ts";
import { type Line, linesOf, table } from "./report.ts";

const { values } = parseArgs({
  options: {
    seed: { type: "string", default: "1" },
    count: { type: "string", default: "10" },
    out: { type: "string", default: "unseen.jsonl" },
    seconds: { type: "string", default: "300" },
    first: { type: "string", default: "1000" },
    others: { type: "string", default: "8" },
    random: { type: "string", default: "4" },
    among: { type: "string", default: "400" },
    below: { type: "string", default: "1" },
    rows: { type: "string" },
    kinds: { type: "string" },
    given: { type: "string" },
    workers: { type: "string" },
    name: { type: "string", default: "first" },
  },
});
const number = (
  name: "seed" | "count" | "seconds" | "first" | "others" | "random" | "among" | "below",
): number => Number(values[name]);

const began = performance.now();
const spent = (): number => (performance.now() - began) / 1e3;
const out = values.out;
const current = `${out}.current`;

/** Kernels from processes beside this one, in the order in which they are asked for and as they come. */
class Makers {
  readonly #idle: ChildProcess[] = [];
  readonly #waiting: { readonly asked: Asked; readonly done: (made: readonly Made[]) => void }[] = [];
  readonly #all: ChildProcess[];

  constructor(count: number) {
    const file = fileURLToPath(new URL("./worker.mjs", import.meta.url));
    this.#all = Array.from({ length: count }, () => fork(file, { serialization: "advanced" }));
    this.#idle.push(...this.#all);
  }

  make(asked: Asked): Promise<readonly Made[]> {
    return new Promise((done) => {
      this.#waiting.push({ asked, done });
      this.#next();
    });
  }

  #next(): void {
    const [maker, next] = [this.#idle[0], this.#waiting[0]];
    if (maker === undefined || next === undefined) return;
    this.#idle.shift();
    this.#waiting.shift();
    maker.once("message", ({ made, error }: { made: readonly Made[]; error?: string }) => {
      if (error !== undefined) console.error(`not made: ${JSON.stringify(next.asked.drawn)} ${error}`);
      this.#idle.push(maker);
      next.done(made);
      this.#next();
    });
    maker.send({ at: 0, asked: next.asked });
  }

  close(): void {
    for (const maker of this.#all) maker.kill();
  }
}

/** Of rows whose text is of an older target what the others have against wgmma. */
const usual: Readonly<Partial<Record<RowName, number>>> = { f16sm80: 0.72 };

/** Kernels on their way at once: enough for all makers, few enough for memory. */
const AHEAD = 48;

async function timeAll(
  bed: Bed,
  makers: Makers,
  all: readonly Asked[],
  phase: string,
  until: number,
): Promise<void> {
  const ready: { readonly asked: Asked; readonly made: readonly Made[] }[] = [];
  let [asked, under] = [0, 0];
  let wake = (): void => {};
  const more = (): void => {
    while (asked < all.length && under + ready.length < AHEAD && spent() < until) {
      const next = all[asked++];
      if (next === undefined) break;
      under++;
      void makers.make(next).then((made) => {
        under--;
        ready.push({ asked: next, made });
        wake();
      });
    }
  };
  more();
  while ((under > 0 || ready.length > 0) && spent() < until) {
    const next = ready.shift();
    if (next === undefined) {
      await new Promise<void>((done) => {
        wake = done;
        setTimeout(done, 200);
      });
      continue;
    }
    more();
    const { drawn } = next.asked;
    const { problem } = requestOf(drawn);
    writeFileSync(current, JSON.stringify({ id: drawn.id, phase }));
    let line: Line = { ...drawn, phase, cublas: null, timed: [], failures: [] };
    try {
      const { us, cublas, failures } = bed.time(problem, next.made, 1 + drawn.id);
      line = {
        ...line,
        cublas,
        failures,
        timed: next.made.map(({ predicted, by, backend, schedule }, at) => [
          us[at] ?? null,
          predicted === null ? null : Number(predicted.toFixed(2)),
          by,
          backend,
          schedule,
        ]),
      };
    } catch (error) {
      line = { ...line, failures: [String(error)] };
    }
    appendFileSync(out, `${JSON.stringify(line)}\n`);
    if (bed.lost) throw new Error(`the GPU is lost at ${JSON.stringify(drawn)}`);
    // Messages of makers come between problems.
    await new Promise((done) => setImmediate(done));
  }
}

const rowsOf = values.rows?.split(",") as readonly RowName[] | undefined;
const kindsOf = values.kinds?.split(",") as readonly Kind[] | undefined;
const drawn = draw(number("seed"), number("count"), rowsOf, kindsOf);
if (existsSync(current)) {
  const { id, phase } = JSON.parse(readFileSync(current, "utf8"));
  const lines = existsSync(out) ? linesOf(readFileSync(out, "utf8")) : [];
  const one = drawn.find((each) => each.id === id);
  if (one !== undefined && !lines.some((line) => line.id === id && line.phase === phase))
    appendFileSync(
      out,
      `${JSON.stringify({ ...one, phase, cublas: null, timed: [], failures: ["lost"] } satisfies Line)}\n`,
    );
}
const doneIn = (phase: string): ReadonlySet<number> =>
  new Set(
    (existsSync(out) ? linesOf(readFileSync(out, "utf8")) : []).flatMap((line) =>
      line.phase === phase ? [line.id] : [],
    ),
  );
const cores = Number(values.workers ?? Math.max(1, availableParallelism() - 2));
const makers = new Makers(cores);
const bed = await Bed.open();
console.error(`${bed.name}, CUDA ${bed.driverVersion}, ${cores} makers, ${spent().toFixed(1)} s`);
if (!existsSync(out))
  appendFileSync(
    out,
    `${JSON.stringify({ gpu: bed.name, cuda: bed.driverVersion, cublas: bed.cublasVersion, seed: number("seed") })}\n`,
  );
bed.prepare(drawn.map((each) => requestOf(each).problem));
console.error(`inputs: ${spent().toFixed(1)} s`);
let status = 0;
try {
  if (values.given === undefined) {
    const done = doneIn(values.name);
    const todo = drawn
      .filter(({ id }) => !done.has(id))
      .map((each): Asked => ({ drawn: each, wanted: { kind: "first" } }));
    await timeAll(bed, makers, todo, values.name, Math.min(number("first"), number("seconds")));
    console.error(`first schedules: ${spent().toFixed(1)} s`);
    const lines = linesOf(readFileSync(out, "utf8")).filter(({ phase }) => phase === values.name);
    const known = doneIn("others");
    const behind = lines
      .flatMap((line) => {
        const [us, , , backend, schedule] = line.timed[0] ?? [];
        const ratio =
          us == null || line.cublas === null ? Number.NaN : line.cublas / us / (usual[line.row] ?? 1);
        return ratio < number("below") &&
          !known.has(line.id) &&
          backend !== undefined &&
          schedule !== undefined
          ? [{ line, ratio, backend, schedule }]
          : [];
      })
      .sort((x, y) => x.ratio - y.ratio);
    const asked = behind.flatMap(({ line: { id }, schedule }): readonly Asked[] => {
      const one: Drawn | undefined = drawn.find((each) => each.id === id);
      const wanted: Wanted = {
        kind: "others",
        next: number("others"),
        random: number("random"),
        among: number("among"),
        known: [schedule],
      };
      return one === undefined ? [] : [{ drawn: one, wanted }];
    });
    await timeAll(bed, makers, asked, "others", number("seconds"));
  } else {
    const given = readFileSync(values.given, "utf8")
      .trim()
      .split("\n")
      .map((text): Asked => JSON.parse(text));
    const done = doneIn("given");
    await timeAll(
      bed,
      makers,
      given.filter((each) => !done.has(each.drawn.id)),
      "given",
      number("seconds"),
    );
  }
} catch (error) {
  console.error(String(error));
  status = 3;
}
console.log(table(linesOf(readFileSync(out, "utf8")), values.name));
console.error(`${spent().toFixed(1)} s`);
makers.close();
process.exit(status);
