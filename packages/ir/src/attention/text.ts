/** What a request for attention is as a program over named axes: attention itself, or gradients. */
import { gradientsText } from "./gradients.ts";
import { type AttentionViews, forwardText } from "./program.ts";
import type { Attention } from "./request.ts";

/** The text of the program. Gradients have tensors packed in the attention's layout. */
export const attentionText = (attention: Attention, views: AttentionViews = {}): string =>
  attention.backward === null ? forwardText(attention, views) : gradientsText(attention, attention.backward);
