/** Runs examples in TypeScript one after another: those on standard input, and prints how each ended, as JSON. */
import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { inspect } from "node:util";

/** What an example has printed, and the error that it ended with. */
export interface ExampleEnd {
  readonly said: string;
  readonly error: string | null;
}

const examples: readonly { readonly folder: string; readonly text: string }[] = JSON.parse(
  readFileSync(0, "utf8"),
);

/** By the address at which each stands: in the folder of its page, so that it finds what a program there would. */
const texts = new Map(
  examples.map(({ folder, text }, i) => [pathToFileURL(join(folder, `example-${i}.ts`)).href, text]),
);

registerHooks({
  resolve: (specifier, context, next) =>
    texts.has(specifier) ? { url: specifier, shortCircuit: true } : next(specifier, context),
  load(url, context, next) {
    const source = texts.get(url);
    return source === undefined
      ? next(url, context)
      : { format: "module-typescript", source, shortCircuit: true };
  },
});

const ends: ExampleEnd[] = [];
const streams = [process.stdout, process.stderr];
const writes = streams.map(({ write }) => write);
for (const url of texts.keys()) {
  let said = "";
  for (const stream of streams)
    stream.write = (data: string | Uint8Array): boolean => {
      said += String(data);
      return true;
    };
  const error = await import(url).then(
    () => null,
    (thrown: unknown) => inspect(thrown),
  );
  ends.push({ said, error });
}
for (const [i, stream] of streams.entries()) stream.write = writes[i] ?? stream.write;
console.log(JSON.stringify(ends));
