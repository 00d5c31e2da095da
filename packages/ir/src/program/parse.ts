/** Text to programs over named axes, with everything that is wrong with one: names, axes and dtypes are checked where they stand. */
import { type Checked, dtypes, err, leavesOf, ok, productDType, widensTo } from "@tilewright/core";
import { Cursor, describe, ParseFailure, parseCodes } from "../tile/text/cursor.ts";
import { parseElement } from "../tile/text/dataStatements.ts";
import { nearestHint } from "../tile/text/nearest.ts";
import { attempt, attemptAll, endOfLine } from "../tile/text/recover.ts";
import { parseVersion } from "../tile/text/version.ts";
import { rowReductions } from "../tile/types.ts";
import { axisName, type Declared, readAxis, readDeclaration, tileAxis } from "./declarations.ts";
import type {
  AxisDeclaration,
  AxisProgram,
  AxisStmt,
  Named,
  NamedExpr,
  NamedLeaf,
  Parameter,
} from "./types.ts";

/** Positions are compared as f32. */
const MOST_POSITIONS = 2 ** 24;
/** Loops within each other: over parts of an axis, and in one part over an axis that is multiplied. */
const MOST_LOOPS = 2;

/** Axes of the loops around a statement, the outermost first. */
type Loops = readonly string[];

