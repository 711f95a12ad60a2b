export function readPolicy(text: string): Promise<unknown>;
