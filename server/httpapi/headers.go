package httpapi

import "net/http"

// singular are the headers of which a request has at most one. They decide who calls and what is
// requested, and of two such headers, two readers may use different ones.
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
