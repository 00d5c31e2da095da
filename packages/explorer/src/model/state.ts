/** What the page shows, as one value: all of it fits into a permalink. */

/** The program after a pass, or the PTX, as somebody edited it. */
export interface Edit {
  /** Name of the pass, or `ptx`. */
  readonly step: string;
  readonly text: string;
}

export const tabs = ["stages", "choices", "run", "pictures", "ladders", "foreign"] as const;
export type Tab = (typeof tabs)[number];

export interface State {
  readonly arch: string;
  /** Name of a GPU; empty: the first of the architecture. */
  readonly gpu: string;
  /** Id of a backend; empty: the compiler's choice. */
  readonly backend: string;
  /** Schedule text; empty: the compiler's choice. */
  readonly schedule: string;
  /** A problem request, as `tilewright schema problem` has it. */
  readonly problem: Readonly<Record<string, unknown>>;
  readonly edit: Edit | null;
  readonly tab: Tab;
  /** The pass whose program is shown, or `ptx`; empty: the last one. */
  readonly step: string;
  /** Name of the ladder that is shown; empty: the first, or of attention its own. */
  readonly ladder: string;
  /** Number of its step, from 1; empty: the first. */
  readonly rung: string;
  /** `no`: an edit that the proof refuses is not compiled. */
  readonly unproven: "yes" | "no";
}

/** Of a page without a hash. */
export const initialState: State = {
  arch: "sm_90a",
  gpu: "",
  backend: "",
  schedule: "",
  problem: { m: 256, n: 256, k: 256, dtype: "bf16", b: { layout: "col" } },
  edit: null,
  tab: "stages",
  step: "",
  ladder: "",
  rung: "",
  unproven: "yes",
};

const plain = ["arch", "gpu", "backend", "schedule", "tab", "step", "ladder", "rung", "unproven"] as const;

const toBase64 = (bytes: Uint8Array): string => {
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192)
    text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
};

const fromBase64 = (text: string): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));

async function through(
  bytes: Uint8Array<ArrayBuffer>,
  stream: GenericTransformStream,
): Promise<Uint8Array<ArrayBuffer>> {
  const piped = new Blob([bytes]).stream().pipeThrough(stream);
  return new Uint8Array(await new Response(piped).arrayBuffer());
}

/**
 * The state as the hash of an address: `arch=sm_90a&m=256&dtype=bf16&b={"layout":"col"}`, what is as at the beginning left out; the text of an edit
 * is compressed.
 */
export async function toHash(state: State): Promise<string> {
  const hash = new URLSearchParams();
  for (const key of plain)
    if (state[key] !== "" && state[key] !== initialState[key]) hash.set(key, state[key]);
  if (!hash.has("arch")) hash.set("arch", state.arch);
  for (const [key, value] of Object.entries(state.problem))
    hash.set(key, typeof value === "string" ? value : JSON.stringify(value));
  if (state.edit !== null) {
    const bytes = new TextEncoder().encode(state.edit.text);
    hash.set("edited", state.edit.step);
    hash.set("text", toBase64(await through(bytes, new CompressionStream("deflate-raw"))));
  }
  return hash.toString();
}

function valueIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** The state that a hash stands for. A hash without a problem has that of the beginning; a text that cannot be unpacked is left out. */
export async function fromHash(text: string): Promise<State> {
  const hash = new URLSearchParams(text.replace(/^#/, ""));
  const words: Record<string, string> = {};
  for (const key of plain) words[key] = hash.get(key) ?? initialState[key];
  const taken = new Set<string>([...plain, "edited", "text"]);
  const problem = Object.fromEntries(
    [...hash].filter(([key]) => !taken.has(key)).map(([key, value]) => [key, valueIn(value)]),
  );
  const tab = tabs.find((name) => name === words.tab) ?? "stages";
  return {
    ...initialState,
    ...words,
    tab,
    unproven: words.unproven === "no" ? "no" : "yes",
    problem: Object.keys(problem).length > 0 ? problem : initialState.problem,
    edit: await editOf(hash.get("edited"), hash.get("text")),
  };
}

async function editOf(step: string | null, text: string | null): Promise<Edit | null> {
  if (step === null || text === null) return null;
  try {
    const bytes = await through(fromBase64(text), new DecompressionStream("deflate-raw"));
    return { step, text: new TextDecoder().decode(bytes) };
  } catch {
    return null;
  }
}
