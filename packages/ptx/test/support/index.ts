/** The PTX corpus, for the tests of every package. */
export { corpus, refused } from "./corpus.ts";
export { declarations, generateInstruction, random } from "./generate.ts";
