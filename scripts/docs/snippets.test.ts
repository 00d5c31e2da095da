/** Every fenced block of every page runs as it stands there; those that need a GPU or the network say so behind their language, and are counted. */
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { entryOf, librarySchema } from "@tilewright/core";
import { parseAxisProgram, parseProgram } from "@tilewright/ir";
import { parseModule } from "@tilewright/ptx";
import { main } from "tilewright";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { benchCommand } from "../../packages/cli/src/commands/bench.ts";
import { tuneCommand } from "../../packages/cli/src/commands/tune.ts";
import type { Context } from "../../packages/cli/src/context.ts";
import { launchSchema } from "../../packages/cli/src/launch/schema.ts";
import { machine } from "../../packages/cli/test/machine.ts";
import { root } from "../lib/files.ts";
import { npy } from "../lib/npy.mjs";
import { toolNode } from "../lib/workspace.mjs";
import type { ExampleEnd } from "./examples.ts";
import { commandWord, type Fence, fencesOf, inlineCommands, pagesOf, wordsOf } from "./snippets.ts";

const folder = mkdtempSync(join(tmpdir(), "tilewright-snippets-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A kernel that stores to its buffer, and how to launch it. */
const kernel = `.version 7.0
.target sm_70
.address_size 64
.visible .entry f(.param .u64 out)
{
  .reg .b32 %r1;
  .reg .b64 %d1;
  ld.param.u64 %d1, [out];
  mov.u32 %r1, 7;
  st.global.u32 [%d1], %r1;
  ret;
}
`;
const launch = {
  ...{ entry: "f", grid: 1, block: 1, params: [{ buffer: "out" }] },
  buffers: { out: { dtype: "u32", shape: [1], fill: "zeros" } },
};

beforeAll(() => {
  cpSync(join(root, "examples"), join(folder, "examples"), { recursive: true });
  cpSync(join(root, "packages/ptx/test/corpus/nvcc"), join(folder, "DIR"), { recursive: true });
  const files: Readonly<Record<string, string | Uint8Array>> = {
    "A.npy": npy(24, 20),
    "B.npy": npy(20, 12),
    "kernel.ptx": kernel,
    "launch.json": JSON.stringify(launch),
    "lost.json": JSON.stringify({ entry: "f", order: "eager", switches: [] }),
    "shapes.json": JSON.stringify({ shapes: [[512, 512, 512]] }),
    "gemms.log": '{"m":512,"n":512,"k":512,"dtype":"f16"}\n',
    ".triton/cache/a/f.ptx": kernel,
  };
  for (const [name, data] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), data);
  }
});

interface Ended {
  readonly code: number | null;
  readonly said: string;
}

const ended = new Map<string, Promise<Ended>>();

/** `tilewright …` in this process, each line once however many pages have it. What measures gets a GPU that is made up. */
const tilewright = (words: readonly string[]): Promise<Ended> =>
  entryOf(ended, JSON.stringify(words), () => runCommand(words));

async function runCommand(words: readonly string[]): Promise<Ended> {
  let said = "";
  const write = (data: string | Uint8Array): void => {
    said += String(data);
  };
  const sink = { write, isTTY: false };
  const context: Context = {
    ...{
      stdout: sink,
      stderr: sink,
      readPipe: () => "",
      env: { PATH: process.env.PATH, HOME: folder },
      cwd: folder,
    },
    now: () => performance.now(),
    progress: () => () => {},
    onInterrupt() {},
  };
  const [name, ...rest] = words;
  const measuring = name === "bench" ? benchCommand : name === "tune" ? tuneCommand : null;
  if (measuring === null) return { code: await main(words, context), said };
  // A budget is spent a hundred times as fast; a driver that is made up assembles nothing, so ptxas need not either.
  const hurried = { ...context, env: { HOME: folder }, now: () => 100 * performance.now() };
  return { code: await measuring(machine()).start(hurried, rest), said };
}

const bin = [
  "--conditions=@tilewright/source",
  "--no-warnings",
  join(root, "packages/cli/src/bin.ts"),
] as const;

/** A program of the machine's, which has the Python package and the sources' command line at hand. */
function spawned(program: string, args: readonly string[], input = ""): Ended {
  const env = {
    ...process.env,
    NO_COLOR: "1",
    CUDA_VISIBLE_DEVICES: "-1",
    HOME: folder,
    PYTHONPATH: join(root, "python"),
    TILEWRIGHT: [toolNode(), ...bin].join(" "),
  };
  const { status, stdout, stderr, error } = spawnSync(program, args, {
    cwd: folder,
    env,
    input,
    encoding: "utf8",
  });
  return { code: status, said: `${stdout}${stderr}${error ?? ""}` };
}

