package httpapi

import "net/http"

// singular are the headers of which a request has one at most, for two readers may take different
// ones of two: what they decide is who asks, and for what.
var singular = []string{"Authorization", "Idempotency-Key", "Content-Type", "Content-Encoding", "Origin", "Dpop"}

// checkHeaders refuses a request that has one of them twice.
func (c *Call) checkHeaders() error {
	for _, name := range singular {
		if len(c.Header[name]) > 1 {
			return GivenTwice(name)
		}
	}
	return nil
}

func GivenTwice(name string) error {
	return Fail(http.StatusBadRequest, "Invalid header: "+name+" is given more than once")
}
