/**
 * Screenshots of every command in a terminal of 80 and of 160 columns, to be looked at after changing what is printed:
 *   node --conditions=@tilewright/source scripts/docs/screens.ts [COMMAND…]
 * writes out/screens/NAME-COLUMNS.png (Chromium by CHROME_PATH or PATH; without one the pages that it would draw), and ends with 1 where a line of several
 * words is wider than the terminal. Commands run in this process; nothing is fetched.
 */
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { type Context, main } from "tilewright";
import { benchCommand } from "../../packages/cli/src/commands/bench.ts";
import { commands } from "../../packages/cli/src/commands/index.ts";
import { tuneCommand } from "../../packages/cli/src/commands/tune.ts";
import { machine } from "../../packages/cli/test/machine.ts";
import { findChromium } from "../../packages/emulator/test/browser/chromium.ts";
import { root } from "../lib/files.ts";
import { npy } from "../lib/npy.mjs";

/** What is shown of each command beside its short and its long help: results, refusals, and words of progress. */
const lines: Readonly<Record<string, readonly string[]>> = {
  demo: ["demo", "demo --out"],
  compile: [
    "compile --arch sm_80 -m 512 -n 512 -k 512 --dtype f16 -o out",
    "compile --arch sm_90a,sm_80 -m 256 -n 256 -k 256 --dtype bf16 -o out --emit ptx,manifest,launcher",
    "compile --arch sm_70 --epilogue reluu(acc)",
    "compile --library library --kernels examples/library.json",
    "compile --library attention --op attention --queries 512 --keys 512 --heads 16 --kv-heads 4 --head-dim 128 --dtype bf16 --arch sm_90a,sm_80",
  ],
  run: [
    "run --arch sm_80 -m 64 -n 64 -k 64 --dtype f16 --device emulator --order all",
    "run --arch sm_90a -m 8192 -n 8192 -k 8192 --device emulator",
    "run --a A.npy --b B.npy --arch sm_70 --device emulator",
    "run --arch sm_99 -m 0 -n x",
  ],
  bench: [
    "bench --arch sm_70,sm_80 --shapes 512x512x512,1024x1024x1024 --out new.jsonl --regime all",
    "bench --compare new.jsonl new.jsonl",
    "bench --plot",
  ],
  plan: [
    "plan --arch sm_90a -m 4096 -n 4096 -k 4096 --dtype bf16",
    "plan --arch sm_80 -m 33 -n 65 -k 24 --dtype f32",
    "plan --arch sm_90a -m 512 -n 512 -k 512 --op attention",
  ],
  ladder: [
    "ladder sgemm --arch sm_70 -m 64 -n 64 -k 32",
    "ladder",
    "ladder hgemm --arch sm_80 -m 4096 -n 4096 -k 4096 --device none",
  ],
  emulate: ["emulate kernel.ptx", "emulate kernel.ptx --launch launch.json", "emulate missing.ptx"],
  check: ["check .", "check nowhere"],
  explain: ["explain", "explain H033", "explain TW2107", "explain H999"],
  explore: ["explore --port 99999999"],
  tune: [
    "tune --arch sm_80 -m 512 -n 512 -k 512 --budget 1s --tuned tuned.jsonl",
    "tune --shapes nowhere.json",
  ],
  "tune-worker": ["tune-worker", "tune-worker --queue nowhere"],
  tuned: ["tuned list --shipped", "tuned prune", "tuned lits"],
  targets: ["targets", "targets --gpus"],
  schema: ["schema", "schema problm"],
  doctor: ["doctor"],
  completion: ["completion bash", "completion tcsh"],
  man: ["man"],
};

/** Commands that measure, on a made-up GPU. */
const measuring = new Map([benchCommand(machine()), tuneCommand(machine())].map((each) => [each.name, each]));

/** Lines of one command line that are drawn. */
const MOST = 70;

const folder = mkdtempSync(join(tmpdir(), "tilewright-screens-"));
cpSync(join(root, "examples/library.json"), join(folder, "examples/library.json"));
writeFileSync(join(folder, "A.npy"), npy(24, 20));
writeFileSync(join(folder, "B.npy"), npy(20, 12));
const body = ".visible .entry f(.param .u64 x)\n{\n  ret;\n}\n";
writeFileSync(join(folder, "kernel.ptx"), `.version 6.0\n.target sm_70\n.address_size 64\n${body}`);
writeFileSync(join(folder, "launch.json"), JSON.stringify({ entry: "f", grid: 1, block: 32, args: [0] }));

