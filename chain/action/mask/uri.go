package mask

import "strings"

// URI returns the recorded form of a URI: its query and fragment, which often hold a token, are
// masked whole, and secrets elsewhere as in any text.
func (k Key) URI(uri string) string {
	uri = strings.ToValidUTF8(uri, "\ufffd")
	at := strings.IndexAny(uri, "?#")
	if at < 0 || at == len(uri)-1 {
		return k.Text(uri)
	}
	return k.Text(uri[:at]) + uri[at:at+1] + k.Whole(uri[at+1:])
}
