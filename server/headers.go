package server

import "net/http"

// singular lists the headers that a request may have only once, because two readers might use
// different ones. They decide who asks, and for what.
var singular = []string{"Authorization", "Idempotency-Key", "Content-Type", "Origin"}

// checkHeaders refuses a request that repeats one of them.
func (c *call) checkHeaders() error {
	for _, name := range singular {
		if len(c.Header[name]) > 1 {
			return twice(name)
		}
	}
	return nil
}

func twice(name string) error {
	return fail(http.StatusBadRequest, "Invalid header: "+name+" is given more than once")
}
