export function sha256(bytes: Uint8Array): Uint8Array<ArrayBuffer>;
export function sha512(bytes: Uint8Array): Uint8Array<ArrayBuffer>;
