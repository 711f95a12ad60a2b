package jose

import "strconv"

// NumericDate reads seconds since 1970 from a claim (RFC 7519 §2), up to the year 9999, and drops
// their fraction. Some libraries write a fraction or an exponent.
func NumericDate(value []byte) (seconds int64, ok bool) {
	const longest, last = 32, 253402300799
	if len(value) == 0 || len(value) > longest || value[0] < '0' || value[0] > '9' {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(value), 64)
	return int64(f), err == nil && f <= last
}

// IsID reports whether a jti is 1 to 128 visible ASCII characters, as every token of an agent's has
// it.
func IsID(jti string) bool {
	for i := range len(jti) {
		if jti[i] <= ' ' || jti[i] > '~' {
			return false
		}
	}
	return len(jti) >= 1 && len(jti) <= 128
}
