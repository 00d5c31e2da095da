/** The order of two roles in ping-pong: barriers by which one multiplies when the other has issued its last products. */
import { PING_PONG_BARRIER, pingPongPoints } from "../../tile/pingPong.ts";
import type { Stmt, TileLoop, Tiles } from "../../tile/types.ts";

/** The body with barriers of `threads` threads of both roles; what it says of the responses' ring it does at the other role's work tiles, too. */
export function pingPongBody(
  stmt: Tiles,
  { turn, of, ring }: TileLoop,
  threads: number,
  expand: (inner: Stmt) => readonly Stmt[],
): readonly Stmt[] {
  const points = pingPongPoints(stmt.body);
  const take: Stmt = { kind: "barrier", id: PING_PONG_BARRIER + turn, threads };
  const first: Stmt = { kind: "barrier", id: PING_PONG_BARRIER, threads, arrive: true };
  const pass: Stmt = { ...first, id: PING_PONG_BARRIER + ((turn + 1) % of) };
  const body: Stmt[] = [];
  let response: Stmt[] = [];
  const flush = (): void => {
    if (response.length > 0) body.push({ kind: "response", body: response });
    response = [];
  };
  for (const [i, inner] of stmt.body.entries()) {
    const responds = "ring" in inner && inner.ring === ring;
    if (!responds) flush();
    if (i === points?.take) body.push(take);
    if (i === points?.pass) body.push(pass);
    (responds ? response : body).push(...expand(inner));
  }
  flush();
  if (points?.pass === stmt.body.length) body.push(pass);
  return [
    // The last role lets the first one begin; behind the last tile the role that would have the next one comes, so that nobody is left at a barrier.
    ...(turn < of - 1 ? [] : [{ kind: "boundary", bound: "first", body: [first] } as const]),
    { kind: "boundary", bound: "last", body: [take] },
    ...body,
  ];
}
