package server

// RouteCount is the number of routes that may have series of their own.
func RouteCount() int { return len(routes(new(resources))) }