/** Whether a text is a program over named axes: the first line of such a kernel says nothing of an architecture. */
export const isAxisProgram = (text: string): boolean =>
  /^(?:\s|\/\/[^\n]*)*tile\.ir\s+\d+(?:\s|\/\/[^\n]*)*tile\.kernel\s+@[\w$]+\s+stage\s+nest\s*\{/.test(text);

/** A program from its text, or every error found. */
export function parseAxisProgram(text: string): Checked<AxisProgram> {
  const c = new Cursor(text);
  const program = attemptAll(c, () => new Reader(c).program());
  return program === null || c.diagnostics.length > 0 ? err(c.diagnostics) : ok(program);
}

class Reader {
  readonly #c: Cursor;
  readonly #axes = new Map<string, AxisDeclaration>();
  readonly #named = new Map<string, Declared>();
  readonly #written = new Set<string>();
  /** Parameters that statements have read. */
  readonly #seen = new Set<string>();
  #products = 0;
  #grid: readonly [string, string] | null = null;

  constructor(c: Cursor) {
    this.#c = c;
  }

  program(): AxisProgram | null {
    const c = this.#c;
    parseVersion(c);
    c.expect("tile.kernel", "at the start of a program");
    const name = c.entry();
    c.expect("stage", "after the kernel's name");
    c.expect("nest", "after 'stage'");
    c.expect("{", "before the program");
    let body: readonly AxisStmt[] = [];
    while (!c.at("}") && c.peek().kind !== "end")
      attempt(
        c,
        () => {
          const word = c.peek();
          const kind = c.oneOf(["axis", "param", "tile", "tiles"] as const, "declaration");
          if (this.#grid !== null)
            c.fail(
              word,
              parseCodes.syntax,
              `'${kind}' behind the tiles`,
              "a program has one 'tiles', at its end",
            );
          if (kind === "axis") {
            for (const told of readAxis(c, this.#axes)) this.#named.set(told.name, told);
          } else if (kind === "tiles") body = this.#tiles();
          else {
            const made = readDeclaration(c, this.#axes, this.#named, kind === "param");
            this.#named.set(made.name, made);
          }
          endOfLine(c, kind);
        },
        undefined,
        c.suspects,
      );
    c.expect("}", "to close the program");
    if (c.peek().kind !== "end")
      c.fail(
        c.peek(),
        parseCodes.syntax,
        `unexpected ${describe(c.peek())} after the program`,
        "one program a file",
      );
    if (this.#grid === null) {
      if (c.diagnostics.length === 0)
        c.fail(
          c.peek(),
          parseCodes.syntax,
          "the program has no work tiles",
          "write tiles ROWS, COLUMNS { … }",
        );
      return null;
    }
    const all = [...this.#named.values()];
    const strip = ({ global: _, ...rest }: Declared): Named => rest;
    return {
      name,
      axes: [...this.#axes.values()],
      params: all.filter(({ global }) => global).map((each) => strip(each) as Parameter),
      tiles: all.filter(({ global }) => !global).map(strip),
      grid: this.#grid,
      body,
    };
  }

  /** A parameter that a product reads by columns: `%K[s, d]` is the d x s factor of `%Q[q, d] * %K`. Where it `stays`, only that product reads it so. */
  #turned(
    found: Named,
    axes: readonly [string, string],
    stays: boolean,
  ): Pick<Extract<AxisStmt, { kind: "mma" }>, "exchanged"> | null {
    const known = this.#named.get(found.name);
    const [rows, columns] = found.axes;
    if (rows === axes[0] && columns === axes[1]) return {};
    if (!known?.global || !("memory" in known) || rows !== axes[1] || columns !== axes[0]) return null;
    if (stays) return { exchanged: true };
    this.#named.set(found.name, { ...known, axes, layout: known.layout === "row" ? "col" : "row" });
    return {};
  }

  #tiles(): readonly AxisStmt[] {
    const c = this.#c;
    const rows = tileAxis(this.#c, this.#axes);
    c.expect(",", "between the axes of rows and columns");
    this.#grid = [rows, tileAxis(this.#c, this.#axes)];
    return this.#block([]);
  }

  #block(loops: Loops): readonly AxisStmt[] {
    const c = this.#c;
    c.expect("{", "before the body");
    const body: AxisStmt[] = [];
    while (!c.at("}") && c.peek().kind !== "end") {
      const stmt = attempt(c, () => this.#stmt(loops));
      if (stmt !== null) body.push(stmt);
    }
    c.expect("}", "to close the body");
    return body;
  }

  #stmt(loops: Loops): AxisStmt {
    const c = this.#c;
    const kind = c.oneOf(["fill", "for", "mma", "map", "reduce", "merge", "store"] as const, "statement");
    const stmt = this.#rest(kind, loops);
    endOfLine(c, kind);
    return stmt;
  }

  #rest(kind: AxisStmt["kind"], loops: Loops): AxisStmt {
    const c = this.#c;
    switch (kind) {
      case "fill": {
        const tile = this.#target(false);
        c.expect("=", "before the value");
        const value = c.number("the value");
        this.#written.add(tile.name);
        return { kind, tile: tile.name, value };
      }
      case "for": {
        const token = c.peek();
        const axis = tileAxis(this.#c, this.#axes);
        if (loops.length === MOST_LOOPS || loops.includes(axis))
          c.bad(
            token,
            `a loop over ${axis} inside one over ${loops.join(" and ")}`,
            "loops follow each other, or one over another axis stands in one",
          );
        const all = c.eat("all");
        return { kind, axis, ...(all ? { all } : {}), body: this.#loop(axis, loops) };
      }
      case "mma":
        return this.#mma(loops);
      case "map": {
        const tile = this.#target(false);
        c.expect("=", "before the expression");
        const value = this.#value(tile.axes, loops);
        this.#written.add(tile.name);
        return { kind, tile: tile.name, value };
      }
      case "reduce":
        return this.#reduce(loops);
      case "merge":
        return this.#merge(loops);
      case "store": {
        const param = this.#target(true);
        c.expect("=", "before the expression");
        return { kind, param: param.name, value: this.#value(param.axes, loops) };
      }
    }
  }

  #merge(loops: Loops): AxisStmt {
    const c = this.#c;
    const token = c.peek();
    const [of, from]: [string[], string[]] = [[], []];
    do {
      const [own, other] = [this.#read(), this.#target(false)];
      if (own.dtype !== other.dtype || own.axes.join() !== other.axes.join())
        c.bad(token, `merges ${shown(own)} and ${shown(other)}`, "the same dtype and axes");
      of.push(own.name);
      from.push(other.name);
      this.#written.add(other.name);
    } while (c.eat(","));
    const body = this.#block(loops);
    if (loops.length > 0 || body.some(({ kind }) => kind !== "map"))
      c.bad(
        token,
        "merges in a loop, or by more than maps",
        "write it behind the loop over parts, with maps",
      );
    return { kind: "merge", of, from, body };
  }

  /** The body of a loop. Tiles that it makes of parts of the axis end with it. */
  #loop(axis: string, loops: Loops): readonly AxisStmt[] {
    const before = new Set(this.#written);
    const body = this.#block([...loops, axis]);
    for (const name of this.#written)
      if (!before.has(name) && this.#named.get(name)?.axes.includes(axis)) this.#written.delete(name);
    return body;
  }

  /** What a statement writes: a tile, or a parameter. */
  #target(global: boolean): Named {
    const token = this.#c.peek();
    const found = this.#name();
    if (this.#named.get(found.name)?.global !== global)
      this.#c.bad(
        token,
        global ? `%${found.name} is no parameter` : `%${found.name} is a parameter`,
        global ? "store into a parameter" : "write a tile here; 'store' writes parameters",
      );
    return found;
  }

  #name(): Named {
    const c = this.#c;
    const token = c.peek();
    const name = c.name("a parameter or tile");
    const found = this.#named.get(name);
    if (found !== undefined) return found;
    if (c.suspects.has(name)) throw new ParseFailure(null);
    const known = [...this.#named.keys()];
    return c.fail(
      token,
      parseCodes.unknownName,
      `nothing is called %${name}`,
      nearestHint(name, known, "%") ?? `there are: ${known.map((each) => `%${each}`).join(", ")}`,
    );
  }

  /** What a statement reads: a parameter, or a tile that has been written. */
  #read(): Named {
    const token = this.#c.peek();
    const found = this.#name();
    if (this.#named.get(found.name)?.global === false && !this.#written.has(found.name))
      this.#c.bad(
        token,
        `%${found.name} is read before anything is written to it`,
        `fill %${found.name} = 0, or map it, before`,
      );
    this.#seen.add(found.name);
    return found;
  }

  #mma(loops: Loops): AxisStmt {
    const c = this.#c;
    const token = c.peek();
    const acc = this.#read();
    c.expect("+=", "after the accumulator");
    const a = this.#read();
    c.expect("*", "between the factors");
    // Of further products of parameters the factor's rows are those of the one that goes on.
    const further = this.#products++ > 0 && this.#named.get(a.name)?.global === true;
    const before = new Set(this.#seen);
    const b = this.#read();
    const [m, n] = acc.axes;
    const k = a.axes[1];
    const turned = this.#turned(b, [k ?? "", n ?? ""], further || before.has(b.name));
    if (a.axes[0] !== m || turned === null || k === undefined || n === undefined)
      c.bad(
        token,
        `multiplies ${shown(a)} by ${shown(b)} into ${shown(acc)}`,
        "axes are [m, k], [k, n] and [m, n]",
      );
    if (loops.at(-1) !== k)
      c.bad(token, `a product over ${k} outside a loop over it`, `write for ${k} { … }`);
    const widens = dtypes[b.dtype].bits === 8 && widensTo(b.dtype, a.dtype);
    if (a.dtype !== b.dtype && !widens)
      c.bad(token, `multiplies ${a.dtype} by ${b.dtype}`, `make %${b.name} ${a.dtype}`);
    if (dtypes[productDType(a.dtype, b.dtype)].acc !== acc.dtype || acc.dtype !== "f32")
      c.bad(
        token,
        `accumulates products of ${a.dtype} in ${acc.dtype}`,
        "programs over axes accumulate in f32",
      );
    return { kind: "mma", acc: acc.name, a: a.name, b: b.name, ...turned };
  }

  #reduce(loops: Loops): AxisStmt {
    const c = this.#c;
    const token = c.peek();
    const tile = this.#target(false);
    const adds = c.eat("+=");
    if (adds && !this.#written.has(tile.name))
      c.bad(token, `adds to %${tile.name}, which nothing has filled`, `fill %${tile.name} = 0`);
    if (!adds) c.expect("=", "before what is reduced");
    const op = c.oneOf(rowReductions, "reduction");
    c.expect("(", "before the expression");
    const start = c.peek();
    const { value, axes } = this.#expression(loops);
    c.expect(")", "behind the expression");
    c.expect("along", "before the axis");
    const axisAt = c.peek();
    const along = axisName(this.#c, this.#axes);
    const [rows] = tile.axes;
    if (tile.axes.length !== 1 || tile.dtype !== "f32")
      c.bad(token, `${shown(tile)} is no row of f32`, "reduce into a tile f32[rows]");
    for (const axis of axes)
      if (axis !== rows && axis !== along)
        c.bad(start, `the expression has axis ${axis}`, `its axes are ${rows} and ${along}`);
    const declared = this.#axes.get(along);
    if (loops.length > 0 && loops.at(-1) !== along)
      c.bad(axisAt, `reduces along ${along} in a loop over ${loops.at(-1)}`, `reduce along ${loops.at(-1)}`);
    if (loops.length === 0 && declared?.whole !== true)
      c.bad(
        axisAt,
        `a tile does not hold whole rows along ${along}`,
        `declare it whole: axis ${along} = ${declared?.extent ?? "EXTENT"} whole, or reduce in a loop over it`,
      );
    this.#written.add(tile.name);
    return { kind: "reduce", tile: tile.name, op, value, along, adds };
  }

  /** An expression whose axes are among those of what it is written to. */
  #value(into: readonly string[], loops: Loops): NamedExpr {
    const start = this.#c.peek();
    const { value, axes } = this.#expression(loops);
    for (const axis of axes)
      if (!into.includes(axis))
        this.#c.bad(
          start,
          `the expression has axis ${axis}, and what it is written to has ${into.join(", ")}`,
          `reduce it along ${axis}`,
        );
    return value;
  }

  #expression(loops: Loops): { readonly value: NamedExpr; readonly axes: ReadonlySet<string> } {
    const c = this.#c;
    const value = parseElement<NamedLeaf>(c, () => {
      const token = c.peek();
      if (token.kind === "name") return { kind: "element", name: this.#read().name };
      const end = !this.#axes.has("end") && c.eat("end");
      if (end) c.expect("(", "before the axis");
      const name = c.peek().text;
      if (!end && (token.kind !== "word" || !this.#axes.has(name))) return null;
      const axis = axisName(c, this.#axes);
      if (end) c.expect(")", "behind the axis");
      const declared = this.#axes.get(axis);
      const known = declared?.whole === true || loops.includes(axis);
      if (!known && this.#grid?.includes(axis) !== true)
        c.bad(
          token,
          `a tile does not know positions along ${axis}`,
          "positions are those along the rows and columns of the work tiles, along axes that are whole, and along those of the loops around",
        );
      if ((declared?.extent ?? 0) > MOST_POSITIONS)
        c.bad(
          token,
          `positions along ${axis} are no exact numbers of f32 beyond ${MOST_POSITIONS}`,
          `make the axis ${MOST_POSITIONS} or shorter`,
        );
      return { kind: "position", axis, ...(end ? { end: true } : {}) };
    });
    const axes = new Set(
      leavesOf(value).flatMap((leaf) =>
        leaf.kind === "position" ? [leaf.axis] : (this.#named.get(leaf.name)?.axes ?? []),
      ),
    );
    return { value, axes };
  }
}

const shown = ({ name, dtype, axes }: Named): string => `%${name} ${dtype}[${axes.join(", ")}]`;
