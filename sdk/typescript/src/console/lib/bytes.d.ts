export function base64url(bytes: Uint8Array): string;
export function unbase64url(text: string): Uint8Array;
export function pemOf(raw: Uint8Array): string;
export function rawKeyFromPEM(pem: string): Uint8Array;
