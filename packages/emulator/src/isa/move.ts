/** Data movement between registers, and addresses: PTX ISA 9.0, chapter 9.7.9. */
import type { LaneEmitter } from "../compile/emitter.ts";
import type { Operand, Operation } from "../load/types.ts";
import { globalTag, localTag, paramTag, sharedTag } from "../memory/arena.ts";
import { binary, bitsOf, type Decoder, lane, type Row, registersOf, type Table, unary } from "./row.ts";

/** The elements of {a, b, ...} joined into words, lowest element first. */
function pack(e: LaneEmitter, elements: readonly Operand[], bits: number): readonly string[] {
  const each = bits / elements.length;
  if (each === 32) return elements.map((x) => e.int(x));
  const perWord = 32 / each;
  const words: string[] = [];
  for (let w = 0; w < elements.length; w += perWord) {
    const parts = elements.slice(w, w + perWord).map((x, k) => {
      const value = e.narrow(x, each, false);
      return k === 0 ? value : `(${value}<<${k * each})`;
    });
    words.push(`(${parts.join("|")})`);
  }
  return words;
}

/** Between 128-bit registers (four words) and pairs of 64-bit ones. */
function mov128(d: Decoder, to: Operand, from: Operand): Operation {
  if (to.kind !== "vector" || from.kind !== "vector") return d.refuse("an operand has to be 128 bits wide");
  const [target, source] = [to.elements, from.elements];
  return lane((e) => {
    const words = source.length === 4 ? source.map((x) => e.int(x)) : source.flatMap((x) => e.pair(x));
    // Read all before anything is written: the two may share registers.
    const names = words.map(() => e.temporary());
    const head = `const ${words.map((w, k) => `${names[k]}=${w}`).join(",")};`;
    const name = (k: number): string => names[k] ?? "0";
    const stores = target.map((x, k) =>
      target.length === 4 ? e.setInt(x, name(k)) : e.setPair(x, name(2 * k), name(2 * k + 1)),
    );
    return head + stores.join("");
  });
}

const mov: Row = (d) => {
  const type = d.type();
  const bits = bitsOf(type);
  const to = d.def(0);
  const from = type === "pred" ? d.predicate(1) : d.use(1);
  if (type === "b128") return mov128(d, to, from);
  if (to.kind === "vector") {
    const each = bits / to.elements.length;
    const emit = (e: LaneEmitter): string => {
      const words = bits === 64 ? e.pair(from) : [e.int(from)];
      const names = words.map(() => e.temporary());
      const head = `const ${words.map((w, k) => `${names[k]}=${w}`).join(",")};`;
      const stores = to.elements.map((x, k) => {
        const word = names[Math.floor((k * each) / 32)] ?? "0";
        const shift = (k * each) % 32;
        return each === 32
          ? e.setInt(x, word)
          : e.setNarrow(x, each, shift === 0 ? word : `${word}>>>${shift}`);
      });
      return head + stores.join("");
    };
    const upper = 255 ^ (2 ** (each / 8) - 1);
    // The sink `_` is no register, and none of the instruction's results.
    const places = to.elements.flatMap((x, k) => (x.kind === "register" ? [k] : []));
    return {
      ...{ kind: "lane", emit },
      defined: (e) => places.map((k) => `(${e.defined(from)}>>${(k * each) / 8})|${upper}`),
    };
  }
  if (from.kind === "vector") {
    const each = bits / from.elements.length;
    const emit = (e: LaneEmitter): string => {
      const words = pack(e, from.elements, bits);
      return bits === 64 ? e.setPair(to, words[0] ?? "0", words[1] ?? "0") : e.setInt(to, words[0] ?? "0");
    };
    const defined = (e: LaneEmitter): string =>
      `${255 ^ (2 ** (bits / 8) - 1)}|${from.elements.map((x, k) => `((${e.defined(x)}&${2 ** (each / 8) - 1})<<${(k * each) / 8})`).join("|")}`;
    return { kind: "lane", emit, defined };
  }
  d.link(to, from);
  const defined = (e: LaneEmitter): string => e.defined(from);
  if (bits === 64) return { kind: "lane", emit: (e) => e.copy64(to, from), defined };
  const emit = (e: LaneEmitter): string => e.copy32(to, from, bits === 1 ? 32 : bits);
  return { kind: "lane", emit, defined, ...(bits === 32 ? { vector: { op: "mov", to, from: [from] } } : {}) };
};

const tags = {
  global: globalTag,
  const: globalTag,
  shared: sharedTag,
  "shared::cta": sharedTag,
  "shared::cluster": sharedTag,
  local: localTag,
  param: paramTag,
  "param::entry": paramTag,
} as const;
const windows = Object.keys(tags) as readonly (keyof typeof tags)[];

/**
 * Generic addresses carry their window in the high word; global and const addresses are generic already. A conversion of
 * zero (a null pointer) stays zero in either direction.
 */
const cvta = (d: Decoder, toSpace: boolean): Operation => {
  const space = d.choice(...windows);
  const [to, from] = unary(d);
  const tag: number = tags[space];
  if (tag === globalTag) {
    d.link(to, from);
    return lane((e) => e.copy64(to, from));
  }
  if (!toSpace) return lane((e) => e.setPair(to, e.pair(from)[0], String(tag)));
  return lane((e) => {
    const [low, high] = e.pair(from);
    const a = e.temporary();
    const b = e.temporary();
    return `const ${a}=${low},${b}=${high};if(${b}!==${tag})wrongWindow(w,l,${e.instruction.index},${a},${b},"${space}");${e.setPair(to, a, "0")}`;
  });
};

const isspacep: Row = (d) => {
  const space = d.choice(...windows);
  const [to, from] = unary(d);
  return lane((e) => {
    const [low, high] = e.pair(from);
    if (space === "shared" || space === "shared::cta")
      return e.setInt(to, `${high}===${sharedTag}&&(${low}>>>24)===(ab>>>24)?1:0`);
    return e.setInt(to, `${high}===${tags[space]}?1:0`);
  });
};

/** mapa: the shared address of the same variable in another block of the cluster. */
const mapa: Row = (d) => {
  const space = d.option("shared::cluster");
  d.type();
  const [to, from, rank] = binary(d);
  return lane((e) => {
    const [low, high] = e.pair(from);
    const value = `(${low}&16777215)|(${e.int(rank)}<<24)`;
    const wide = registersOf(to)[0]?.bits === 64;
    return wide ? e.setPair(to, value, space === null ? high : "0") : e.setInt(to, value);
  });
};

const getctarank: Row = (d) => {
  d.option("shared::cluster");
  d.type();
  const [to, from] = unary(d);
  return lane((e) => e.setInt(to, `${e.pair(from)[0]}>>>24`));
};

export const moveTable: Table = {
  mov,
  cvta: (d) => cvta(d, false),
  "cvta.to": (d) => cvta(d, true),
  isspacep,
  mapa,
  getctarank,
};
