/** What a command is: a name, its arguments as a zod object, examples, and a function from checked arguments to an exit code. */
import { type Diagnostic, formatDiagnostic } from "@tilewright/core";
import { z } from "zod";
import texts from "../../data/help.json" with { type: "json" };
import type { Context } from "../context.ts";
import { compilerWith, loadBackend, namesModule } from "../loadBackend.ts";
import { colourModes, type Paint, painterFor } from "../output/colour.ts";
import { toJson } from "../output/json.ts";
import { fit } from "../output/wrap.ts";
import { defaultsOf, readConfig } from "./config.ts";
import { exitCodeFor, exitCodes } from "./exit.ts";
import { choice, grouped, toggle, toggleOr } from "./flags.ts";
import { type HelpSource, renderHelp } from "./help.ts";
import { parseArguments, slotsOf } from "./parse.ts";

/** Flags that every command has. */
const common = z.strictObject(
  grouped("Output", {
    json: toggleOr("print one JSON object on stdout instead of text; =line: on one line", ["line"]),
    quiet: toggle("no notes or progress on stderr; errors still show", { aliases: ["q"] }),
    color: choice("colour of text (default auto: for terminals, unless NO_COLOR is set)", colourModes),
  }),
);

/** What a command writes with: results on stdout, everything else on stderr. */
export interface Session {
  readonly context: Context;
  readonly json: boolean;
  /** Colour for text on stdout. */
  readonly paint: Paint;
  /** The command's result: the object with --json, else the text, whose lines break where the terminal ends unless they are `verbatim`. */
  result(object: unknown, text: () => string, form?: "verbatim"): void;
  /** A remark for people, on stderr. */
  note(text: string): void;
  /** Run work that may take over a second, showing progress under `label` until it is done; what it promises included. */
  working<T>(label: string, work: () => T): T;
  /** Report diagnostics on stderr, beside a result that says the same on stdout. Returns the exit code. */
  report(diagnostics: readonly Diagnostic[]): number;
  /** Report diagnostics instead of a result: with --json as an object on stdout, too. Returns the exit code. */
  fail(diagnostics: readonly Diagnostic[]): number;
}

/** Control characters of an input, which would act on a terminal, as escapes. */
const visible = (text: string): string =>
  text.replace(/[^\P{Cc}\n]|\ufeff/gu, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** The session of a command whose common flags are `args`. */
export function openSession(context: Context, args: Partial<z.output<typeof common>>): Session {
  const { json: form = false, color: mode = "auto" } = args;
  const json = form !== false;
  const asJson = (value: unknown): string => toJson(value, form === "line" ? 0 : 2);
  const errorPaint = painterFor(context, context.stderr, mode);
  const report = (diagnostics: readonly Diagnostic[]): number => {
    for (const d of diagnostics)
      context.stderr.write(
        `${fit(`${errorPaint("red", "error")} ${visible(formatDiagnostic(d))}`, errorPaint.width)}\n`,
      );
    return exitCodeFor(diagnostics);
  };
  const paint = painterFor(context, context.stdout, mode);
  return {
    context,
    json,
    paint,
    result(object, text, layout) {
      const shown = () => fit(text(), paint.width).replace(/\n+$/, "\n");
      context.stdout.write(json ? asJson(object) : layout === "verbatim" ? text() : shown());
    },
    note(text) {
      if (!args.quiet) context.stderr.write(`${fit(text, errorPaint.width)}\n`);
    },
    working(label, work) {
      const done = args.quiet ? () => {} : context.progress(label);
      let promised = false;
      try {
        const result = work();
        promised = result instanceof Promise;
        if (result instanceof Promise) result.then(done, done);
        return result;
      } finally {
        if (!promised) done();
      }
    },
    report,
    fail(diagnostics) {
      if (json) context.stdout.write(asJson({ ok: false, diagnostics }));
      return report(diagnostics);
    },
  };
}

/** How --json stands among words that did not parse. */
export const jsonOf = (words: readonly string[]): boolean | "line" =>
  words.includes("--json=line") ? "line" : words.includes("--json");

export interface Command extends HelpSource {
  /** Parse `argv` (what follows the command's name), run, and return the exit code. */
  start(context: Context, argv: readonly string[]): Promise<number>;
}

interface CommandSpec<S extends z.ZodObject> {
  /** What --help says of it stands in data/help.json. */
  readonly name: keyof typeof texts;
  /** A strict object of registered flags (kit/flags.ts). */
  readonly args: S;
  /** Keys of `args` that are given by position, in order. */
  readonly positionals?: readonly (keyof z.output<S> & string)[];
  /** What is wrong beside flags that did not parse (`failed`), of the others. */
  readonly further?: (
    context: Context,
    args: Partial<z.output<S>>,
    failed: ReadonlySet<string>,
  ) => readonly Diagnostic[];
  run(session: Session, args: z.output<S>): number | Promise<number>;
}

/** Make a command; it also takes the flags that all commands share. */
export function defineCommand<S extends z.ZodObject>(spec: CommandSpec<S>): Command {
  const positionals = spec.positionals ?? [];
  const slots = [...slotsOf(spec.args, positionals), ...slotsOf(common, [])];
  const { name } = spec;
  const help = { name, ...texts[name], slots };
  return {
    ...help,
    async start(context, argv) {
      const end = argv.indexOf("--");
      const words = end < 0 ? argv : argv.slice(0, end);
      const full = words.includes("--help");
      if (full || words.includes("-h")) {
        const paint = painterFor(context, context.stdout, "auto");
        context.stdout.write(fit(renderHelp(help, paint, full), paint.width));
        return exitCodes.ok;
      }
      const config = readConfig(context);
      if (!config.ok) return openSession(context, { json: jsonOf(words) }).fail(config.error);
      const parsed = parseArguments(
        argv,
        spec.args,
        common,
        positionals,
        (given) => defaultsOf(config.value, given),
        (args, failed) => spec.further?.(context, args, failed) ?? [],
      );
      if (!parsed.ok) {
        // Looked for by hand, because what failed to parse may be any flag.
        const session = openSession(context, { json: jsonOf(words), quiet: false });
        const code = session.fail(parsed.error);
        context.stderr.write(`tilewright ${spec.name} -h shows examples\n`);
        return code;
      }
      const { common: shared, own } = parsed.value;
      const named: unknown = Reflect.get(own, "backend");
      if (typeof named !== "string" || !namesModule(named))
        return spec.run(openSession(context, shared), own);
      const backend = await loadBackend(context, named);
      if (!backend.ok) return openSession(context, shared).fail(backend.error);
      const extended = { ...context, compiler: compilerWith(context, backend.value) };
      return spec.run(openSession(extended, shared), { ...own, backend: backend.value.id });
    },
  };
}