/** What a terminal of `columns` shows of a command line, its exit code last. */
async function show(line: string, columns: number): Promise<string> {
  const said: string[] = [];
  const sink = {
    write: (data: string | Uint8Array) => void said.push(String(data)),
    isTTY: true,
    columns,
  };
  const context: Context = {
    ...{ stdout: sink, stderr: sink, readPipe: () => "", env: { PATH: process.env.PATH }, cwd: folder },
    now: () => performance.now(),
    progress: () => () => {},
    onInterrupt() {},
  };
  const [name = "", ...words] = line.split(" ");
  const code = await (measuring.get(name)?.start(context, words) ?? main([name, ...words], context));
  const shown = said.join("").trimEnd().split("\n");
  const cut = shown.length > MOST ? [...shown.slice(0, MOST), `[${shown.length - MOST} more lines]`] : shown;
  return [`\u001b[1m$ tilewright ${line}\u001b[22m`, ...cut, `\u001b[2m[${code}]\u001b[22m`, ""].join("\n");
}

/** CSS of the codes of output/colour.ts. */
const css: Readonly<Record<string, string>> = {
  1: "font-weight:bold",
  2: "opacity:.6",
  31: "color:#c00",
  32: "color:#080",
  33: "color:#860",
  36: "color:#077",
};

function pageOf(text: string, columns: number): string {
  const [plain = "", ...styled] = text
    .replace(/[&<>]/g, (each) => `&#${each.charCodeAt(0)};`)
    .split("\u001b[");
  const html = styled.map((part) => {
    const end = part.indexOf("m");
    const rule = css[part.slice(0, end)];
    return `${rule === undefined ? "</span>" : `<span style="${rule}">`}${part.slice(end + 1)}`;
  });
  // A terminal breaks where its width ends, in a word as well; the line on the right is that end.
  const style = `margin:0;width:calc(${columns}ch + 3px);font:13px/16px monospace;white-space:pre-wrap;word-break:break-all;border-right:1px solid #888`;
  return `<!doctype html><meta charset="utf-8"><body style="margin:8px"><pre style="${style}">${[plain, ...html].join("")}</pre>`;
}

const asked = process.argv.slice(2);
const names = commands.map(({ name }) => name);
const missing = [...names, ...asked].filter((name) => lines[name] === undefined);
if (missing.length > 0) throw new TypeError(`no lines to show of ${missing.join(", ")}`);
const out = join(root, "out/screens");
mkdirSync(out, { recursive: true });
const chromium = findChromium();
for (const name of asked.length > 0 ? asked : names)
  for (const columns of [80, 160]) {
    let text = "";
    for (const line of [`${name} -h`, `${name} --help`, ...(lines[name] ?? [])])
      text += await show(line, columns);
    const wide = stripVTControlCharacters(text)
      .split("\n")
      .filter(
        (line) => line.length > columns && line.trim().includes(" ") && !/^(\$ |\.|COMPREPLY)/.test(line),
      );
    for (const line of wide) console.log(`${name}, ${columns} columns: ${line}`);
    if (wide.length > 0) process.exitCode = 1;
    const file = join(out, `${name}-${columns}`);
    writeFileSync(`${file}.html`, pageOf(text, columns));
    if (chromium === null) continue;
    // A long line takes several rows; nothing is looked up.
    const rows = stripVTControlCharacters(text)
      .split("\n")
      .reduce((sum, line) => sum + Math.max(1, Math.ceil(line.length / columns)), 0);
    execFileSync(
      chromium,
      [
        ...[
          "--headless",
          "--no-sandbox",
          "--disable-gpu",
          "--disable-background-networking",
          "--hide-scrollbars",
        ],
        ...[
          `--window-size=${8 * columns + 40},${16 * rows + 16}`,
          `--screenshot=${file}.png`,
          `file://${file}.html`,
        ],
      ],
      { stdio: "ignore" },
    );
  }
rmSync(folder, { recursive: true, force: true });
