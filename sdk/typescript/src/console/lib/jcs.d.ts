export function canonicalize(source: string, maxDepth?: number): string;
