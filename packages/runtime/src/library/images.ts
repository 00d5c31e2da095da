/** Which image of an artefact a GPU takes. */
import type { LibraryDevice, ManifestImage } from "@tilewright/core";
import { type ComputeCapability, parseArch, unfitReason } from "../arch.ts";

/** Which GPUs an image runs on: a cubin stays within its major version. Throws (a bug) for an architecture that is none. */
export function imageDevice({ arch, format }: Pick<ManifestImage, "arch" | "format">): LibraryDevice {
  const parsed = parseArch(arch);
  if (parsed === null) throw new TypeError(`not an architecture: ${arch}`);
  const [major, minor] = parsed.cc;
  const rule = format === "cubin" && parsed.portability === "portable" ? "family" : parsed.portability;
  return { rule, major, minor };
}

/** Images in the order in which they are tried: cubins of the latest GPU first, PTX last. */
export const imagesInOrder = (images: readonly ManifestImage[]): readonly ManifestImage[] =>
  [...images].sort((a, b) =>
    a.format !== b.format ? (a.format === "cubin" ? -1 : 1) : a.arch < b.arch ? 1 : a.arch > b.arch ? -1 : 0,
  );

/** Path of an image, relative to the library's folder: it lies beside its manifest. */
export const imagePath = (manifest: string, image: ManifestImage): string =>
  [...manifest.split("/").slice(0, -1), image.path].join("/");

/** Whether a GPU runs what is made for `device`. */
export const runsFor = ({ rule, major, minor }: LibraryDevice, capability: ComputeCapability): boolean =>
  unfitReason({ cc: [major, minor], portability: rule }, capability) === null;
