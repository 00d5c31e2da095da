/** A page of the built explorer in headless Chromium, and tests of it that are counted by part. */
import { spawn } from "node:child_process";
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Browser, chromium, type Page } from "playwright-core";

export const dist = fileURLToPath(new URL("../../dist/", import.meta.url));

const executable = (path: string): boolean => {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
};

/** Path of a Chromium, by CHROME_PATH or PATH; null where there is none. */
export function findChromium(): string | null {
  const wish = process.env.CHROME_PATH;
  if (wish !== undefined && wish !== "") return wish;
  const names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
  const folders = (process.env.PATH ?? "").split(delimiter).filter((folder) => folder !== "");
  return folders.flatMap((folder) => names.map((name) => join(folder, name))).find(executable) ?? null;
}

const types: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

/** A folder of static files on a port of its own: the built page, or another. A path without an extension is a page, as hosts of static sites have it. */
export async function serveDist(
  folder: string = dist,
): Promise<{ readonly url: string; readonly server: Server }> {
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url ?? "/", "http://localhost").pathname);
    const page = path.endsWith("/") ? `${path}index.html` : path;
    const file = join(folder, extname(page) === "" ? `${page}.html` : page);
    if (!existsSync(file)) response.writeHead(404).end();
    else
      response
        .writeHead(200, { "content-type": types[extname(file)] ?? "application/octet-stream" })
        .end(readFileSync(file));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, server };
}

/** What `ptxas` and `nvdisasm -c -gp` do as far as the page sees it: an instruction for each of the PTX, in the format of nvdisasm 13.1. */
const fakeTools = {
  ptxas: 'while [ $# -gt 2 ]; do shift; done; last=$2; cp "$(dirname "$last")/kernel.ptx" "$last"',
  nvdisasm: String.raw`echo '.text.kernel:'; awk '/^ +(@!?%[a-z0-9_]+ )?[a-z][a-z0-9_.:]* .*;/ {
  printf "\t//## File \".nv_debug_ptx_txt\", line %d\n        /*%04x*/                   %s ;\n", NR, 16 * n++, toupper($1) }' "$3"`,
} as const;

/** `tilewright explore` with such programs. */
export async function serveWithSass(): Promise<{ readonly url: string; readonly end: () => void }> {
  const folder = mkdtempSync(join(tmpdir(), "tilewright-explorer-"));
  for (const [name, body] of Object.entries(fakeTools)) {
    const version = '[ "$1" = --version ] && echo "Cuda compilation tools, release 13.1, V13.1.80" && exit 0';
    writeFileSync(join(folder, name), `#!/bin/sh\n${version}\n${body}\n`, { mode: 0o755 });
  }
  const bin = fileURLToPath(new URL("../../../cli/src/bin.ts", import.meta.url));
  const child = spawn(
    process.execPath,
    ["--conditions=@tilewright/source", "--no-warnings", bin, "explore"],
    {
      env: {
        ...process.env,
        TILEWRIGHT_PTXAS: join(folder, "ptxas"),
        TILEWRIGHT_NVDISASM: join(folder, "nvdisasm"),
      },
      stdio: ["ignore", "pipe", "inherit"],
    },
  );
  const url = await new Promise<string>((resolve, reject) => {
    child.stdout.on("data", (data) => resolve(String(data).trim()));
    child.on("exit", (code) => reject(new Error(`tilewright explore ended with ${code}`)));
  });
  const end = (): void => {
    child.kill();
    rmSync(folder, { recursive: true, force: true });
  };
  return { url, end };
}

/** No sandbox: as root Chromium starts with none, and what runs is this repository's page. No look-ups in the background. */
const flags = [
  ...["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage"],
  ...["--disable-background-networking", "--disable-component-update", "--disable-sync"],
];

export const launch = (executablePath: string): Promise<Browser> =>
  chromium.launch({ executablePath, args: flags });

export interface View {
  readonly width: number;
  readonly height: number;
  readonly scheme: "light" | "dark";
}

/** A page at a permalink, interactive. What it says of errors is an error here. `without`: addresses that it asks for in vain. */
export async function openPage(
  browser: Browser,
  url: string,
  { width, height, scheme }: View = { width: 1600, height: 1000, scheme: "light" },
  without?: RegExp,
): Promise<Page> {
  const page = await browser.newPage({ viewport: { width, height }, colorScheme: scheme });
  // Never answered: a refusal would be an error of the page.
  if (without !== undefined) await page.route(without, () => {});
  page.on("pageerror", (error) => {
    throw error;
  });
  await page.goto(url);
  await page.waitForSelector("html[data-ready]", { timeout: 20_000 });
  return page;
}

/** Screenshots that pages are held against, a quarter of their size; UPDATE_SHOTS=1 writes them anew. */
const shots = fileURLToPath(new URL("shots/", import.meta.url));

/** Squares of so many pixels of a stored screenshot are compared by their mean; a letter set otherwise changes no square much, a thing out of place does. */
const square = 8;
/** Of 255: how much a square may differ; and how many of a hundred may differ by more. */
const tolerance = { level: 24, percent: 2 } as const;

