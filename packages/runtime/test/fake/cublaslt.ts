/** cuBLASLt without a GPU, for tests: keeps the rules of its objects, records calls, and runs products on a fake driver's clock. */
import { err, ok } from "@tilewright/core";
import { algoBytes, descAttribute } from "../../src/cublaslt/enums.ts";
import type { CublasAlgorithm, CublasLt, CublasResult, MatmulCall } from "../../src/cublaslt/library.ts";

export interface FakeCublasOptions {
  /** 130000 (13.0) unless given. */
  readonly version?: number;
  /** How many algorithms the heuristic knows; 3 unless given. */
  readonly algorithms?: number;
  /** What a product does: queue work on a fake driver, write D. A status fails the call. `algorithm`: its number. */
  readonly run?: (call: MatmulCall, algorithm: number, state: FakeMatmul) => number | undefined;
  /** Functions that fail with this status. */
  readonly failing?: Readonly<Partial<Record<keyof CublasLt, number>>>;
}

/** What the objects of a product were made with. */
interface FakeMatmul {
  readonly compute: number;
  readonly scale: number;
  /** By number. */
  readonly attributes: ReadonlyMap<number, Uint8Array>;
  readonly a: FakeLayout;
  readonly b: FakeLayout;
  readonly c: FakeLayout;
  readonly d: FakeLayout;
}

interface FakeLayout {
  readonly type: number;
  readonly rows: number;
  readonly columns: number;
  readonly ld: number;
  readonly attributes: Map<number, Uint8Array>;
}

interface Desc {
  readonly compute: number;
  readonly scale: number;
  readonly attributes: Map<number, Uint8Array>;
}
type Thing =
  | { readonly kind: "handle" }
  | { readonly kind: "desc"; readonly desc: Desc }
  | { readonly kind: "layout"; readonly layout: FakeLayout }
  | { readonly kind: "preference"; readonly attributes: Map<number, Uint8Array> };

const invalidValue = 7;

export class FakeCublasLt implements CublasLt {
  readonly library = "fake";
  /** Every call in order. */
  readonly calls: { readonly name: string; readonly args: readonly unknown[] }[] = [];
  readonly #options: FakeCublasOptions;
  readonly #things = new Map<bigint, Thing>();
  #next = 0x10n;

  constructor(options: FakeCublasOptions = {}) {
    this.#options = options;
  }

