/** Results files of `tilewright bench`, read without measuring: compared, as a table, drawn. */
import type { Checked } from "@tilewright/core";
import { codes, problemWith } from "../codes.ts";
import type { Context } from "../context.ts";
import { writeFiles } from "../files/atomic.ts";
import type { Session } from "../kit/command.ts";
import { exitCodes } from "../kit/exit.ts";
import { toCsv } from "../output/csv.ts";
import { compareRecords } from "./compare.ts";
import { renderPlot } from "./plot.ts";
import type { BenchRecord } from "./record.ts";
import { renderChanges } from "./render.ts";
import { readRecords } from "./store.ts";

/** The plot of the first regime that the records have. */
export function draw(
  context: Context,
  records: readonly BenchRecord[],
  path: string,
): Checked<readonly string[]> {
  const [first] = records;
  const one = records.filter(({ regime }) => regime === first?.regime);
  return writeFiles(context.cwd, [{ path, data: renderPlot(one) }]);
}

/** `--compare OLD NEW`. Exit code 6 when something became slower. */
export function compareFiles(
  session: Session,
  { first, second }: { readonly first?: string | undefined; readonly second?: string | undefined },
): number {
  if (first === undefined || second === undefined)
    return session.fail([
      problemWith(codes.missing, "--compare", "--compare needs two results files", {
        hint: "tilewright bench --compare old.jsonl new.jsonl",
      }),
    ]);
  const old = readRecords(session.context, first);
  const now = readRecords(session.context, second);
  if (!old.ok || !now.ok) return session.fail([...(old.ok ? [] : old.error), ...(now.ok ? [] : now.error)]);
  const changes = compareRecords(old.value, now.value);
  const gpus = new Set([...old.value, ...now.value].map(({ gpu }) => gpu.name));
  if (gpus.size > 1) session.note(`the files are of different GPUs: ${[...gpus].join(", ")}`);
  session.result({ ok: true, changes }, () => {
    const count = (verdict: string): number => changes.filter((change) => change.verdict === verdict).length;
    const words = (["faster", "slower", "same", "new", "gone"] as const).map(
      (verdict) => `${count(verdict)} ${verdict}`,
    );
    return `${renderChanges(changes, session.paint)}\n${words.join(", ")}\n`;
  });
  return changes.some(({ verdict }) => verdict === "slower") ? exitCodes.slower : exitCodes.ok;
}

/** Every kernel of every record, flat. */
export const rowsOf = (records: readonly BenchRecord[]): readonly object[] =>
  records.flatMap(({ contenders, problem: { m, n, k }, gpu, regime, inputs, group, date }) =>
    contenders.map((contender) => ({ m, n, k, group, regime, inputs, gpu: gpu.name, date, ...contender })),
  );

/** `FILE.jsonl --csv`, without measuring. */
export function csvOf(session: Session, path: string): number {
  const records = readRecords(session.context, path);
  if (!records.ok) return session.fail(records.error);
  session.result({ ok: true, records: records.value }, () => toCsv(rowsOf(records.value)), "verbatim");
  return exitCodes.ok;
}

/** `FILE.jsonl --plot out.svg`, without measuring. */
export function plotFile(session: Session, path: string, plot: string): number {
  const records = readRecords(session.context, path);
  if (!records.ok) return session.fail(records.error);
  if (records.value.length === 0)
    return session.fail([problemWith(codes.badJson, path, `${path} holds no results`)]);
  const drawn = draw(session.context, records.value, plot);
  if (!drawn.ok) return session.fail(drawn.error);
  session.result({ ok: true, plot }, () => `wrote ${plot}\n`);
  return exitCodes.ok;
}
