/**
 * Recorded instructions. Code is made out of order (a copy in the main loop needs an address computed in the prologue),
 * so lowering fills nested lists and replays them in program order into the PTX builder at the end.
 */
import type { SourceLocation } from "@tilewright/core";
import {
  type EntryBuilder,
  type LabelRef,
  makeInstruction,
  type Operand,
  type OperandsOf,
  type Reg,
} from "@tilewright/ptx";

export type { Reg };
export type Pred = Reg<"pred">;

type Item =
  | {
      readonly kind: "instruction";
      readonly guard: Pred | null;
      readonly mnemonic: string;
      readonly operands: readonly Operand[];
      readonly location: SourceLocation | null;
    }
  | { readonly kind: "label"; readonly label: LabelRef }
  | { readonly kind: "comment"; readonly text: string }
  | { readonly kind: "nested"; readonly code: Code };

/** The statement that is being lowered: its place in the program's text, null where that is not known. Shared by all lists of a kernel. */
export interface Origin {
  location: SourceLocation | null;
}

export class Code {
  readonly origin: Origin;
  readonly #items: Item[] = [];

  constructor(origin: Origin = { location: null }) {
    this.origin = origin;
  }

  /** Append an instruction; `guard` null runs it always. */
  emit<const M extends string>(guard: Pred | null, mnemonic: M, ...operands: OperandsOf<M>): void {
    this.emitAny(guard, mnemonic, operands as readonly unknown[] as readonly Operand[]);
  }

  /** The same for mnemonics that are put together at run time; the table checks them when they are replayed. */
  emitAny(guard: Pred | null, mnemonic: string, operands: readonly Operand[]): void {
    const { location } = this.origin;
    this.#items.push({ kind: "instruction", guard, mnemonic, operands, location });
  }

  label(label: LabelRef): void {
    this.#items.push({ kind: "label", label });
  }

  comment(text: string): void {
    this.#items.push({ kind: "comment", text });
  }

  /** A list that stands here and is filled later. */
  nest(): Code {
    const code = new Code(this.origin);
    this.#items.push({ kind: "nested", code });
    return code;
  }

  /** Code that was recorded elsewhere, to stand here. */
  adopt(code: Code): void {
    this.#items.push({ kind: "nested", code });
  }

  replay(entry: EntryBuilder): void {
    for (const item of this.#items) {
      switch (item.kind) {
        case "instruction":
          entry.append(
            makeInstruction(
              item.mnemonic,
              item.operands,
              item.guard && { register: item.guard, negated: false },
              item.location,
            ),
          );
          break;
        case "label":
          entry.place(item.label);
          break;
        case "comment":
          entry.comment(item.text);
          break;
        case "nested":
          item.code.replay(entry);
          break;
        default:
          item satisfies never;
      }
    }
  }
}
