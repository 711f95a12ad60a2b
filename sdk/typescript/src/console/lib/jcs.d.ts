import type { JSONNode } from "./json.js";

export function canonicalize(source: string, maxDepth?: number): string;
export function canonical(node: JSONNode): string;
