/** A kernel that lets time pass: one thread that sleeps. What idle gaps and the lead of a batch are made of. */

export const pauseEntry = "tilewright_pause";

/**
 * Portable text, compiled by the driver for whatever GPU there is. `%globaltimer` counts nanoseconds (PTX ISA, special registers), in steps
 * of up to a microsecond; nanosleep needs sm_70 and PTX 6.3, as every target here has.
 */
export const pausePtx = `.version 6.3
.target sm_70
.address_size 64
.visible .entry ${pauseEntry}(.param .u64 ns)
{
  .reg .pred %p;
  .reg .u64 %wanted, %start, %now;
  ld.param.u64 %wanted, [ns];
  mov.u64 %start, %globaltimer;
AGAIN:
  nanosleep.u32 500;
  mov.u64 %now, %globaltimer;
  sub.u64 %now, %now, %start;
  setp.lt.u64 %p, %now, %wanted;
  @%p bra AGAIN;
  ret;
}
`;
