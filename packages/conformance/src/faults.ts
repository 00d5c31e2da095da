/**
 * Faults planted systematically in a program of the stage machine: in its statements, its edges and its roles. What the protocol proof misses of them is a hole in it,
 * or no fault: each backend's test lists those with the reason.
 */
import type { Target } from "@tilewright/core";
import {
  eachStmt,
  labelOf,
  lit,
  type MachineStmt,
  proveProtocol,
  type Ring,
  type Stmt,
  type TileProgram,
  type View,
  v,
  verifyProgram,
} from "@tilewright/ir";

export interface Fault<T> {
  readonly name: string;
  readonly it: T;
}

/** Statements that synchronise, or touch a ring's slots. */
const protocolKinds: ReadonlySet<Stmt["kind"]> = new Set<Stmt["kind"]>([
  "pipeline",
  "advance",
  "hold",
  "mbar.wait",
  "mbar.expect",
  "mbar.arrive",
  "tcgen05.commit",
  "fence",
  "warp.sync",
  "wgmma.fence",
  "wgmma.commit",
  "wgmma.wait",
  "barrier",
  "request",
  "next",
  "copy",
  "mma",
]);

/** Of some statements those that take part in the protocol: of `kinds`, and if they move data, a ring's. */
export function protocolStmts(
  { rings }: TileProgram,
  body: readonly Stmt[],
  kinds: ReadonlySet<Stmt["kind"]>,
): readonly Stmt[] {
  const managed = new Set(rings.flatMap((ring) => ring.buffers));
  const touches = (...views: readonly View[]): boolean => views.some((view) => managed.has(view.buffer));
  return eachStmt(body).filter((stmt) => {
    if (!kinds.has(stmt.kind)) return false;
    if (stmt.kind === "copy") return touches(stmt.dst, stmt.src);
    return stmt.kind !== "mma" || touches(stmt.a, stmt.b);
  });
}

/** The same with the role that they stand in. */
const protocol = (program: TileProgram): readonly (readonly [role: string, stmt: Stmt])[] =>
  eachStmt(program.body).flatMap((role) =>
    role.kind === "role"
      ? protocolStmts(program, role.body, protocolKinds).map((stmt) => [role.name, stmt] as const)
      : [],
  );

/** The program with one statement (by identity) replaced in its list. */
export function withStmt(
  program: TileProgram,
  at: Stmt,
  by: (list: readonly Stmt[], i: number) => readonly Stmt[],
): TileProgram {
  const rebuild = (stmts: readonly Stmt[]): readonly Stmt[] => {
    const i = stmts.indexOf(at);
    if (i >= 0) return by(stmts, i);
    return stmts.map((stmt) => ("body" in stmt ? ({ ...stmt, body: rebuild(stmt.body) } as Stmt) : stmt));
  };
  return { ...program, body: rebuild(program.body) };
}

const intoRing = (program: TileProgram, stmt: Extract<Stmt, { readonly kind: "copy" }>): boolean =>
  program.rings.some((ring) => ring.buffers.includes(stmt.dst.buffer));

/** A statement left out, twice, unless of `once`, and after what follows it. */
export function* movedFaults(
  program: TileProgram,
  stmt: Stmt,
  once: ReadonlySet<Stmt["kind"]>,
): Iterable<readonly [how: string, it: TileProgram]> {
  if (stmt.kind !== "mma" && (stmt.kind !== "copy" || intoRing(program, stmt))) {
    yield ["left out", withStmt(program, stmt, (list, i) => list.toSpliced(i, 1))];
    if (!once.has(stmt.kind))
      yield ["twice", withStmt(program, stmt, (list, i) => list.toSpliced(i, 0, stmt))];
  }
  yield [
    "after what follows it",
    withStmt(program, stmt, (list, i) => {
      const next = list[i + 1];
      return next === undefined ? list : list.toSpliced(i, 2, next, stmt);
    }),
  ];
}

/** Ways in which a statement could be wrong in itself. */
export function changesOf(program: TileProgram, stmt: Stmt): readonly (readonly [how: string, to: Stmt])[] {
  const blocks = program.launch.cluster[0] * program.launch.cluster[1];
  const half = (view: View): View => ({ ...view, extent: [view.extent[0] / 2, view.extent[1]] });
  switch (stmt.kind) {
    case "pipeline": {
      const { slots = 1 } = program.rings.find(({ name }) => name === stmt.of) ?? {};
      return [
        ["in the other phase", { ...stmt, phase: stmt.phase === 0 ? 1 : 0 }],
        ...(slots > 1 ? [["a slot further on", { ...stmt, stage: (stmt.stage + 1) % slots }] as const] : []),
      ];
    }
    case "advance":
      return [["by one more", { ...stmt, by: stmt.by + 1 }]];
    case "mbar.expect":
      return [
        ["of half the bytes", { ...stmt, bytes: stmt.bytes / 2 }],
        ["of twice the bytes", { ...stmt, bytes: stmt.bytes * 2 }],
        ...(stmt.leader ? [["by both blocks", { ...stmt, leader: false }] as const] : []),
        ...inOwn(stmt, blocks),
      ];
    case "mbar.arrive":
      return [...otherGroups(stmt), ...inOwn(stmt, blocks)];
    case "tcgen05.commit":
      return inOwn(stmt, blocks);
    case "wgmma.wait":
      return [["for one group less", { ...stmt, pending: stmt.pending + 1 }]];
    case "copy":
      return intoRing(program, stmt)
        ? [
            ["half of it", { ...stmt, dst: half(stmt.dst), src: half(stmt.src) }],
            ...(stmt.multicast === null
              ? []
              : [["without multicast", { ...stmt, multicast: null }] as const]),
          ]
        : [];
    default:
      return [];
  }
}

