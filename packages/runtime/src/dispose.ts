/**
 * `Symbol.dispose` where the engine has it (Node >= 20.5 does), else the symbol that down-levelled `using` looks up.
 * Classes here name their disposer by this constant, so importing the package never defines a method called "undefined".
 */
export const disposeSymbol: typeof Symbol.dispose =
  Symbol.dispose ?? (Symbol.for("Symbol.dispose") as typeof Symbol.dispose);
