/** A page of the built explorer in headless Chromium, and tests of it that are counted by part. */
import { accessSync, constants, existsSync, readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
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
};

/** The built page on a port of its own. */
export async function serveDist(): Promise<{ readonly url: string; readonly server: Server }> {
  const server = createServer((request, response) => {
    const path = new URL(request.url ?? "/", "http://localhost").pathname;
    const file = join(dist, path === "/" ? "index.html" : path);
    if (!existsSync(file)) response.writeHead(404).end();
    else
      response
        .writeHead(200, { "content-type": types[extname(file)] ?? "application/octet-stream" })
        .end(readFileSync(file));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, server };
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

/** A page at a permalink, interactive. What it says of errors is an error here. */
export async function openPage(
  browser: Browser,
  url: string,
  { width, height, scheme }: View = { width: 1600, height: 1000, scheme: "light" },
): Promise<Page> {
  const page = await browser.newPage({ viewport: { width, height }, colorScheme: scheme });
  page.on("pageerror", (error) => {
    throw error;
  });
  await page.goto(url);
  await page.waitForSelector("html[data-ready]", { timeout: 20_000 });
  return page;
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
