// Types that several modules of the console share.

type Bytes = Uint8Array<ArrayBuffer>;

interface Place { start: number; end: number }
interface JSONMember extends Place { key: string; value: JSONNode }
type JSONNode =
  | (Place & { type: 'object'; members: JSONMember[] })
  | (Place & { type: 'array'; items: JSONNode[] })
  | (Place & { type: 'string'; value: string })
  | (Place & { type: 'number'; lexeme: string })
  | (Place & { type: 'true' | 'false' | 'null' });

/** A node with the text that it was parsed from. */
interface JSONText { node: JSONNode; source: string }

/** Reads a node in its form, or throws a FormError that calls it by the name. */
type Form<T> = (node: JSONNode, source: string, name: string) => T;
type Forms = Record<string, Form<any>>;
type Read<F> = { [K in keyof F]: F[K] extends Form<infer T> ? T : never };
type Expand<T> = { [K in keyof T]: T[K] };
