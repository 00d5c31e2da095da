/**
 * Searches schedules whose speed ptxas decides: the same kernel with its multiply-adds in another order is up to 15 % slower or faster, because the
 * registers fall into other banks. Two steps, on two machines:
 *
 *   npm run search -- draw --arch sm_80 -m 4096 -n 4096 -k 4096 --base "copy=cp.async …" --state FILE.jsonl [--count 100] [--keep 20]
 *   tilewright bench --arch sm_80 … --schedule "<what it printed>" --out TIMES.jsonl       (on the GPU machine)
 *   npm run search -- best TIMES.jsonl …
 *
 * On a GPU machine with many cores evolve.py does both at once: it asks `npm run search -- emit` for texts, assembles them, times them and varies the fastest.
 *
 * `draw` assembles schedules at random, drops those whose machine code it has seen, scores the others' main loops (sass.ts), and prints the best. What
 * it has tried stands in the state file: a second run goes on where the first one ended, with other schedules.
 */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { simt } from "@tilewright/backend-simt";
import { createRandom, defineProblem, findTarget, type Problem, type Target } from "@tilewright/core";
import { createCompiler, parseSchedule, printSchedule } from "@tilewright/ir";
import { type LoopScore, scoreLoop } from "./sass.ts";

/** What was made of a schedule. `score` is null for machine code that spills, or that another schedule has given, too. */
interface Tried {
  readonly schedule: string;
  readonly hash: string;
  readonly score: LoopScore | null;
}

/** Fields that change nothing but the order of instructions; their values are drawn independently. */
const SPACE: Readonly<Record<string, readonly string[]>> = {
  walk: ["snake-rows"],
  walkLines: ["up", "down", "flip"].flatMap((kind) => ["", ":4", ":8", ":12"].map((from) => kind + from)),
  walkAlong: ["up", "down", "flip"].flatMap((kind) => ["", ":4"].map((from) => kind + from)),
  operandOrder: ["ab", "ba"],
  copySpread: ["2", "3", "4", "5", "6"],
  drain: ["0", "2", "3"],
  sharedLayout: ["pad", "swizzle"],
};

function must<T>(
  result:
    | { readonly ok: true; readonly value: T }
    | { readonly ok: false; readonly error: readonly { readonly message: string }[] },
): T {
  if (!result.ok) throw new Error(result.error.map(({ message }) => message).join("\n"));
  return result.value;
}

function assemble(ptx: string, folder: string): { readonly cubin: Buffer; readonly spills: boolean } {
  const [source, image] = [join(folder, "k.ptx"), join(folder, "k.cubin")];
  writeFileSync(source, ptx);
  // Times are taken on Hopper, whose driver makes the same of the text.
  execFileSync("ptxas", ["-arch=sm_90", "-v", "-o", image, source], { stdio: ["ignore", "ignore", "pipe"] });
  const cubin = readFileSync(image);
  // Local memory is what a spilling kernel has, and this backend's have no other use for it.
  return { cubin, spills: cubin.includes(".nv.local") };
}

function tryOne(
  problem: Problem,
  target: Target,
  text: string,
  folder: string,
  seen: ReadonlySet<string>,
): Tried | null {
  const schedule = must(parseSchedule(simt.schedule, text));
  const whole = printSchedule(simt.schedule, schedule);
  const artifact = createCompiler({ backends: [simt] }).compile({ problem, target, schedule });
  if (!artifact.ok) return null;
  const { cubin, spills } = assemble(artifact.value.ptx, folder);
  const hash = createHash("sha256").update(cubin).digest("hex").slice(0, 16);
  return { schedule: whole, hash, score: spills || seen.has(hash) ? null : scoreLoop(cubin) };
}

const readLines = (file: string): readonly string[] =>
  existsSync(file)
    ? readFileSync(file, "utf8")
        .split("\n")
        .filter((line) => line !== "")
    : [];

