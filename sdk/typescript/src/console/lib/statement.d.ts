// What an agent signs; the build puts web/console/lib/statement.js beside this.
export function isThumbprint(s: string): boolean;
