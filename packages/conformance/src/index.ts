/** Public surface of `@tilewright/conformance`. */
export {};
