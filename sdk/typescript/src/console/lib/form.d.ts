export type Form<T> = (node: unknown, source: string, name: string) => T;
type Forms = Record<string, Form<any>>;
type Read<F extends Forms> = { [K in keyof F]: F[K] extends Form<infer T> ? T : never };

export function read<T>(form: Form<T>, source: string, name: string): T;
export const string: Form<string>;
export const integer: Form<number>;
export const timestamp: Form<string>;
export const signature: Form<string>;
export const rawKey: Form<string>;
export const hash: Form<string>;
export function list<T>(form: Form<T>, most?: number): Form<T[]>;
export function exactly<R extends Forms>(required: R): Form<Read<R>>;
export function having<R extends Forms, O extends Forms = {}>(required: R, optional?: O): Form<Read<R> & Partial<Read<O>>>;