/** Hold what the window shows against the stored screenshot of this name. Returns what is wrong; null where nothing is. */
export async function comparedWithStored(page: Page, name: string): Promise<string | null> {
  const file = join(shots, `${name}.webp`);
  const taken = (await page.screenshot()).toString("base64");
  const update = process.env.UPDATE_SHOTS === "1";
  const stored = existsSync(file) && !update ? readFileSync(file).toString("base64") : null;
  const { image, far, size } = await page.evaluate(
    async ([shot, before, side, level]) => {
      const load = async (type: string, data: string): Promise<HTMLImageElement> => {
        const loaded = new Image();
        loaded.src = `data:image/${type};base64,${data}`;
        await loaded.decode();
        return loaded;
      };
      const draw = (from: HTMLImageElement, wide: number, high: number) => {
        const canvas = document.createElement("canvas");
        [canvas.width, canvas.height] = [wide, high];
        const context = canvas.getContext("2d");
        if (context === null) throw new TypeError("a canvas has a context");
        context.imageSmoothingQuality = "high";
        context.drawImage(from, 0, 0, wide, high);
        return { canvas, pixels: context.getImageData(0, 0, wide, high).data };
      };
      const now = await load("png", shot);
      const [wide, high] = [Math.round(now.width / 4), Math.round(now.height / 4)];
      const small = draw(now, wide, high);
      const webp = small.canvas.toDataURL("image/webp", 0.7).split(",")[1] ?? "";
      if (before === null) return { image: webp, far: 0, size: "" };
      const then = await load("webp", before);
      if (then.width !== wide || then.height !== high)
        return { image: webp, far: 100, size: `${then.width} x ${then.height}` };
      const old = draw(then, wide, high);
      let [squares, differ] = [0, 0];
      for (let y = 0; y + side <= high; y += side)
        for (let x = 0; x + side <= wide; x += side) {
          const sums = [0, 0, 0];
          for (let row = 0; row < side; row++)
            for (let column = 0; column < side; column++)
              for (const c of [0, 1, 2]) {
                const at = 4 * ((y + row) * wide + x + column) + c;
                sums[c] = (sums[c] ?? 0) + (small.pixels[at] ?? 0) - (old.pixels[at] ?? 0);
              }
          squares += 1;
          if (sums.some((sum) => Math.abs(sum) / side ** 2 > level)) differ += 1;
        }
      return { image: webp, far: (100 * differ) / squares, size: "" };
    },
    [taken, stored, square, tolerance.level] as const,
  );
  if (update) {
    mkdirSync(shots, { recursive: true });
    writeFileSync(file, Buffer.from(image, "base64"));
    return null;
  }
  if (stored === null) return `${name}: no screenshot is stored; UPDATE_SHOTS=1 stores one`;
  if (far <= tolerance.percent) return null;
  return `${name}: ${size === "" ? `${far.toFixed(1)} % of it differs` : `it is of another size than ${size}`} from the stored screenshot`;
}

/** Where the editor says what came of a text. */
export const status = ".stages .text .status";

/** What an element says; nothing where there is none. */
export const text = async (page: Page, selector: string): Promise<string> =>
  (await page.textContent(selector)) ?? "";

/** Wait until a status says something. */
export const says = (page: Page, selector: string, words: string) =>
  page.waitForFunction(
    ([where, what]) => document.querySelector(where ?? "")?.textContent?.includes(what ?? ""),
    [selector, words],
    { timeout: 30_000 },
  );

/** Turbo runs it within `npm test`, and has built the page before. */
export const quick = process.env.TURBO_HASH !== undefined;

/** How many times longer a thread takes now than on an idle machine: the clock's time over the processor's, of a loop of 100 ms. */
function stretch(): number {
  const before = process.cpuUsage();
  const began = performance.now();
  while (performance.now() - began < 100);
  const { user, system } = process.cpuUsage(before);
  return Math.max(1, (performance.now() - began) / ((user + system) / 1000));
}

/**
 * The least of what up to five attempts measure on the clock, ended by the first below the limit. Of each is taken out what others on the machine took of it: it is divided by
 * how much longer than alone a thread took before and after it.
 */
export async function least(limit: number, measure: () => Promise<number>): Promise<number> {
  let found = Number.POSITIVE_INFINITY;
  for (let attempt = 0; attempt < 5 && !(found < limit); attempt++) {
    const before = stretch();
    const took = await measure();
    found = Math.min(found, (2 * took) / (before + stretch()));
  }
  return found;
}

/** Seconds of the processor that the renderer of a page has taken, on all of its threads. */
export async function cpuSeconds(page: Page): Promise<number> {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable");
  const { metrics } = await session.send("Performance.getMetrics");
  await session.detach();
  return metrics.find(({ name }) => name === "ProcessTime")?.value ?? Number.NaN;
}

export interface Outcome {
  readonly fullName: string;
  readonly status: "passed" | "failed";
  readonly message?: string;
}

/** Tests, run in order as they are declared; a failure does not end the others. */
export class Suite {
  readonly outcomes: Outcome[] = [];
  #part = "";

  /** What follows belongs to this part. */
  part(name: string): void {
    this.#part = name;
    console.log(name);
  }

  async test(name: string, body: () => Promise<void>): Promise<void> {
    const fullName = `${this.#part} > ${name}`;
    const started = performance.now();
    try {
      await body();
      this.outcomes.push({ fullName, status: "passed" });
      console.log(`  ✓ ${name} (${Math.round(performance.now() - started)} ms)`);
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      this.outcomes.push({ fullName, status: "failed", message });
      console.log(`  ✗ ${name}\n    ${message.replaceAll("\n", "\n    ")}`);
    }
  }

  count(status: Outcome["status"]): number {
    return this.outcomes.filter((outcome) => outcome.status === status).length;
  }
}
