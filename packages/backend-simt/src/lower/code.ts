/**
 * Recorded instructions. Code is made out of order (a copy in the main loop needs an address computed in the prologue),
 * so lowering fills nested lists and replays them in program order into the PTX builder at the end.
 */
import type { EntryBuilder, Operand, RegisterOperand, ScalarType } from "@tilewright/ptx";

export type Reg<T extends ScalarType = ScalarType> = RegisterOperand<T>;
export type Pred = Reg<"pred">;

type Item =
  | {
      readonly kind: "instruction";
      readonly guard: Pred | null;
      readonly mnemonic: string;
      readonly operands: readonly Operand[];
    }
  | { readonly kind: "label"; readonly name: string }
  | { readonly kind: "comment"; readonly text: string }
  | { readonly kind: "nested"; readonly code: Code };

export class Code {
  readonly #items: Item[] = [];

  /** Append an instruction; `guard` null runs it always. */
  emit(guard: Pred | null, mnemonic: string, ...operands: Operand[]): void {
    this.#items.push({ kind: "instruction", guard, mnemonic, operands });
  }

  label(name: string): void {
    this.#items.push({ kind: "label", name });
  }

  comment(text: string): void {
    this.#items.push({ kind: "comment", text });
  }

  /** A list that stands here and is filled later. */
  nest(): Code {
    const code = new Code();
    this.#items.push({ kind: "nested", code });
    return code;
  }

  replay(entry: EntryBuilder): void {
    for (const item of this.#items) {
      switch (item.kind) {
        case "instruction":
          entry.append(item.guard, item.mnemonic, item.operands);
          break;
        case "label":
          entry.place(item.name);
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
