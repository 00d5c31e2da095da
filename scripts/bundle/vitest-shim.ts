/**
 * As much of vitest as the GPU tests use, for machines that have only the bundle: describe, test, hooks, expect.
 * A bundled test file imports this in place of vitest, runs when all its tests are registered, prints a line per test
 * and last `N passed, N failed, N skipped`; the exit code is 1 if a test failed or none is there. TILEWRIGHT_SHARD=2/8 runs every eighth test from the
 * second on, and passes over the others in silence.
 * A matcher that is not here is an error when it is called, so that no assertion passes unseen.
 */
import { inspect, isDeepStrictEqual } from "node:util";

type Body = (...args: readonly never[]) => unknown;
type Hook = () => unknown;
type Matcher = (actual: unknown, expected: never, more: never) => boolean;

/** Lines of an error's stack that are shown. */
const STACK_LINES = 12;

// ---- expect

const isPlain = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype;

/** toEqual takes an absent field and one that is undefined for the same. */
function withoutUndefined(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutUndefined);
  if (!isPlain(value)) return value;
  const kept = Object.entries(value).filter(([, field]) => field !== undefined);
  return Object.fromEntries(kept.map(([name, field]) => [name, withoutUndefined(field)]));
}

const includes = (actual: unknown, part: unknown): boolean =>
  typeof actual === "string" ? actual.includes(String(part)) : Array.isArray(actual) && actual.includes(part);

const matchers: Readonly<Record<string, Matcher>> = {
  toBe: (actual, expected: unknown) => Object.is(actual, expected),
  toEqual: (actual, expected: unknown) =>
    isDeepStrictEqual(withoutUndefined(actual), withoutUndefined(expected)),
  toStrictEqual: (actual, expected: unknown) => isDeepStrictEqual(actual, expected),
  toContain: (actual, part: unknown) => includes(actual, part),
  toMatch: (actual, pattern: string | RegExp) =>
    typeof actual === "string" &&
    (typeof pattern === "string" ? actual.includes(pattern) : actual.search(pattern) !== -1),
  toHaveLength: (actual, length: number) =>
    typeof actual === "object" && actual !== null && "length" in actual && actual.length === length,
  toBeNull: (actual) => actual === null,
  toBeDefined: (actual) => actual !== undefined,
  toBeUndefined: (actual) => actual === undefined,
  toBeGreaterThan: (actual, bound: number) => Number(actual) > bound,
  toBeGreaterThanOrEqual: (actual, bound: number) => Number(actual) >= bound,
  toBeLessThan: (actual, bound: number) => Number(actual) < bound,
  toBeLessThanOrEqual: (actual, bound: number) => Number(actual) <= bound,
};

type Assertion = Readonly<Record<string, (...expected: readonly unknown[]) => void>>;

const show = (value: unknown): string => inspect(value, { depth: 4 });

function assertionOn(value: unknown, message: string, negated: boolean): Assertion {
  const entries = Object.entries(matchers).map(([name, matcher]) => {
    const assert = (...expected: readonly unknown[]): void => {
      if ((matcher as (...all: readonly unknown[]) => boolean)(value, ...expected) !== negated) return;
      const wanted = `${negated ? "not " : ""}${name} ${expected.map(show).join(", ")}`;
      throw new Error(`${message === "" ? "" : `${message}\n`}expected ${show(value)} ${wanted}`);
    };
    return [name, assert] as const;
  });
  return Object.fromEntries(entries);
}

/** `message` stands before what was expected when the assertion fails. */
export const expect = (value: unknown, message = ""): Assertion & { readonly not: Assertion } =>
  Object.assign(Object.create(null), assertionOn(value, message, false), {
    not: assertionOn(value, message, true),
  });

// ---- describe, test, hooks

interface Suite {
  readonly name: string;
  /** From the outermost to this one. */
  readonly chain: readonly Suite[];
  readonly skip: boolean;
  readonly before: Hook[];
  readonly after: Hook[];
  readonly beforeEach: Hook[];
  readonly afterEach: Hook[];
  /** Whether its `before` hooks have run. */
  started: boolean;
}

