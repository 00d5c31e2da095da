/** The command line: argv and a context in, an exit code out. Nothing here ends the process. */
import { type Diagnostic, didYouMean, InternalError } from "@tilewright/core";
import { codes, problemWith } from "./codes.ts";
import { commands } from "./commands/index.ts";
import type { Context } from "./context.ts";
import { jsonOf, openSession } from "./kit/command.ts";
import { exitCodes } from "./kit/exit.ts";
import { renderPairs } from "./output/table.ts";
import { wrap } from "./output/wrap.ts";
import { version } from "./version.ts";

/** Where a bug is reported, and what to put into the report. */
const reportHint =
  "this is a bug in tilewright; please report it with the command line and input that led here. TILEWRIGHT_DEBUG=1 adds a trace";

/** Run a command line; `argv` is what follows the program's name. Returns the exit code (README.md lists them). */
export async function main(argv: readonly string[], context: Context): Promise<number> {
  const [name, ...rest] = commandFirst(argv);
  try {
    if (name === undefined || name === "help" || name === "--help" || name === "-h")
      return help(context, rest);
    if (name === "--version" || name === "-V") {
      openSession(context, { json: jsonOf(rest) }).result({ version }, () => `tilewright ${version}\n`);
      return exitCodes.ok;
    }
    const command = commands.find((candidate) => candidate.name === name);
    if (command !== undefined) return await command.start(context, rest);
    return openSession(context, { json: jsonOf(rest) }).fail([unknownCommand(name)]);
  } catch (error) {
    return internal(error, context, jsonOf(argv));
  }
}

const sharedFlag = /^(?:--json(?:=.*)?|-q|--quiet|--color=.*)$/;

/** Flags of all commands may stand before the command, too. */
function commandFirst(argv: readonly string[]): readonly string[] {
  const at = argv.findIndex((word) => !sharedFlag.test(word));
  return at <= 0 ? argv : [...argv.slice(at, at + 1), ...argv.slice(0, at), ...argv.slice(at + 1)];
}

function unknownCommand(name: string): Diagnostic {
  const names = commands.map((command) => command.name);
  const known = `commands: ${names.join(", ")}`;
  const what = sharedFlag.test(name)
    ? "no command is named"
    : name.startsWith("-")
      ? `${name} stands before any command`
      : `there is no command '${name}'`;
  const near = didYouMean(name, [...names, "--help", "--version"], known);
  return problemWith(codes.unknownCommand, name, what, { hint: near });
}

async function help(context: Context, words: readonly string[]): Promise<number> {
  const topic = words.find((word) => !sharedFlag.test(word));
  const command = commands.find((candidate) => candidate.name === topic);
  if (command !== undefined) return command.start(context, ["--help"]);
  const session = openSession(context, { json: jsonOf(words) });
  if (topic !== undefined) return session.fail([unknownCommand(topic)]);
  const { paint } = session;
  session.result({ version, commands: commands.map(({ name, summary }) => ({ name, summary })) }, () =>
    [
      "tilewright: from a matrix multiplication and a GPU target to PTX and how to launch it",
      "",
      paint("bold", "Examples"),
      "  tilewright demo",
      "  tilewright compile --arch sm_70 -m 512 -n 512 -k 512 -o out",
      "  tilewright run --arch sm_70 -m 300 -n 200 -k 77",
      "",
      paint("bold", "Commands"),
      renderPairs(
        commands.map((entry) => [entry.name, entry.summary]),
        "  ",
      ),
      wrap(
        "tilewright COMMAND -h shows examples of a command, --help all of it; --version the version.",
        paint.width,
        "",
      ),
      "",
    ].join("\n"),
  );
  return exitCodes.ok;
}

/** A bug: its message and what to do, never a trace unless asked for. */
function internal(error: unknown, context: Context, json: boolean | "line"): number {
  const message = error instanceof Error ? error.message : String(error);
  const found: readonly Diagnostic[] = [
    {
      code: "TW9001",
      kind: "internal",
      at: error instanceof InternalError ? "compiler" : "tilewright",
      message,
      hint: reportHint,
    },
  ];
  const code = openSession(context, { json }).fail(found);
  if ((context.env.TILEWRIGHT_DEBUG ?? "") !== "" && error instanceof Error)
    context.stderr.write(`${error.stack ?? ""}\n`);
  return code;
}
