/** A kernel library between compiling and writing: what the index, the dispatch table and the launchers are made of. */
import type {
  CallerTensor,
  Constraint,
  LibraryDevice,
  LibraryIndex,
  Manifest,
  ManifestTensor,
  Problem,
  Target,
} from "@tilewright/core";
import { libraryIndexSchemaId } from "@tilewright/core";
import type { choiceData } from "../tuned/choice.ts";
import { version } from "../version.ts";

/** One artefact of a library: its manifest as it is written, and where. */
export interface LibraryArtefact {
  readonly manifest: Manifest;
  /** Where its schedule is from. */
  readonly choice: ReturnType<typeof choiceData>;
  /** Path of the manifest, relative to the library's folder; its images lie beside it. */
  readonly path: string;
  readonly sha256: string;
  readonly device: LibraryDevice;
}

/** One function of a library. */
export interface LibraryOperation {
  readonly name: string;
  /** The problem of its first kernel: dtypes, layouts and epilogue are those of all. */
  readonly problem: Problem;
  /** Of attention: its tensors in place of a problem's operands, as its first kernel has them; all have their dtypes and axes. */
  readonly tensors?: readonly CallerTensor[];
  /** Numbers of artefacts, best first. */
  readonly dispatch: readonly number[];
}

export interface Library {
  readonly name: string;
  readonly artefacts: readonly LibraryArtefact[];
  readonly operations: readonly LibraryOperation[];
}

/** What a kernel was made for: `m x n x k`, or the tensors of attention by their extents. */
export function sizesText({ request: { m, n, k }, tensors }: Manifest): string {
  const inputs = tensors?.filter(({ operand }) => operand !== "d");
  const extents = ({ axes }: ManifestTensor) => axes.map(({ extent }) => extent).join("x");
  return inputs?.map((each) => `${each.name} ${extents(each)}`).join(", ") ?? `${m} x ${n} x ${k}`;
}

export const deviceOf = ({ portability, major, minor }: Target): LibraryDevice => ({
  rule: portability,
  major,
  minor,
});

/** Dimensions that one of the constraints fixes to a number: an artefact that fixes more is the better one where it fits. */
const fixedDimensions = (constraints: readonly Constraint[]): number =>
  constraints.filter(
    ([op, left, right]) => op === "eq" && /^[mnk]$/.test(String(left)) && typeof right === "number",
  ).length;

const ruleOrder: Readonly<Record<LibraryDevice["rule"], number>> = { arch: 0, family: 1, portable: 2 };

/** Best first: made for the later GPU, for this GPU only, for these sizes only; else in the order of the request. */
export function dispatchOrder(
  artefacts: readonly LibraryArtefact[],
  numbers: readonly number[],
): readonly number[] {
  const keyOf = (number: number): readonly number[] => {
    const artefact = artefacts[number];
    if (artefact === undefined) throw new RangeError(`there is no artefact ${number}`);
    const { device, manifest } = artefact;
    return [
      -(device.major * 100 + device.minor),
      ruleOrder[device.rule],
      -fixedDimensions(manifest.constraints),
      number,
    ];
  };
  return [...numbers].sort((one, two) => {
    const [a, b] = [keyOf(one), keyOf(two)];
    const at = a.findIndex((value, i) => value !== b[i]);
    return at < 0 ? 0 : (a[at] ?? 0) - (b[at] ?? 0);
  });
}

/** What `index.json` says. */
export const indexOf = (library: Library): LibraryIndex => ({
  $schema: libraryIndexSchemaId,
  schemaVersion: 1,
  name: library.name,
  generator: { name: "tilewright", version },
  artefacts: library.artefacts.map(({ manifest, path, sha256, device }) => ({
    id: manifest.id,
    manifest: path,
    sha256,
    arch: manifest.target.arch,
    device,
    constraints: [...manifest.constraints],
  })),
  operations: library.operations.map(({ name, dispatch }) => ({ name, dispatch: [...dispatch] })),
});
