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
