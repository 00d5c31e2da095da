/** What a loaded image is: PTX text with its header and entries, or machine code. */
import { type Checked, didYouMean, ok } from "@tilewright/core";
import { fail } from "./diagnostics.ts";
import { type ParamInfo, type PtxHeader, readEntries, readPtxHeader } from "./ptx-header.ts";

export type Image =
  | {
      readonly kind: "ptx";
      readonly text: string;
      readonly header: PtxHeader;
      readonly entries: ReadonlyMap<string, readonly ParamInfo[] | null>;
    }
  /** A cubin (ELF) or a fat binary: nothing is known of it but its bytes. */
  | { readonly kind: "binary"; readonly bytes: Uint8Array };

/** First four bytes: ELF, and nvcc's fat binary (0xBA55ED50, little-endian). */
const magics: readonly (readonly number[])[] = [
  [0x7f, 0x45, 0x4c, 0x46],
  [0x50, 0xed, 0x55, 0xba],
];

/** Recognise an image; a text without `.version` and `.target` is refused. */
export function readImage(image: string | Uint8Array): Checked<Image> {
  if (image instanceof Uint8Array) {
    if (magics.some((magic) => magic.every((byte, index) => image[index] === byte))) {
      return ok({ kind: "binary", bytes: image });
    }
  }
  // A file made for the driver may carry its closing NUL along.
  const text = (typeof image === "string" ? image : new TextDecoder().decode(image)).replace(/\0+$/, "");
  const header = readPtxHeader(text);
  if (header === null) {
    return fail(
      "image",
      "device.load",
      "the image is neither PTX text nor a cubin",
      "PTX has a .version and a .target line; a cubin starts with the bytes 7f 45 4c 46",
    );
  }
  return ok({ kind: "ptx", text, header, entries: readEntries(text) });
}

/** The refusal for an entry that a PTX text lacks; names those it has. */
export function noEntry(entry: string, known: Iterable<string>) {
  const names = [...known];
  return fail(
    "entry",
    "module.kernel",
    `the module has no entry ${entry}`,
    names.length === 0
      ? "the text has no .entry at all"
      : didYouMean(entry, names, `it has ${names.join(", ")}`),
  );
}
