import { createHash } from "node:crypto";
import fc from "fast-check";
import { expect, it } from "vitest";
import { sha256 } from "../src/index.ts";

// FIPS 180-4 examples.
it.each([
  ["", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"],
  ["abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"],
  [
    "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
    "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
  ],
])("sha256(%j)", (text, hash) => {
  expect(sha256(text)).toBe(hash);
});

it("agrees with node:crypto on any text and bytes", () => {
  const node = (data: string | Uint8Array) => createHash("sha256").update(data).digest("hex");
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 200 }), (text) => {
      expect(sha256(text)).toBe(node(text));
    }),
  );
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (data) => {
      expect(sha256(data)).toBe(node(data));
    }),
  );
  const long = "tilewright ".repeat(20_000);
  expect(sha256(long)).toBe(node(long));
  expect(sha256("\ud800x")).toBe(node("\ud800x"));
});
