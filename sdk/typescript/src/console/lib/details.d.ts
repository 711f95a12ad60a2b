import type { DetailEntry } from "./token.js";

export function covers(entries: DetailEntry[], tool: string, args?: string): boolean;