const hasPython = spawnSync("python3", ["--version"]).status === 0;

/** What CI runs of the lines that set up or pack this repository: a step of a workflow, or what the job that it names runs; or the test that does. */
const elsewhere: readonly (readonly [line: RegExp, file: string, run: RegExp])[] = [
  [/^npm start$/, ".github/workflows/ci.yml", /run: npm start$/m],
  [/^npm test$/, ".github/workflows/ci.yml", /run: npm run ci -- check$/m],
  [/^npm run bundle$/, ".github/workflows/ci.yml", /run: npm run ci -- bundle$/m],
  [/^npm run bundle -- --xz$/, ".github/workflows/ci.yml", /run: npm run bundle -- --xz$/m],
  [/^tar xf (out\/)?tilewright-linux-x64\.tar\.gz$/, ".github/workflows/gpu.yml", /run: tar xf tilewright-/],
  // What the archive's self-test runs before the archive takes its place.
  [/^tilewright-linux-x64\/tilewright run /, ".github/workflows/ci.yml", /run: npm run ci -- bundle$/m],
  [/^npm run build --workspace packages\/explorer$/, "package.json", /"build": "turbo run build"/],
  [/^tilewright demo$/, "packages/cli/test/commands.test.ts", /cli\("demo"/],
  // These two go on until they are interrupted.
  [/^(npx )?tilewright explore$/, "packages/cli/test/explore.test.ts", /tilewright explore/],
  [/^npx vite packages\/explorer$/, "packages/explorer/package.json", /"dev": "vite"/],
];

/** One line of a shell block. */
async function runLine(line: string): Promise<Ended | "elsewhere"> {
  const words = wordsOf(line);
  const plain = words.join(" ");
  const row = elsewhere.find(([pattern]) => pattern.test(plain));
  if (row !== undefined) {
    const [, file, run] = row;
    return run.test(readFileSync(join(root, file), "utf8"))
      ? "elsewhere"
      : { code: null, said: `${file} does not run it` };
  }
  const [first, second] = words;
  if (first === "tilewright") return tilewright(words.slice(1));
  if (first === "npx" && second === "tilewright") return tilewright(words.slice(2));
  if (first === "python" && hasPython)
    return spawned("sh", ["-c", `python3 ${line.slice("python ".length)}`]);
  if (first === "python") return "elsewhere";
  return { code: null, said: `nothing runs '${line}'` };
}

/** What an example of a package prints, white space as one space; those that are not named end without an error. */
const prints: Readonly<Record<string, RegExp>> = {
  "packages/cli": /^mma Float64Array\(4\) \[/,
  "packages/emulator": /^\[\] 7 Uint8Array\(16\) \[ 0, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 6, 0, 0, 0 \] $/,
  "packages/core": /^m=300 n=200 k=77 .*none true $/,
  "packages/ir": /^tile\.ir \d+ 0 true $/,
  "packages/ptx": /^\.version 6\.3 .*\.entry scale\(.*fma\.rn\.f32 /,
  "packages/runtime": /^1\.5 $/,
};

/** A backend's example prints the kernel that it makes. */
const printsKernel = /^\.version \S+ \.target sm_\d+[af]? .*\.entry gemm_.* ret; }/;

/** Examples one after another in one process, each as a module in the folder of its page: what each has printed, or why it failed. */
function runExamples(fences: readonly Fence[]): readonly ExampleEnd[] {
  const list = fences.map(({ page, text }) => ({ folder: join(root, dirname(page)), text }));
  const flags = [...bin.slice(0, -1), join(root, "scripts/docs/examples.ts")];
  const { code, said } = spawned(toolNode(), flags, JSON.stringify(list));
  if (code !== 0) return list.map(() => ({ said: "", error: said }));
  return JSON.parse(said);
}

/** Imports that a change of names leads to, as an example; other blocks as they are. */
function exampleOf(fence: Fence): Fence {
  if (fence.language !== "diff") return fence;
  const lines = fence.text.split("\n").flatMap((line) => (line.startsWith("+") ? [line.slice(1)] : []));
  return { ...fence, page: "packages/cli/README.md", text: lines.join("\n") };
}

let examples: ReadonlyMap<Fence, ExampleEnd | undefined> | null = null;

/** How an example ended; all of the pages are run when the first is asked for. */
function exampleEnd(fence: Fence): ExampleEnd | undefined {
  if (!local.includes(fence)) return runExamples([fence])[0];
  if (examples === null) {
    const those = local.filter(
      (each) => (each.language === "ts" || each.language === "diff") && testOf(each) === undefined,
    );
    const ends = runExamples(those.map(exampleOf));
    examples = new Map(those.map((each, i) => [each, ends[i]]));
  }
  return examples.get(fence);
}

function runTypeScript(fence: Fence, first: boolean): void {
  const cwd = dirname(fence.page);
  const { said, error } = exampleEnd(fence) ?? { said: "", error: "it has not run" };
  expect(error).toBe(null);
  const pattern = cwd.startsWith("packages/backend-") ? printsKernel : prints[cwd];
  if (first && pattern !== undefined) {
    const shown = said.replace(/\s+/g, " ");
    // Not the text itself, which may be long.
    expect(pattern.test(shown), shown.slice(0, 300)).toBe(true);
  }
}

/** A fragment of PTX in a kernel of its own: every instruction exists and can be read, whatever the registers around it are. */
function readPtx(text: string): void {
  const head = ".version 8.8\n.target sm_100a\n.address_size 64\n.visible .entry f()\n{";
  const read = parseModule([head, text, "}"].join("\n"));
  const open = /is not declared$|^label|(?:is|are) due$/;
  const wrong = read.ok ? [] : read.error.filter(({ message }) => !open.test(message));
  expect(wrong.map(({ message }) => message)).toEqual([]);
}

/** Inputs of the repository's own action that a step of a workflow sets. */
function readYaml(text: string): void {
  const action = readFileSync(join(root, "action.yml"), "utf8");
  const [, inputs = ""] = /uses: tilewright\/tilewright@main\n\s+with: \{ (.*) \}/.exec(text) ?? [];
  const names = [...inputs.matchAll(/(\w+):/g)].map(([, name]) => name);
  expect(names.length).toBeGreaterThan(0);
  for (const name of names) expect(action).toMatch(new RegExp(`^ {2}${name}:$`, "m"));
}

function runDiff(fence: Fence): void {
  expect(exampleOf(fence).text).not.toBe("");
  runTypeScript(fence, false);
}

async function runShell({ text, marks }: Fence): Promise<void> {
  for (const line of text.split("\n").filter((each) => each.trim() !== "" && !each.startsWith("#"))) {
    const measured = marks.includes("gpu") && !/^(?:npx )?tilewright /.test(line);
    const ended = measured ? "elsewhere" : await runLine(line);
    if (ended === "elsewhere") continue;
    expect([line, ended.code, ended.code === 0 ? "" : ended.said]).toEqual([line, 0, ""]);
    expect(ended.said.length).toBeGreaterThan(10);
  }
}

/** How a block of each language is run. Text is what programs print, grammars and drawings: never a command. */
const runs: Readonly<Record<string, (fence: Fence, first: boolean) => void | Promise<void>>> = {
  sh: runShell,
  ts: runTypeScript,
  ptx: ({ text }) => readPtx(text),
  yaml: ({ text }) => readYaml(text),
  diff: runDiff,
  python({ text, marks }) {
    if (!hasPython || marks.includes("gpu")) return;
    const { code, said } = spawned("python3", ["-c", text]);
    expect([code, code === 0 ? "" : said]).toEqual([0, ""]);
  },
  json({ text, marks }) {
    const schema = marks.includes("library") ? librarySchema : launchSchema;
    expect(schema.safeParse(JSON.parse(text))).toMatchObject({ success: true });
  },
  async tile({ page, text, marks }) {
    if (marks.includes("excerpt")) return isExcerpt(page, text);
    const read = parseProgram(text);
    expect(read.ok ? [] : read.error).toEqual([]);
  },
  program({ text }) {
    const read = parseAxisProgram(text);
    expect(read.ok ? [] : read.error).toEqual([]);
  },
  text({ text }) {
    expect(text.split("\n").filter((line) => commandWord.test(line))).toEqual([]);
  },
};

/** Lines of the text that the page's command with `--ir` prints, in its order; `…` and the end of a line stand for what is left out. */
async function isExcerpt(page: string, text: string): Promise<void> {
  const command = inlineCommands(readFileSync(join(root, page), "utf8")).find((each) => / --ir /.test(each));
  const { said } = await tilewright(wordsOf(command ?? "").slice(2));
  const whole = said.split("\n").map((line) => line.trim());
  let at = -1;
  for (const line of text.trim().split("\n")) {
    const parts = line.trim().split("…");
    const after = at;
    at = whole.findIndex(
      (each, i) => i > after && each.startsWith(parts[0] ?? "") && parts.every((part) => each.includes(part)),
    );
    expect(at, line).toBeGreaterThan(after);
  }
}

const all = pagesOf().flatMap((page) => fencesOf(page));
const away = (fence: Fence, mark: string): boolean => fence.marks.includes(mark);
const testOf = ({ marks }: Fence): string | undefined =>
  marks.find((mark) => mark.startsWith("test="))?.slice("test=".length);

describe("all pages", () => {
  test("the walk finds them, and every block has a language that is run", () => {
    const pages = pagesOf();
    for (const page of [
      "README.md",
      "CONTRIBUTING.md",
      "docs/perf/mma.md",
      "packages/cli/README.md",
      "python/README.md",
    ])
      expect(pages).toContain(page);
    const unknown = all.filter(({ language }) => !(language in runs));
    expect(unknown.map(({ page, line, language }) => `${page}:${line} '${language}'`)).toEqual([]);
    const marks = all.flatMap((fence) =>
      fence.marks.filter((mark) => !/^(gpu|network|library|excerpt|test=\S+)$/.test(mark)),
    );
    expect(marks).toEqual([]);
  });

  test("few blocks cannot run on every machine", () => {
    const count = (mark: string): number => all.filter((fence) => away(fence, mark)).length;
    expect({ gpu: count("gpu"), network: count("network") }).toEqual({ gpu: 9, network: 2 });
  });

  test("a block that cannot run fails", async () => {
    const fence = (language: string, text: string): Fence => ({
      page: "README.md",
      line: 1,
      language,
      marks: [],
      text,
    });
    for (const [language, text] of [
      ["sh", "npx tilewright run --no-such-flag"],
      ["sh", "make everything"],
      ["ts", "nowhere();"],
      ["json", '{"grid":1}'],
      ["text", "npx tilewright run"],
    ] as const)
      await expect((async () => runs[language]?.(fence(language, text), true))()).rejects.toThrow();
  });

  test("commands in sentences and tables exist", async () => {
    const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
    const helps = new Map<string, string>();
    const wrong: string[] = [];
    for (const page of pagesOf())
      for (const command of inlineCommands(readFileSync(join(root, page), "utf8"))) {
        const words = wordsOf(command);
        if (words[0] === "npm") {
          if (!((words[2] ?? "") in scripts)) wrong.push(`${page}: ${command}`);
          continue;
        }
        if (words[0] === "node") {
          if (!existsSync(join(root, words[1] ?? ""))) wrong.push(`${page}: ${command}`);
          continue;
        }
        const [name = "", ...rest] = words.slice(words[0] === "npx" ? 2 : 1);
        if (!/^[a-z]+$/.test(name)) continue;
        if (!helps.has(name)) helps.set(name, (await tilewright([name, "--help"])).said);
        const help = helps.get(name) ?? "";
        const missing = rest.filter(
          (word) => /^--[a-z]/.test(word) && word !== "--help" && !help.includes(word.replace(/=.*/, "")),
        );
        if (!help.includes(`tilewright ${name}`) || missing.length > 0)
          wrong.push(`${page}: ${command}: ${missing.join(" ")}`);
      }
    expect(wrong).toEqual([]);
  });
});

const local = all.filter((fence) => !away(fence, "network"));
describe.each([...new Set(local.map(({ page }) => page))])("%s", (page) => {
  const fences = local.filter((fence) => fence.page === page);
  const first = fences.find(({ language, marks }) => language === "ts" && marks.length === 0);
  for (const fence of fences)
    test(`${fence.line}, ${[fence.language, ...fence.marks].join(" ")}: ${fence.text.split("\n")[0]?.slice(0, 70)}`, async () => {
      const elsewhereRun = testOf(fence);
      if (elsewhereRun === undefined) await runs[fence.language]?.(fence, fence === first);
      else {
        // It reads the page, or the block is the test as it stands.
        const text = readFileSync(join(root, elsewhereRun), "utf8");
        expect(text.includes("README.md") || text.trim() === fence.text.trim()).toBe(true);
      }
    });
});
