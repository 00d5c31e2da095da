/** What the lines of PTX and the findings of edits look like. */

export const stuck = /^H030/;
/** A wait: its address, the loop around it, and what keeps a stage's address for those behind it. */
export const wait = /^.(wait|\s+(mbarrier\.try_wait|not\.pred|@%p bra wait|mad\.lo\.u32))/;
export const advance = /(add|setp\.\w+|selp|sub|xor)\.[ubs]32|@%p (xor|sub)/;
