/**
 * Text to tile programs. Every error carries line, column and, where something near is known, a hint; after an error
 * parsing resumes at the next line, so independent errors are reported together.
 */
import { type Checked, err, ok, type SourceLocation } from "@tilewright/core";
import { Cursor, describe, parseCodes } from "./text/cursor.ts";
import { declarations, type Head, missingDeclarations } from "./text/declarations.ts";
import { nearestHint } from "./text/nearest.ts";
import { attemptAll, attempt as attemptAt, endOfLine, type Resume } from "./text/recover.ts";
import { type ParseBlock, type StatementSyntax, statementKinds, statementSyntax } from "./text/statements.ts";
import { parseVersion } from "./text/version.ts";
import { type Stage, type Stmt, stages, type TileProgram } from "./types.ts";

export interface ParsedProgram {
  readonly program: TileProgram;
  /** Where each statement and declaration of the program begins, by object identity: verifiers put it into diagnostics. */
  readonly locations: ReadonlyMap<object, SourceLocation>;
}

/** A program from its text, or every error found. The program still has to be verified. */
export function parseProgram(text: string): Checked<TileProgram> {
  const parsed = parseProgramWithLocations(text);
  return parsed.ok ? ok(parsed.value.program) : parsed;
}

/** The same, with the place of every statement and declaration. */
export function parseProgramWithLocations(text: string): Checked<ParsedProgram> {
  const c = new Cursor(text);
  const program = attemptAll(
    c,
    () => parseKernel(c),
    () => {},
  );
  if (program === null || c.diagnostics.length > 0) return err(c.diagnostics);
  return ok({ program, locations: c.locations });
}

interface Header {
  readonly name: string;
  readonly stage: Stage;
  readonly arch: string;
}

/** The first line, but for its brace. */
function parseHeader(c: Cursor): Header {
  c.expect("tile.kernel", "at the start of a program");
  const name = c.entry();
  c.expect("stage", "after the kernel's name");
  const stage = c.oneOf<Stage>(stages, "stage");
  c.expect("arch", "after the stage");
  const arch = c.word("an architecture");
  if (!c.at("{")) c.expect("{", "before the program");
  return { name, stage, arch };
}

function parseKernel(c: Cursor): TileProgram | null {
  // A text of another version is another language: what else could be said of it would mislead.
  if (attempt(c, () => parseVersion(c), undefined, skipToBrace) === null) return null;
  const header = attempt(c, () => parseHeader(c), undefined, skipToBrace);
  // Without a brace on its first line the text is hardly a program: whatever else could be said of it would mislead.
  if (!c.eat("{")) return null;
  const head: Head = {
    problem: null,
    launch: null,
    nest: { m: null, n: null, k: null },
    directives: [],
    buffers: [],
    rings: [],
    barriers: [],
    scratch: [],
    memory: null,
    launches: { kernels: [], init: "none", regions: [], sizes: [] },
  };
  const stage = header?.stage ?? "nest";
  let inHead = true;
  const body: Stmt[] = [];
  while (!c.at("}") && c.peek().kind !== "end") {
    const next = c.peek();
    const row = next.kind === "word" ? declarations[next.text] : undefined;
    if (row !== undefined && inHead) {
      c.seen.add(next.text);
      attempt(
        c,
        () => {
          c.next();
          row.parse(c, head);
          endOfLine(c, next.text);
        },
        c.suspects,
      );
      continue;
    }
    if (row === undefined && inHead && isStatement(next.text)) {
      inHead = false;
      missingDeclarations(c, stage);
    }
    const s = attempt(c, () => parseStatement(c, inHead));
    if (s !== null) body.push(s);
  }
  if (inHead) missingDeclarations(c, stage);
  c.expect("}", "to close the program");
  const after = c.peek();
  if (after.kind !== "end")
    c.fail(after, parseCodes.syntax, `unexpected ${describe(after)} after the program`, "one program a file");
  const nest = completeNest(c, head);
  if (header === null || head.problem === null || head.launch === null) return null;
  return {
    ...header,
    problem: head.problem,
    launch: head.launch,
    nest,
    directives: head.directives,
    buffers: head.buffers,
    rings: head.rings,
    ...(head.memory === null
      ? {}
      : {
          machine: {
            barriers: head.barriers,
            scratch: head.scratch,
            memory: head.memory,
            ...(head.launches.kernels.length === 0 ? {} : { launches: head.launches }),
          },
        }),
    body,
  };
}