function draw(args: readonly string[]): void {
  const { values } = parseArgs({
    args: [...args],
    options: {
      arch: { type: "string", default: "sm_80" },
      m: { type: "string", short: "m", default: "4096" },
      n: { type: "string", short: "n", default: "4096" },
      k: { type: "string", short: "k", default: "4096" },
      base: { type: "string", default: "" },
      state: { type: "string", default: "search.jsonl" },
      count: { type: "string", default: "100" },
      keep: { type: "string", default: "20" },
      seed: { type: "string", default: "1" },
    },
  });
  const problem = must(
    defineProblem({ m: Number(values.m), n: Number(values.n), k: Number(values.k), dtype: "f32" }),
  );
  const target = must(findTarget(values.arch));
  const tried = readLines(values.state).map((line) => JSON.parse(line) as Tried);
  const texts = new Set(tried.map(({ schedule }) => schedule));
  const hashes = new Set(tried.map(({ hash }) => hash));
  const random = createRandom(Number(values.seed) + tried.length);
  const folder = mkdtempSync(join(tmpdir(), "search-"));
  try {
    for (let i = 0; i < Number(values.count); i++) {
      const drawn = Object.entries(SPACE)
        .filter(([name]) => !new RegExp(`(^| )${name}=`).test(values.base))
        .map(([name, words]) => `${name}=${words[random.integer(0, words.length - 1)]}`);
      const text = [values.base, ...drawn].join(" ").trim();
      if (texts.has(text)) continue;
      const one = tryOne(problem, target, text, folder, hashes);
      if (one === null) continue;
      texts.add(text);
      hashes.add(one.hash);
      tried.push(one);
      appendFileSync(values.state, `${JSON.stringify(one)}\n`);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
  const ranked = tried
    .flatMap(({ schedule, score }) => (score ? [{ schedule, score }] : []))
    .sort((x, y) => x.score.cost - y.score.cost);
  console.error(
    `${tried.length} tried, ${ranked.length} of their own machine code; cost ${ranked
      .slice(0, Number(values.keep))
      .map(({ score }) => score.cost.toFixed(3))
      .join(" ")}`,
  );
  console.log(
    ranked
      .slice(0, Number(values.keep))
      .map(({ schedule }) => schedule)
      .join("; "),
  );
}

/** The fastest of each problem in results of `tilewright bench`, as rows of a winners table. */
function best(files: readonly string[]): void {
  for (const line of files.flatMap(readLines)) {
    const { problem, contenders, gpu, date } = JSON.parse(line) as {
      readonly problem: { readonly m: number; readonly n: number; readonly k: number };
      readonly contenders: readonly {
        readonly name: string;
        readonly schedule: string | null;
        readonly us: { readonly median: number };
      }[];
      readonly gpu: { readonly name: string; readonly driver: string };
      readonly date: string;
    };
    const peer = contenders.find(({ name }) => name === "cublas");
    const [first] = contenders
      .filter(({ schedule }) => schedule !== null)
      .sort((x, y) => x.us.median - y.us.median);
    if (first === undefined) continue;
    const ratio = peer === undefined ? null : Number((peer.us.median / first.us.median).toFixed(3));
    console.log(
      JSON.stringify({
        ...{ m: problem.m, n: problem.n, k: problem.k },
        schedule: first.schedule,
        ratio,
        gpu: gpu.name,
        driver: gpu.driver,
        date,
      }),
    );
  }
}

interface Wanted {
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly arch: string;
  readonly layouts: readonly ["row" | "col", "row" | "col"];
  readonly schedule: string;
  /** Where the PTX goes. */
  readonly out: string;
}

/** What evolve.py wants to know of a kernel, or why there is none. */
function emitOne({ m, n, k, arch, layouts, schedule, out }: Wanted): object {
  const [a, b] = layouts;
  const chosen = must(parseSchedule(simt.schedule, schedule));
  const problem = must(defineProblem({ m, n, k, dtype: "f32", a: { layout: a }, b: { layout: b } }));
  const compiler = createCompiler({ backends: [simt] });
  const { ptx, manifest } = must(
    compiler.compile({ problem, target: must(findTarget(arch)), schedule: chosen }),
  );
  writeFileSync(out, ptx);
  return { schedule: printSchedule(simt.schedule, chosen), kernels: manifest.kernels };
}

/** Serves one request a line of standard input. */
async function emit(): Promise<void> {
  for await (const line of createInterface({ input: process.stdin })) {
    try {
      console.log(JSON.stringify(emitOne(JSON.parse(line) as Wanted)));
    } catch (error) {
      console.log(JSON.stringify({ error: String(error) }));
    }
  }
}

const [verb, ...rest] = process.argv.slice(2);
if (verb === "draw") draw(rest);
else if (verb === "best") best(rest);
else if (verb === "emit") await emit();
else {
  console.error("usage: npm run search -- draw [flags] | best TIMES.jsonl … | emit");
  process.exitCode = 2;
}
