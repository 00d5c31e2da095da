/** `tilewright tuned`: what was measured, as a list; stores merged, thinned out and handed on. */
import {
  type Checked,
  err,
  findGpu,
  findTarget,
  formatDiagnostic,
  mergeTuned,
  ok,
  printTuned,
  readTuned,
  shippedTuned,
  type Tuned,
} from "@tilewright/core";
import { z } from "zod";
import { codes, problemWith } from "../codes.ts";
import { compilerOf } from "../compiler.ts";
import type { Context } from "../context.ts";
import { writeFiles } from "../files/atomic.ts";
import { sha256 } from "../files/hash.ts";
import { readText } from "../files/read.ts";
import { defineCommand, type Session } from "../kit/command.ts";
import { exitCodes } from "../kit/exit.ts";
import { choiceArgument, grouped, number, optionalArgument, text, toggle } from "../kit/flags.ts";
import { plural } from "../output/format.ts";
import { briefSchedule } from "../output/schedule.ts";
import { renderTable } from "../output/table.ts";
import { attentionOf } from "../request/attention.ts";
import { entrySubject, openStore, storePlace, writeStore } from "../tuned/files.ts";

const size = (summary: string, hint: string) => number(summary, { aliases: [hint], hint });

const args = z.strictObject({
  action: choiceArgument("what to do", ["list", "merge", "prune", "export"], "ACTION"),
  file: optionalArgument("the store to merge into the user's", "FILE.jsonl"),
  tuned: text(
    "the user's store (default: TILEWRIGHT_TUNED, else tuned.jsonl in ~/.config/tilewright); none: only what comes with the compiler",
    "FILE|none",
  ),
  out: text("export: write to this file instead of standard output", { aliases: ["o"], hint: "FILE.jsonl" }),
  shipped: toggle("export: with what comes with the compiler"),
  ...grouped("Which entries", {
    gpu: text("only of this GPU", "NAME"),
    arch: text("only for this target", "sm_80"),
    backend: text("only of this backend", "NAME"),
    dtype: text("only with this element type of A", "DTYPE"),
    m: size("only with these rows of A and D", "M"),
    n: size("only with these columns of B and D", "N"),
    k: size("only with these columns of A", "K"),
  }),
});
type Args = z.output<typeof args>;

/** Whether an entry is among those that the flags name. Errors: a GPU that no entry and no table knows. */
function filterOf(args: Args, known: readonly Tuned[]): Checked<(tuned: Tuned) => boolean> {
  let gpu = args.gpu;
  if (gpu !== undefined && !known.some(({ entry }) => entry.gpu === gpu)) {
    const found = findGpu(gpu);
    if (!found.ok) return found;
    gpu = found.value.name;
  }
  const wanted: readonly (readonly [unknown, (tuned: Tuned) => unknown])[] = [
    [gpu, ({ entry }) => entry.gpu],
    [args.arch, ({ entry }) => entry.arch],
    [args.backend, ({ entry }) => entry.backend],
    [args.dtype, ({ problem }) => problem.a.dtype],
    [args.m, ({ problem }) => problem.m],
    [args.n, ({ problem }) => problem.n],
    [args.k, ({ problem }) => problem.k],
  ];
  return ok((tuned) => wanted.every(([value, of]) => value === undefined || of(tuned) === value));
}

function list(session: Session, entries: readonly Tuned[]): number {
  const data = entries.map(({ entry, origin }) => ({ origin, ...entry }));
  session.result({ ok: true, entries: data }, () => {
    const heads = ["from", "GPU", "arch", "size", "dtype", "us", "of its peer", "date", "backend: schedule"];
    const rows = entries.map(({ entry, problem, origin }) => {
      const { gpu, arch, us, peer, date, backend, schedule } = entry;
      return [
        origin,
        gpu,
        arch,
        entrySubject(entry),
        problem.a.dtype,
        us === undefined ? "-" : us.median.toFixed(2),
        peer === undefined ? "-" : `${peer.ratio} ${peer.name}`,
        date.slice(0, 10),
        `${backend}: ${briefSchedule(compilerOf(session.context), backend, schedule)}`,
      ];
    });
    const table = renderTable(
      heads.map((head) => ({ head })),
      rows,
      session.paint,
    );
    return entries.length === 0 ? "no entries\n" : table;
  });
  return exitCodes.ok;
}

/** Where the user's store is written. Error: TW7005 with `--tuned none`, TW7004 where nothing says where it is. */
function placeOf(context: Context, { tuned }: Args): Checked<string> {
  const place = storePlace(context, tuned);
  if (place !== null) return ok(place.path);
  const none = (tuned ?? context.env.TILEWRIGHT_TUNED) !== undefined;
  return err([
    none
      ? problemWith(codes.conflict, "--tuned", "there is no store to write to: --tuned none", {
          hint: "name a file: --tuned mine.jsonl",
        })
      : problemWith(codes.missing, "--tuned", "neither XDG_CONFIG_HOME nor HOME says where the store is", {
          hint: "name a file: --tuned mine.jsonl",
        }),
  ]);
}