/** All three axes or none. */
function completeNest(c: Cursor, head: Head): TileProgram["nest"] {
  const { m, n, k } = head.nest;
  if (m !== null && n !== null && k !== null) return { m, n, k };
  const missing = (["m", "n", "k"] as const).filter((axis) => head.nest[axis] === null);
  // An axis whose line failed has been reported already.
  if (missing.length < 3 && c.diagnostics.length === 0)
    c.diagnostics.push(
      c.diagnostic(
        c.peek().offset,
        "nest",
        parseCodes.syntax,
        `the nest lacks axis ${missing.join(" and ")}`,
        `add: nest ${missing[0]} (…), or remove the other axes`,
      ),
    );
  return null;
}

const isStatement = (word: string): boolean => statementKinds.some((kind) => kind === word);

function parseStatement(c: Cursor, inHead: boolean): Stmt {
  const token = c.peek();
  const known = inHead ? [...Object.keys(declarations), ...statementKinds] : statementKinds;
  const kind = statementKinds.find((k) => token.kind === "word" && k === token.text);
  if (kind === undefined) {
    const declared = !inHead && token.kind === "word" && Object.hasOwn(declarations, token.text);
    const hint = declared
      ? "declarations come before the first statement"
      : ((token.kind === "word" ? nearestHint(token.text, known) : null) ?? `one of: ${known.join(", ")}`);
    return c.fail(token, parseCodes.unknownWord, `${describe(token)} begins no statement`, hint);
  }
  c.next();
  const block: ParseBlock = (vars) => parseBlock(c, vars);
  const s = (statementSyntax[kind] as StatementSyntax<Stmt>).parse(c, block);
  endOfLine(c, kind);
  c.locations.set(s, c.scanner.locate(token.offset));
  return s;
}

const parseBlock = (c: Cursor, vars: readonly string[]): Stmt[] =>
  c.within("blocks", () => parseStatements(c, vars));

function parseStatements(c: Cursor, vars: readonly string[]): Stmt[] {
  c.expect("{", "before the body");
  const depth = c.vars.length;
  c.vars.push(...vars);
  const body: Stmt[] = [];
  while (!c.at("}") && c.peek().kind !== "end") {
    const s = attempt(c, () => parseStatement(c, false));
    if (s !== null) body.push(s);
  }
  c.vars.length = depth;
  c.expect("}", "to close the body");
  return body;
}

/** As `attempt` of text/recover.ts; a body on the failed line is parsed for its own errors. */
const attempt = <T>(c: Cursor, parse: () => T, suspects?: Set<string>, resume: Resume = recover): T | null =>
  attemptAt(c, parse, resume, suspects);

/** The kernel's own brace, or the next line. */
function skipToBrace(c: Cursor): void {
  while (!c.at("{") && !c.peek().startsLine && c.peek().kind !== "end") c.next();
}

/** Skip the rest of the line; a body that opens on it is parsed for its own errors, with the line's names in scope. */
function recover(c: Cursor, names: readonly string[]): void {
  // The failing token itself may start a line (a missing operand): then nothing is left to skip.
  while (!c.peek().startsLine && c.peek().kind !== "end" && !c.at("}")) {
    if (c.at("{")) {
      attempt(c, () => parseBlock(c, names));
      return;
    }
    c.next();
  }
}
