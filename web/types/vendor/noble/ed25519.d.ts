interface EdwardsPoint {
  negate(): EdwardsPoint;
  add(other: EdwardsPoint): EdwardsPoint;
  multiply(scalar: bigint, safe?: boolean): EdwardsPoint;
  toBytes(): Uint8Array<ArrayBuffer>;
}
export const Point: {
  BASE: EdwardsPoint;
  CURVE(): { n: bigint };
  fromBytes(bytes: Uint8Array, zip215?: boolean): EdwardsPoint;
};
export const hashes: { sha512Async?: (message: Uint8Array<ArrayBuffer>) => Promise<Uint8Array> };
export function keygenAsync(): Promise<{ secretKey: Uint8Array; publicKey: Uint8Array }>;
export function signAsync(message: Uint8Array, secretKey: Uint8Array): Promise<Uint8Array>;