type Telling = Extract<MachineStmt, { readonly kind: "mbar.expect" | "mbar.arrive" | "tcgen05.commit" }>;

const inOwn = (stmt: Telling, blocks: number): readonly (readonly [string, Stmt])[] =>
  stmt.to === "own" || blocks === 1 ? [] : [["in its own block only", { ...stmt, to: "own" }]];

const otherGroups = (
  stmt: Extract<MachineStmt, { readonly kind: "mbar.arrive" }>,
): readonly (readonly [string, Stmt])[] =>
  stmt.by === "warp" || stmt.by === "warpgroup" ? [["by each thread", { ...stmt, by: "thread" }]] : [];

/** The slot of a view as that of another pipeline of the role. */
function otherSlot(role: readonly Stmt[], stmt: Stmt): readonly (readonly [string, Stmt])[] {
  const names = [
    ...new Set(eachStmt(role).flatMap((s) => (s.kind === "pipeline" || s.kind === "hold" ? [s.name] : []))),
  ];
  const moved = (view: View): View | null => {
    const { slot } = view;
    const other = slot.kind === "var" ? names.find((name) => name !== slot.name) : undefined;
    return other === undefined ? null : { ...view, slot: v(other) };
  };
  if (stmt.kind === "mma") {
    const a = moved(stmt.a);
    return a === null ? [] : [["with A of another slot", { ...stmt, a }]];
  }
  return [];
}

/** Faults in the statements, edges and roles of a program. */
export function programFaults(program: TileProgram): readonly Fault<TileProgram>[] {
  const out: Fault<TileProgram>[] = [];
  const put = (name: string, it: TileProgram): void => void out.push({ name, it });
  const seen = new Map<string, number>();
  const roles = new Map(
    eachStmt(program.body).flatMap((s) => (s.kind === "role" ? [[s.name, s.body] as const] : [])),
  );
  for (const [role, stmt] of protocol(program)) {
    const what = `${role}: ${labelOf(stmt)}`;
    const n = (seen.get(what) ?? 0) + 1;
    seen.set(what, n);
    const name = n > 1 ? `${what} (${n})` : what;
    for (const [how, it] of movedFaults(program, stmt, idempotent)) put(`${name}, ${how}`, it);
    for (const [how, to] of [...changesOf(program, stmt), ...otherSlot(roles.get(role) ?? [], stmt)])
      put(
        `${name}, ${how}`,
        withStmt(program, stmt, (list, i) => list.with(i, to)),
      );
  }
  for (const [name, it] of frameFaults(program, (stmt) => stmt.kind === "advance")) put(name, it);
  return out.filter(({ it }) => JSON.stringify(it) !== JSON.stringify(program));
}

/** A program with another ring in the place of one. */
export const withRing = (program: TileProgram, ring: Ring, change: Partial<Ring>): TileProgram => ({
  ...program,
  rings: program.rings.map((each) => (each === ring ? { ...ring, ...change } : each)),
});

/** Counts of edges, loops over chunks and roles that are off by one; `counts`: whether a statement goes on by a chunk. */
export function* frameFaults(
  program: TileProgram,
  counts: (stmt: Stmt) => boolean,
): Iterable<readonly [name: string, it: TileProgram]> {
  for (const ring of program.rings)
    for (const edge of ["full", "empty"] as const) {
      const now = ring[edge];
      if (now?.kind !== "mbarrier") continue;
      for (const more of [1, -1])
        yield [
          `%${ring.name} ${edge} edge of ${now.arrivals + more} arrivals`,
          withRing(program, ring, { [edge]: { ...now, arrivals: now.arrivals + more } }),
        ];
    }
  for (const role of eachStmt(program.body)) {
    if (role.kind !== "role") continue;
    const loops = eachStmt(role.body).filter((s) => s.kind === "for");
    for (const [n, loop] of loops.entries()) {
      if (loop.kind !== "for" || loop.to.kind !== "const" || !eachStmt(loop.body).some(counts)) continue;
      const { value } = loop.to;
      yield [
        `${role.name}: loop ${n} ends a chunk early`,
        withStmt(program, loop, (list, i) => list.with(i, { ...loop, to: lit(value - 1) })),
      ];
    }
    yield [
      `${role.name}: a warp more`,
      withStmt(program, role, (list, i) => list.with(i, { ...role, warps: role.warps + 1 })),
    ];
  }
}

/** Twice is as good as once. */
const idempotent: ReadonlySet<Stmt["kind"]> = new Set<Stmt["kind"]>([
  "pipeline",
  "hold",
  "mbar.wait",
  "fence",
  "warp.sync",
  "wgmma.fence",
  "wgmma.commit",
  "wgmma.wait",
  "barrier",
  "next",
]);

/** Faults of a program, how many rules they break between them, and which of them nothing reports. */
export interface Planted {
  readonly count: number;
  /** Numbers of the rules that reported one or more. */
  readonly rules: readonly number[];
  readonly unseen: readonly string[];
}

/** Plant every fault in a program that has none. The verifiers, which every compilation runs, may report it as well. */
export function plant(program: TileProgram, target: Target): Planted {
  const rules = new Set<number>();
  const unseen: string[] = [];
  const list = programFaults(program);
  for (const { name, it } of list) {
    const codes = proveProtocol(it, target).map(({ code }) => code);
    for (const code of codes) rules.add(Number(code.slice(4)) - 40);
    if (codes.length === 0 && verifyProgram(it, target).length === 0) unseen.push(name);
  }
  return { count: list.length, rules: [...rules].sort((x, y) => x - y), unseen };
}
