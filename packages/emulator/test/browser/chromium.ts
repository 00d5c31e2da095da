/** A Chromium on this machine: found by CHROME_PATH or PATH, run without a window on one page. */
import { execFile } from "node:child_process";
import { accessSync, constants, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { pathToFileURL } from "node:url";

const names = [
  "chromium",
  "chromium-browser",
  "google-chrome",
  "google-chrome-stable",
  "chrome-headless-shell",
];

const executable = (path: string): boolean => {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
};

/** Path of the browser, or null where there is none. CHROME_PATH wins, even if nothing is there: a wish is not ignored. */
export function findChromium(): string | null {
  const wish = process.env.CHROME_PATH;
  if (wish !== undefined && wish !== "") return wish;
  const folders = (process.env.PATH ?? "").split(delimiter).filter((folder) => folder !== "");
  return folders.flatMap((folder) => names.map((name) => join(folder, name))).find(executable) ?? null;
}

/** No sandbox: as root, which containers run as, Chromium starts with none. What runs here is our own page only. */
const flags = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-dev-shm-usage",
  "--disable-extensions",
  "--disable-background-networking",
  "--no-first-run",
];

/** Milliseconds after which the browser is killed. */
const patience = 45_000;

/** What the page's scripts have put into `<pre id="result">` by the time that it is loaded. `html` is a whole document. */
export async function resultOf(chromium: string, html: string): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "tilewright-browser-"));
  try {
    const page = join(folder, "page.html");
    writeFileSync(page, html);
    const profile = `--user-data-dir=${join(folder, "profile")}`;
    const dom = await new Promise<string>((resolve, reject) => {
      execFile(
        chromium,
        [...flags, profile, "--dump-dom", pathToFileURL(page).href],
        { maxBuffer: 2 ** 26, timeout: patience, killSignal: "SIGKILL" },
        (error, stdout, stderr) => {
          if (error === null) resolve(stdout);
          else reject(new Error(`${chromium}: ${error.message}\n${stderr.slice(-2000)}`));
        },
      );
    });
    const result = /<pre id="result">([^<]*)<\/pre>/.exec(dom)?.[1];
    if (result === undefined) throw new Error(`${chromium} printed no page: ${dom.slice(0, 500)}`);
    return result.replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&amp;/g, "&").trim();
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
