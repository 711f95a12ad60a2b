// What the console uses of the vendored Preact with hooks and htm.

/** What a component may return: an element, or what becomes text or nothing. */
export interface VNode { type: unknown; props: Record<string, any>; key: unknown }
export type Child = VNode | string | number | boolean | null | undefined | Child[];

type Next<T> = T | ((before: T) => T);
type Dispatch<A> = (action: A) => void;

/** An event as a handler in a template gets it: of an input, a form, the keyboard or the mouse. */
export interface Happening extends Event {
  target: HTMLInputElement;
  currentTarget: HTMLElement;
  relatedTarget: Node | null;
  key: string;
  ctrlKey: boolean;
  metaKey: boolean;
  altKey: boolean;
  shiftKey: boolean;
  dataTransfer: DataTransfer | null;
}

/**
 * What may stand in a template; a function that is written there is a handler, if it says
 * nothing else of itself.
 */
export type Value = ((event: Happening) => unknown) | object | string | number | bigint | boolean | null | undefined;
export function html(strings: TemplateStringsArray, ...values: Value[]): VNode;
export function render(child: Child, parent: Element | null): void;
export function useState(initial: null): [any, Dispatch<any>];
export function useState<T>(initial: T | (() => T)): [T, Dispatch<Next<T>>];
export function useReducer<T>(reducer: (state: T, action: unknown) => T, initial: T): [T, (action?: unknown) => void];
export function useEffect(effect: () => unknown, inputs?: readonly unknown[]): void;
export function useLayoutEffect(effect: () => unknown, inputs?: readonly unknown[]): void;
export function useRef(initial: null): { current: any };
export function useRef<T>(initial: T): { current: T };
export function useMemo<T>(compute: () => T, inputs?: readonly unknown[]): T;
