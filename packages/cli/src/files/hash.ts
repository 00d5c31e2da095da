/** Hashes of what is written. */
import { createHash } from "node:crypto";

/** Hexadecimal SHA-256 of bytes, or of the UTF-8 bytes of a text. */
export const sha256 = (data: string | Uint8Array): string => createHash("sha256").update(data).digest("hex");
