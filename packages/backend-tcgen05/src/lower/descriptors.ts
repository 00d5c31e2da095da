/** Descriptors of shared memory count in 16 bytes, of an address of 18 bits (PTX ISA, shared memory descriptor). */
export const UNIT = 16;
export const ADDRESS_MASK = 0x3ffff;