  /** Objects that were never destroyed. */
  alive(): readonly string[] {
    return [...this.#things.values()].map(({ kind }) => kind);
  }

  version = () => this.#options.version ?? 130_000;
  create = () => this.#make("create", [], { kind: "handle" });
  destroy = (of: bigint) => this.#drop("destroy", "handle", of);
  descCreate = (compute: number, scale: number) =>
    this.#make("descCreate", [compute, scale], {
      kind: "desc",
      desc: { compute, scale, attributes: new Map() },
    });
  descSet = (of: bigint, attribute: number, value: Uint8Array) =>
    this.#set("descSet", of, attribute, value, (thing) =>
      thing.kind === "desc" ? thing.desc.attributes : null,
    );
  descDestroy = (of: bigint) => this.#drop("descDestroy", "desc", of);
  layoutCreate = (type: number, rows: number, columns: number, ld: number) =>
    this.#answer("layoutCreate", [type, rows, columns, ld], () => {
      if (rows < 1 || columns < 1 || ld < rows) return err(invalidValue);
      return ok(this.#enter({ kind: "layout", layout: { type, rows, columns, ld, attributes: new Map() } }));
    });
  layoutSet = (of: bigint, attribute: number, value: Uint8Array) =>
    this.#set("layoutSet", of, attribute, value, (thing) =>
      thing.kind === "layout" ? thing.layout.attributes : null,
    );
  layoutDestroy = (of: bigint) => this.#drop("layoutDestroy", "layout", of);
  preferenceCreate = () => this.#make("preferenceCreate", [], { kind: "preference", attributes: new Map() });
  preferenceSet = (of: bigint, attribute: number, value: Uint8Array) =>
    this.#set("preferenceSet", of, attribute, value, (thing) =>
      thing.kind === "preference" ? thing.attributes : null,
    );
  preferenceDestroy = (of: bigint) => this.#drop("preferenceDestroy", "preference", of);

  heuristic: CublasLt["heuristic"] = (handle, desc, layouts, preference, count) =>
    this.#answer("heuristic", [count], () => {
      const wanted = [handle, desc, layouts.a, layouts.b, layouts.c, layouts.d, preference];
      if (wanted.some((of) => !this.#things.has(of))) return err(invalidValue);
      const known = Math.min(count, this.#options.algorithms ?? 3);
      return ok(
        Array.from({ length: known }, (_, index): CublasAlgorithm => {
          const bytes = new Uint8Array(algoBytes);
          bytes[0] = index;
          return { bytes, workspaceBytes: 0, waves: 1 };
        }),
      );
    });
  algorithmConfig = (algorithm: Uint8Array, attribute: number) =>
    attribute === 0 ? 60 + (algorithm[0] ?? 0) : 1;

  matmul(call: MatmulCall): CublasResult<true> {
    return this.#answer("matmul", [call], () => {
      const layout = (of: bigint): FakeLayout | null => {
        const thing = this.#things.get(of);
        return thing?.kind === "layout" ? thing.layout : null;
      };
      const desc = this.#things.get(call.desc);
      const [a, b, c, d] = [call.aLayout, call.bLayout, call.cLayout, call.dLayout].map(layout);
      if (desc?.kind !== "desc" || !a || !b || !c || !d || !shapesFit(desc.desc, a, b, d))
        return err(invalidValue);
      const state = { ...desc.desc, a, b, c, d };
      const status = this.#options.run?.(call, call.algorithm[0] ?? 0, state) ?? 0;
      return status === 0 ? ok(true as const) : err(status);
    });
  }

  #answer<T>(name: keyof CublasLt, args: readonly unknown[], run: () => CublasResult<T>): CublasResult<T> {
    this.calls.push({ name, args });
    const status = this.#options.failing?.[name];
    return status === undefined ? run() : err(status);
  }

  #enter(thing: Thing): bigint {
    const of = this.#next++;
    this.#things.set(of, thing);
    return of;
  }

  #make(name: keyof CublasLt, args: readonly unknown[], thing: Thing): CublasResult<bigint> {
    return this.#answer(name, args, () => ok(this.#enter(thing)));
  }

  #drop(name: keyof CublasLt, kind: Thing["kind"], of: bigint): CublasResult<true> {
    return this.#answer(name, [of], () => {
      if (this.#things.get(of)?.kind !== kind) return err(invalidValue);
      this.#things.delete(of);
      return ok(true as const);
    });
  }

  #set(
    name: keyof CublasLt,
    of: bigint,
    attribute: number,
    value: Uint8Array,
    attributesOf: (thing: Thing) => Map<number, Uint8Array> | null,
  ): CublasResult<true> {
    return this.#answer(name, [attribute, value.slice()], () => {
      const thing = this.#things.get(of);
      const attributes = thing === undefined ? null : attributesOf(thing);
      if (attributes === null) return err(invalidValue);
      attributes.set(attribute, value.slice());
      return ok(true as const);
    });
  }
}

/** op(A) is m x k, op(B) is k x n, D is m x n, all column-major: what the real library refuses otherwise. */
function shapesFit(desc: Desc, a: FakeLayout, b: FakeLayout, d: FakeLayout): boolean {
  const transposed = (attribute: number): boolean => desc.attributes.get(attribute)?.[0] === 1;
  const [m, ka] = transposed(descAttribute.transA) ? [a.columns, a.rows] : [a.rows, a.columns];
  const [kb, n] = transposed(descAttribute.transB) ? [b.columns, b.rows] : [b.rows, b.columns];
  return ka === kb && d.rows === m && d.columns === n;
}