function createSuite(name: string, outer: Suite | null, skip: boolean): Suite {
  const chain: Suite[] = [...(outer?.chain ?? [])];
  const hooks = { before: [], after: [], beforeEach: [], afterEach: [] };
  const suite: Suite = { name, chain, skip: skip || outer?.skip === true, ...hooks, started: false };
  chain.push(suite);
  return suite;
}

interface Test {
  readonly name: string;
  readonly suite: Suite;
  readonly skip: boolean;
  run(): unknown;
}

const outermost = createSuite("", null, false);
const suites: Suite[] = [outermost];
const tests: Test[] = [];
let current = outermost;

function addSuite(name: string, body: Hook, skip: boolean): void {
  const outer = current;
  current = createSuite(name, outer, skip);
  suites.push(current);
  body();
  current = outer;
}

function addTest(name: string, run: Hook, skip: boolean): void {
  tests.push({ name, suite: current, skip: skip || current.skip, run });
}

/** vitest's placeholders, %i and such, filled in order. */
function titleOf(name: string, args: readonly unknown[]): string {
  const rest = [...args];
  return name.replace(/%[sdifjo]/g, () => String(rest.shift()));
}

type Add = (name: string, body: Hook, skip: boolean) => void;

/** `describe` and `test` have the same forms: plain, skip, skipIf(condition), each(rows). */
function formsOf(add: Add) {
  const plain = (name: string, body: Hook): void => add(name, body, false);
  const skip = (name: string, body: Hook): void => add(name, body, true);
  const each =
    (rows: readonly unknown[]) =>
    (name: string, body: Body): void => {
      for (const row of rows) {
        const args = Array.isArray(row) ? row : [row];
        add(titleOf(name, args), () => (body as (...all: readonly unknown[]) => unknown)(...args), false);
      }
    };
  return Object.assign(plain, { skip, skipIf: (condition: boolean) => (condition ? skip : plain), each });
}

export const describe = formsOf(addSuite);
export const test = formsOf(addTest);
export const beforeAll = (hook: Hook): void => void current.before.push(hook);
export const afterAll = (hook: Hook): void => void current.after.push(hook);
export const beforeEach = (hook: Hook): void => void current.beforeEach.push(hook);
export const afterEach = (hook: Hook): void => void current.afterEach.push(hook);

// ---- running

async function runTest({ suite, run }: Test): Promise<void> {
  for (const outer of suite.chain) {
    if (outer.started) continue;
    outer.started = true;
    for (const hook of outer.before) await hook();
  }
  for (const outer of suite.chain) for (const hook of outer.beforeEach) await hook();
  try {
    await run();
  } finally {
    for (const outer of [...suite.chain].reverse()) for (const hook of outer.afterEach) await hook();
  }
}

function report(label: string, error: unknown): void {
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  console.log(`FAILED: ${label}\n  ${text.split("\n").slice(0, STACK_LINES).join("\n  ")}`);
}

/** Whether this process has the test at this place. */
function isMine(index: number): boolean {
  const [, shard, of] = /^([1-9]\d*)\/([1-9]\d*)$/.exec(process.env.TILEWRIGHT_SHARD ?? "") ?? [];
  return shard === undefined || of === undefined || index % Number(of) === Number(shard) - 1;
}

async function runAll(): Promise<void> {
  let [passed, failed, skipped] = [0, 0, 0];
  for (const [index, entry] of tests.entries()) {
    if (!isMine(index)) continue;
    if (entry.skip) {
      skipped += 1;
      continue;
    }
    const label = [...entry.suite.chain.map(({ name }) => name), entry.name].filter(Boolean).join(" > ");
    const began = performance.now();
    try {
      await runTest(entry);
      passed += 1;
      console.log(`ok: ${label} (${(performance.now() - began).toFixed(0)} ms)`);
    } catch (error) {
      failed += 1;
      report(label, error);
    }
  }
  for (const suite of [...suites].reverse()) {
    if (!suite.started) continue;
    for (const hook of suite.after) {
      try {
        await hook();
      } catch (error) {
        failed += 1;
        report(`${suite.name} > afterAll`, error);
      }
    }
  }
  console.log(`${passed} passed, ${failed} failed, ${skipped} skipped`);
  // A file without tests has tested nothing.
  process.exitCode = failed > 0 || tests.length === 0 ? 1 : 0;
}

// When the file has registered everything, also after awaits at its top level: then nothing is left to do.
process.once("beforeExit", () => void runAll());