/** The user's store; empty where the file that is named does not exist yet. */
function storeToWrite(context: Context, args: Args): Checked<{ path: string; entries: readonly Tuned[] }> {
  const path = placeOf(context, args);
  if (!path.ok) return path;
  const entries = openStore(context, args.tuned, "new");
  return entries.ok ? ok({ path: path.value, entries: entries.value }) : entries;
}

function merge(session: Session, args: Args): number {
  const { context } = session;
  if (args.file === undefined)
    return session.fail([
      problemWith(codes.missing, "FILE.jsonl", "the store to merge is not named", {
        hint: "tilewright tuned merge theirs.jsonl",
      }),
    ]);
  const source = readText(context, args.file);
  const theirs = source.ok ? readTuned(source.value, args.file) : source;
  const mine = storeToWrite(context, args);
  if (!theirs.ok || !mine.ok) return session.fail([theirs, mine].flatMap((one) => (one.ok ? [] : one.error)));
  const filter = filterOf(args, theirs.value);
  if (!filter.ok) return session.fail(filter.error);
  const taken = theirs.value.filter(filter.value);
  const merged = mergeTuned(mine.value.entries, taken);
  const written = writeStore(context, mine.value.path, merged);
  if (!written.ok) return session.fail(written.error);
  const fresh = merged.filter((tuned) => !mine.value.entries.includes(tuned)).length;
  session.result(
    { ok: true, file: mine.value.path, entries: merged.length, merged: fresh },
    () =>
      `${mine.value.path}: ${plural(merged.length, "entry", "entries")}, ${fresh} of them from ${args.file}\n`,
  );
  return exitCodes.ok;
}

/** Why an entry says nothing of this compiler's kernels any more; null where it does. */
function staleness(session: Session, { entry, problem }: Tuned): string | null {
  const target = findTarget(entry.arch);
  if (!target.ok) return target.error.map(formatDiagnostic).join("; ");
  const { backend, schedule } = entry;
  const program = entry.program === undefined ? null : attentionOf(entry.program);
  if (program?.ok === false) return program.error.map(formatDiagnostic).join("; ");
  const what = program === null ? { problem } : { from: program.value.program };
  const made = compilerOf(session.context).compile({ ...what, target: target.value, backend, schedule });
  if (!made.ok) return made.error.map(formatDiagnostic).join("; ");
  return entry.ptxSha256 === undefined || entry.ptxSha256 === sha256(made.value.ptx)
    ? null
    : "this compiler makes another kernel of it";
}

function prune(session: Session, args: Args): number {
  const mine = storeToWrite(session.context, args);
  if (!mine.ok) return session.fail(mine.error);
  const { path, entries } = mine.value;
  const filter = filterOf(args, entries);
  if (!filter.ok) return session.fail(filter.error);
  const kept = new Set(mergeTuned(entries));
  const judged = session.working("compiling", () =>
    entries.map((tuned) => ({
      tuned,
      why: !filter.value(tuned)
        ? null
        : kept.has(tuned)
          ? staleness(session, tuned)
          : "another entry of the same problem is faster or later",
    })),
  );
  const removed = judged.flatMap(({ tuned, why }) => (why === null ? [] : [{ ...tuned.entry, why }]));
  const left = judged.flatMap(({ tuned, why }) => (why === null ? [tuned] : []));
  const written = removed.length === 0 ? ok(true) : writeStore(session.context, path, left);
  if (!written.ok) return session.fail(written.error);
  session.result({ ok: true, file: path, entries: left.length, removed }, () =>
    [
      ...removed.map(
        ({ why, ...entry }) => `removed ${entrySubject(entry)} for ${entry.arch} on ${entry.gpu}: ${why}\n`,
      ),
      `${path}: ${plural(left.length, "entry", "entries")}, ${removed.length} removed\n`,
    ].join(""),
  );
  return exitCodes.ok;
}

function exported(session: Session, args: Args, entries: readonly Tuned[]): number {
  if (args.out !== undefined) {
    const data = entries.map(printTuned).join("");
    const written = writeFiles(session.context.cwd, [{ path: args.out, data }]);
    if (!written.ok) return session.fail(written.error);
    session.result(
      { ok: true, file: args.out, entries: entries.length },
      () => `${args.out}: ${plural(entries.length, "entry", "entries")}\n`,
    );
    return exitCodes.ok;
  }
  session.result(
    { ok: true, entries: entries.map(({ entry }) => entry) },
    () => entries.map(printTuned).join(""),
    "verbatim",
  );
  return exitCodes.ok;
}

export const tunedCommand = defineCommand({
  name: "tuned",
  args,
  positionals: ["action", "file"],
  run(session, args) {
    if (args.file !== undefined && args.action !== "merge")
      return session.fail([
        problemWith(codes.unexpectedArgument, args.file, `tuned ${args.action} takes no file`, {
          hint: "the user's store is --tuned FILE",
        }),
      ]);
    if (args.action === "merge") return merge(session, args);
    if (args.action === "prune") return prune(session, args);
    const mine = openStore(session.context, args.tuned);
    if (!mine.ok) return session.fail(mine.error);
    const known = [...mine.value, ...(args.action === "list" || args.shipped ? shippedTuned() : [])];
    const filter = filterOf(args, known);
    if (!filter.ok) return session.fail(filter.error);
    const entries = known.filter(filter.value);
    return args.action === "list" ? list(session, entries) : exported(session, args, entries);
  },
});
