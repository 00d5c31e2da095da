/** Accumulators of products that follow each other: each has a tensor tile of its own for its products, and stays in registers for what threads compute with it. */

import type { Buffer, Expr, Stmt, TileProgram, View } from "@tilewright/ir";
import { eachStmt, lit, tensorPlace, wholeView, withBody } from "@tilewright/ir";
import { freshName, loadedTile, loadOf, stepOf } from "./tensorLoads.ts";

type For = Extract<Stmt, { kind: "for" }>;

/** The register tile that holds the columns of a tensor tile which are being added. */
const COLUMNS = "columns";

/** An accumulator, in registers and in tensor memory. */
interface Sums {
  readonly held: Buffer;
  readonly tile: Buffer;
}

/**
 * Products overwrite the tensor tile. Where an accumulator is filled with zeros right in front of them it is loaded behind them; elsewhere what they make is added to it, `most`
 * columns at a time. Null where no matrix instruction has the rows of an accumulator.
 */
export function chainSums(program: TileProgram, most: number): TileProgram | null {
  const sums = new Map<string, Sums>();
  for (const stmt of eachStmt(program.body)) {
    if (stmt.kind !== "mma" || sums.has(stmt.acc.buffer)) continue;
    const acc = program.buffers.find(({ name }) => name === stmt.acc.buffer);
    const place = acc === undefined ? null : tensorPlace(acc);
    if (acc === undefined || place === null) return null;
    const held = { ...acc, own: loadedTile(acc, place, place.columns, acc.name).own };
    sums.set(acc.name, { held, tile: { ...acc, name: freshName(program, `t${acc.name}`), space: "tensor" } });
  }
  const added = new Map<string, Buffer>();
  // Sums of one loop may be those of several groups of threads.
  const columnsOf = (
    { held }: Sums,
    nth: number,
  ): readonly [tile: Buffer, columns: number, count: number] => {
    const place = tensorPlace(held);
    if (place === null) throw new TypeError("the accumulator has a place");
    const columns = stepOf(place, most);
    const key = `${held.shape[place.lanes]} ${columns} ${nth}`;
    const name = freshName(program, added.size === 0 ? COLUMNS : `${COLUMNS}${added.size}`);
    const tile = added.get(key) ?? loadedTile(held, place, columns, name);
    added.set(key, tile);
    return [tile, columns, place.columns / columns];
  };
  const around = (stmts: readonly Stmt[]): readonly Stmt[] => {
    const out: Stmt[] = [];
    for (const stmt of stmts) {
      const own = stmt.kind === "for" ? sumsOf(stmt).flatMap((name) => sums.get(name) ?? []) : [];
      if (stmt.kind !== "for" || own.length === 0) {
        out.push("body" in stmt ? { ...stmt, body: around(stmt.body) } : stmt);
        continue;
      }
      const zeros = new Set<string>();
      for (let last = out.at(-1); last?.kind === "fill" && last.value === 0; last = out.at(-1)) {
        const name = last.dst.buffer;
        if (!own.some(({ held }) => held.name === name)) break;
        zeros.add(name);
        out.pop();
      }
      out.push(
        ...own.map(({ tile }): Stmt => ({ kind: "fill", dst: wholeView(tile), value: 0 })),
        intoTensor(stmt, own),
        ...own.flatMap((each, nth) =>
          zeros.has(each.held.name)
            ? [loadOf(wholeView(each.held), wholeView(each.tile))]
            : additions(each, ...columnsOf(each, nth)),
        ),
      );
    }
    return out;
  };
  const body = around(program.body);
  return {
    ...withBody(program, body),
    buffers: [
      ...program.buffers.flatMap((b): readonly Buffer[] => {
        const own = sums.get(b.name);
        return own === undefined ? [b] : [own.held, own.tile];
      }),
      ...added.values(),
    ],
  };
}

/** The accumulators of a loop that only multiplies and brings what it multiplies; none of other loops. */
function sumsOf({ body }: For): readonly string[] {
  const names = new Set(body.flatMap((stmt) => (stmt.kind === "mma" ? [stmt.acc.buffer] : [])));
  return body.every(({ kind }) => kind === "mma" || kind === "copy") ? [...names] : [];
}

const intoTensor = (loop: For, own: readonly Sums[]): For => ({
  ...loop,
  body: loop.body.map((stmt) => {
    const tile =
      stmt.kind === "mma" ? own.find(({ held }) => held.name === stmt.acc.buffer)?.tile : undefined;
    return stmt.kind === "mma" && tile !== undefined ? { ...stmt, acc: wholeView(tile) } : stmt;
  }),
});

/** acc += what the tensor tile holds. */
function additions({ held, tile }: Sums, part: Buffer, columns: number, count: number): readonly Stmt[] {
  const lanes = held.lanes ?? 0;
  const cut = (name: string, from: number): View => {
    const origin: readonly [Expr, Expr] = lanes === 0 ? [lit(0), lit(from)] : [lit(from), lit(0)];
    return { buffer: name, slot: lit(0), origin, extent: part.shape };
  };
  const leaf = (view: View) => ({ kind: "leaf", leaf: { kind: "view", view } }) as const;
  return Array.from({ length: count }, (_, i): readonly Stmt[] => {
    const dst = cut(held.name, i * columns);
    return [
      loadOf(wholeView(part), cut(tile.name, i * columns)),
      { kind: "map", dst, value: { kind: "apply", fn: "add", args: [leaf(dst), leaf(wholeView(part))] } },
    ];
  }).flat();
}
