/** Results files: JSON lines, written whole to a temporary file and renamed after every problem, so that a killed run leaves a good file. */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { type Checked, type Diagnostic, diagnosticsOfIssues, err, ok } from "@tilewright/core";
import { codes, failWith, problemWith } from "../codes.ts";
import type { Context } from "../context.ts";
import { writeFiles } from "../files/atomic.ts";
import { readText } from "../files/read.ts";
import { type BenchRecord, benchRecordSchema } from "./record.ts";

/** A file of something else has as many faults as lines, and a record of something else as many as fields; nobody reads them all. */
const mostFaults = { lines: 10, inLine: 3 } as const;

/** The records of a file; lines that are none are reported with their numbers, the first few of them and of what is wrong in each. */
export function readRecords(context: Context, path: string): Checked<readonly BenchRecord[]> {
  const text = readText(context, path);
  if (!text.ok) return text;
  const faulty: (readonly Diagnostic[])[] = [];
  const records: BenchRecord[] = [];
  for (const [index, line] of text.value.split("\n").entries()) {
    if (line.trim() === "") continue;
    const record = readRecord(line, path, index + 1);
    if (record.ok) records.push(record.value);
    else faulty.push(record.error);
  }
  if (faulty.length === 0) return ok(records);
  const shown = faulty.slice(0, mostFaults.lines).flatMap((found) => found.slice(0, mostFaults.inLine));
  const more = faulty.length - mostFaults.lines;
  if (more <= 0) return err(shown);
  return err([...shown, problemWith(codes.badJson, path, `${more} more lines are no results`)]);
}

function readRecord(line: string, path: string, number: number): Checked<BenchRecord> {
  const at = `${path}:${number}`;
  const value = parse(line);
  if (value === undefined)
    return failWith(codes.badJson, at, "the line is not JSON", {
      location: { line: number, column: 1, file: path },
    });
  const parsed = benchRecordSchema.safeParse(value);
  if (parsed.success) return ok(parsed.data);
  return err(
    diagnosticsOfIssues(parsed.error.issues, value, codes.badJson.code, at).map((one) => ({
      ...one,
      at: one.at === at ? at : `${at} ${one.at}`,
    })),
  );
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

export const recordLine = (record: BenchRecord): string => `${JSON.stringify(record)}\n`;

export class ResultStore {
  readonly #context: Context;
  readonly #path: string | null;
  #records: BenchRecord[];

  private constructor(context: Context, path: string | null, records: BenchRecord[]) {
    this.#context = context;
    this.#path = path;
    this.#records = records;
  }

  /** `path` null: nothing is written. `resume`: go on with what the file holds; else a new file takes its place with the first result. */
  static open(context: Context, path: string | null, resume: boolean): Checked<ResultStore> {
    if (path === null || !resume || !existsSync(resolve(context.cwd, path)))
      return ok(new ResultStore(context, path, []));
    const records = readRecords(context, path);
    return records.ok ? ok(new ResultStore(context, path, [...records.value])) : records;
  }

  get records(): readonly BenchRecord[] {
    return this.#records;
  }

  has(key: string): boolean {
    return this.#records.some((record) => record.key === key);
  }

  /** A record takes the place of an older one of its key. */
  add(records: readonly BenchRecord[]): Checked<true> {
    const fresh = new Set(records.map(({ key }) => key));
    this.#records = [...this.#records.filter(({ key }) => !fresh.has(key)), ...records];
    if (this.#path === null) return ok(true);
    const data = this.#records.map(recordLine).join("");
    const written = writeFiles(this.#context.cwd, [{ path: this.#path, data }]);
    return written.ok ? ok(true) : written;
  }
}
