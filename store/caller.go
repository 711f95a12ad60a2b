package store

import "time"

// Caller is who asks, and when. Methods that touch a tenant's data demand it, so that none can forget whose data it is.
type Caller struct {
	Company    *Company
	Credential string    // fingerprint of the API key or OAuth client that was presented, never a secret; "" where none took part
	Expires    time.Time // when its access token does; zero for an API key
	At         time.Time // when the request was whole
}
