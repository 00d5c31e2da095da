/** ZIP archives (PKWARE APPNOTE 6.3.3): deflated files, no ZIP64, the same bytes for the same files. */
import { deflateRawSync } from "node:zlib";
import type { OutputFile } from "./atomic.ts";

const crcTable = Uint32Array.from({ length: 256 }, (_, byte) =>
  Array.from({ length: 8 }).reduce<number>((c) => (c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1), byte),
);

/** CRC-32 of ISO 3309, as ZIP has it. */
export const crc32 = (bytes: Uint8Array): number =>
  ~bytes.reduce((crc, byte) => (crcTable[(crc ^ byte) & 0xff] ?? 0) ^ (crc >>> 8), -1) >>> 0;

/** Version 2.0, names in UTF-8, deflate, and 1 January 1980, the first day that there is. */
const common = [20, 0x0800, 8, 0, 0x21] as const;
/** Made on Unix (3), where the file's mode stands in the upper half of the attributes: a plain file, 0644. */
const madeBy = (3 << 8) | 20;
const mode = 0o100644 << 16;

/** Little-endian numbers, each in its width in bytes. */
function record(...fields: readonly (readonly [width: 2 | 4, value: number])[]): Buffer {
  const made = Buffer.alloc(fields.reduce((sum, [width]) => sum + width, 0));
  let at = 0;
  for (const [width, value] of fields) at = made.writeUIntLE(value >>> 0, at, width);
  return made;
}
const shorts = (...values: readonly number[]) => values.map((value) => [2, value] as const);
const longs = (...values: readonly number[]) => values.map((value) => [4, value] as const);

/** An archive of files, in their order; paths with `/`. */
export function zipOf(files: readonly OutputFile[]): Uint8Array {
  const bodies: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const { path, data } of files) {
    const [name, bytes] = [Buffer.from(path), typeof data === "string" ? Buffer.from(data) : data];
    const packed = deflateRawSync(bytes, { level: 9 });
    const facts = [
      ...shorts(...common),
      ...longs(crc32(bytes), packed.length, bytes.length),
      ...shorts(name.length, 0),
    ];
    const body = [record(...longs(0x04034b50), ...facts), name, packed];
    directory.push(
      record(...longs(0x02014b50), ...shorts(madeBy), ...facts, ...shorts(0, 0, 0), ...longs(mode, offset)),
      name,
    );
    bodies.push(...body);
    offset += body.reduce((sum, { length }) => sum + length, 0);
  }
  const central = Buffer.concat(directory);
  const end = record(
    ...longs(0x06054b50),
    ...shorts(0, 0, files.length, files.length),
    ...longs(central.length, offset),
    ...shorts(0),
  );
  return Buffer.concat([...bodies, central, end]);
}
