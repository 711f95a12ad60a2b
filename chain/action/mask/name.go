package mask

import "strings"

// strength says what a name says of its value.
type strength int

const (
	notSecret  strength = iota
	isKeyPart           // a number of a private key, if it is long enough
	mayBe               // the value is a secret if it looks random
	isToken             // a token or a key: a secret unless it is a word
	isPassword          // chosen by people: a secret unless it is a placeholder or code
)

// maxSecretName is the number of bytes before a separator in which a name is searched for.
const maxSecretName = 80

var lastWords = map[string]strength{
	"password": isPassword, "passwd": isPassword, "passphrase": isPassword, "pwd": isPassword,
	"passwort": isPassword, "pswd": isPassword, "requirepass": isPassword, "passcode": isPassword,
	"kennwort": isPassword, "contraseña": isPassword, "storepass": isPassword, "keypass": isPassword,
	"srcstorepass": isPassword, "deststorepass": isPassword, "sshpass": isPassword, "dbpass": isPassword,
	"mysqlpass": isPassword, "userpass": isPassword, "rootpass": isPassword, "adminpass": isPassword,
	"httppass": isPassword, "passwords": isPassword, "passwds": isPassword, "pw": isPassword, "pass": isPassword,
	"psk": isPassword, "secret": isToken, "secrets": isToken, "token": isToken, "apikey": isToken,
	"authkey": isToken, "authtoken": isToken, "pat": mayBe, "authorization": isToken, "credential": isToken,
	"credentials": isToken, "cookie": isToken, "cookies": mayBe, "jwt": isToken, "bearer": isToken,
	"accesskey": isToken, "secretkey": isToken, "privatekey": isToken, "creds": isToken, "signature": mayBe,
	"auth": mayBe, "sid": mayBe, "sessionid": mayBe, "jsessionid": mayBe, "phpsessid": mayBe, "session": mayBe,
	"pin": mayBe, "otp": mayBe, "appid": mayBe, "login": mayBe, "webhook": mayBe, "dsn": mayBe, "csrf": mayBe,
	"xsrf": mayBe, "licence": mayBe, "license": mayBe, "salt": mayBe, "oauth": mayBe,
}

// suffixes end names of secrets without a sign between: PGPASSWORD, authtoken.
var suffixes = []string{"password", "passwd", "passphrase", "passwort", "secret", "token", "apikey", "secretkey", "privatekey", "accesskey"}

// neutral words come after the word that says what the value is.
var neutral = map[string]bool{
	"prod": true, "production": true, "staging": true, "stage": true, "dev": true, "test": true, "live": true,
	"base": true, "value": true, "string": true, "data": true, "plain": true, "plaintext": true, "main": true,
	"primary": true, "secondary": true, "default": true, "old": true, "new": true, "hash": true, "b64": true,
	"base64": true, "var": true, "local": true, "v1": true, "v2": true, "v3": true, "ro": true, "rw": true,
	"read": true, "write": true,
}

// keyKinds come before key in names of keys that are secrets.
var keyKinds = map[string]strength{
	"api": isToken, "access": isToken, "secret": isToken, "private": isToken, "signing": isToken,
	"encryption": isToken, "master": isToken, "auth": isToken, "account": isToken, "shared": isToken,
	"preshared": isToken, "deploy": isToken, "jwt": isToken, "hmac": isToken, "admin": isToken,
	"public": notSecret, "pub": notSecret, "foreign": notSecret, "primary": notSecret, "partition": notSecret,
	"sort": notSecret, "cache": notSecret, "object": notSecret, "idempotency": notSecret, "unique": notSecret,
	"composite": notSecret, "natural": notSecret, "row": notSecret, "map": notSecret, "hash": notSecret,
	"hot": notSecret, "lookup": notSecret, "host": notSecret, "known": notSecret,
}

// nameStrength returns what a name, such as DB_PASSWORD, apiKey or X-Auth-Token, says of its value:
// its last words decide.
func nameStrength(name string) strength {
	var words [8]string // the last ones, the last first
	n := lastNameWords(name, &words)
	i := 0
	for i < n-1 && (neutral[words[i]] || isDigits(words[i])) {
		i++
	}
	if i == n {
		return notSecret
	}
	last := words[i]
	if trimmed := strings.TrimRight(last, "0123456789"); trimmed != "" {
		last = trimmed
	}
	if s, known := lastWords[last]; known {
		if last == "pat" && n == 1 {
			return notSecret
		}
		// of addresses that are signed
		if last == "signature" && (i+1 == n || words[i+1] != "amz" && words[i+1] != "goog") {
			return notSecret
		}
		if i+1 < n && last == "pass" && (words[i+1] == "by" || words[i+1] == "boarding") {
			return notSecret
		}
		if i+1 < n && last == "token" && (words[i+1] == "page" || words[i+1] == "next" || words[i+1] == "continuation") {
			return mayBe
		}
		return s
	}
	if last == "key" || last == "keys" && i == 0 {
		if i+1 == n { // key alone
			return notSecret
		}
		s, known := keyKinds[words[i+1]]
		switch {
		case !known:
			return mayBe
		case last == "keys":
			return min(s, mayBe)
		}
		return s
	}
	for _, suffix := range suffixes {
		if strings.HasSuffix(last, suffix) {
			return lastWords[suffix]
		}
	}
	return notSecret
}

// lastNameWords stores the last words of a name in lower case, the last first, and returns their
// number. Words are separated by signs, and by the case of letters.
func lastNameWords(name string, words *[8]string) (n int) {
	end := len(name)
	for end > 0 && n < len(words) {
		for end > 0 && !isAlnum(name[end-1]) && name[end-1] < 0x80 {
			end--
		}
		start := end
		for start > 0 && (isAlnum(name[start-1]) || name[start-1] >= 0x80) {
			start--
			if start > 0 && isUpper(name[start]) && isLower(name[start-1]) { // apiKey
				break
			}
			// APIKey
			if start > 0 && start+1 < end && isUpper(name[start]) && isUpper(name[start-1]) && isLower(name[start+1]) {
				break
			}
		}
		if start < end {
			words[n] = strings.ToLower(name[start:end])
			n++
		}
		end = start
	}
	return n
}

// isCamel reports whether a name has a capital after a small letter.
func isCamel(name string) bool {
	for i := 1; i < len(name); i++ {
		if isUpper(name[i]) && isLower(name[i-1]) {
			return true
		}
	}
	return false
}

// NamesSecret reports whether everything below a name is masked.
func NamesSecret(name string) bool { return nameStrength(name) >= isToken }

func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }
func isLower(c byte) bool { return c >= 'a' && c <= 'z' }
func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isAlnum(c byte) bool { return isUpper(c) || isLower(c) || isDigit(c) }
func isWord(c byte) bool  { return isAlnum(c) || c == '_' }

func isDigits(s string) bool {
	for i := range len(s) {
		if !isDigit(s[i]) {
			return false
		}
	}
	return s != ""
}
