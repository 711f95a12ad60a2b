package mask

import "strings"

// form is a token whose beginning its service documents.
type form struct {
	prefix   string
	chars    string // what follows the prefix: see charsets
	min, max int    // bytes after the prefix
	random   bool   // they must look random, because words begin so too
}

// charset is a set of bytes.
type charset [256]bool

func newCharset(ranges ...string) *charset {
	var c charset
	for _, r := range ranges {
		if len(r) == 3 && r[1] == '-' && isAlnum(r[0]) {
			for b := r[0]; ; b++ {
				c[b] = true
				if b == r[2] {
					break
				}
			}
			continue
		}
		for i := range len(r) {
			c[r[i]] = true
		}
	}
	return &c
}

var charsets = map[string]*charset{
	"upper":  newCharset("A-Z", "0-9"),
	"alnum":  newCharset("a-z", "A-Z", "0-9"),
	"word":   newCharset("a-z", "A-Z", "0-9", "_"),
	"name":   newCharset("a-z", "A-Z", "0-9", "_-"),
	"dotted": newCharset("a-z", "A-Z", "0-9", "_-."),
	"base64": newCharset("a-z", "A-Z", "0-9", "+/=_-"),
	"hex":    newCharset("a-f", "0-9"),
	"azure":  newCharset("a-z", "A-Z", "0-9", "_.~-"),
	"crypt":  newCharset("a-z", "A-Z", "0-9", "./$=,"),

	"token68":    newCharset("a-z", "A-Z", "0-9", "._~+/=-"), // RFC 9110 §11.2
	"cookieName": newCharset("a-z", "A-Z", "0-9", "_-.!#%*+^~"),
	"cookie":     newCharset("a-z", "A-Z", "0-9", "_-.!#%*+^~/:=@{}[]()?"),
	"valueEnd":   newCharset(" \t\r\n\"'\\,;&|<>)}]`"),
}

// forms are tokens by the documentation of their services; docs/agents/coding-agents.md lists the
// services.
var forms = []form{
	// attestd's own: API keys, secrets and tokens of OAuth clients, enrolment tokens
	{"svc_", "name", 43, 64, false}, {"cs_", "name", 43, 64, false}, {"oauth_", "name", 43, 64, false},
	{"enr_", "name", 40, 64, false}, {"whsec_", "base64", 16, 128, false},
	// AWS: IDs of access keys
	{"AKIA", "upper", 16, 16, false}, {"ASIA", "upper", 16, 16, false}, {"ABIA", "upper", 16, 16, false},
	{"ACCA", "upper", 16, 16, false},
	// GitHub, GitLab, Bitbucket and Atlassian
	{"ghp_", "alnum", 20, 255, false}, {"gho_", "alnum", 20, 255, false}, {"ghu_", "alnum", 20, 255, false},
	{"ghs_", "name", 20, 255, false}, {"ghr_", "alnum", 20, 255, false}, {"github_pat_", "word", 20, 255, false},
	{"glpat-", "dotted", 20, 300, false}, {"gldt-", "dotted", 20, 300, false}, {"glrt-", "dotted", 20, 300, false},
	{"glrtr-", "dotted", 20, 300, false}, {"glptt-", "dotted", 20, 300, false},
	{"glcbt-", "dotted", 20, 300, false}, {"glimt-", "dotted", 20, 300, false},
	{"glft-", "dotted", 20, 300, false}, {"glsoat-", "dotted", 20, 300, false},
	{"glagent-", "dotted", 20, 300, false}, {"gloas-", "dotted", 20, 300, false},
	{"glffct-", "dotted", 20, 300, false}, {"GR1348941", "name", 20, 64, false},
	{"ATATT3", "base64", 40, 400, false}, {"ATCTT3", "base64", 40, 400, false}, {"ATBB", "alnum", 28, 64, true},
	// Slack, Discord and Telegram: see special too
	{"xoxb-", "name", 10, 255, false}, {"xoxp-", "name", 10, 255, false}, {"xoxa-", "name", 10, 255, false},
	{"xoxr-", "name", 10, 255, false}, {"xoxs-", "name", 10, 255, false}, {"xoxo-", "name", 10, 255, false},
	{"xoxc-", "name", 10, 255, false}, {"xoxd-", "azure", 10, 255, false}, {"xoxe-", "name", 10, 400, false},
	{"xoxe.xoxp-", "name", 10, 400, false}, {"xoxe.xoxb-", "name", 10, 400, false},
	{"xapp-", "name", 10, 255, false},
	// Stripe, Square, Shopify, PayPal's Braintree
	{"sk_live_", "alnum", 16, 255, false}, {"sk_test_", "alnum", 16, 255, false},
	{"rk_live_", "alnum", 16, 255, false}, {"rk_test_", "alnum", 16, 255, false},
	{"sq0csp-", "name", 40, 64, false}, {"sq0atp-", "name", 22, 64, false}, {"EAAAE", "name", 55, 80, true},
	{"shpat_", "hex", 32, 64, false}, {"shpca_", "hex", 32, 64, false}, {"shppa_", "hex", 32, 64, false},
	{"shpss_", "hex", 32, 64, false}, {"access_token$production$", "alnum", 16, 64, false},
	// Google
	{"AIza", "name", 35, 35, false}, {"ya29.", "name", 20, 2000, false}, {"GOCSPX-", "name", 20, 64, false},
	{"1//0", "name", 30, 255, false},
	// OpenAI, Anthropic and others whose keys begin with sk-; Hugging Face, Groq, Replicate,
	// Perplexity, xAI, LangSmith
	{"sk-ant-", "name", 20, 255, false}, {"sk-proj-", "name", 20, 255, false},
	{"sk-svcacct-", "name", 20, 255, false}, {"sk-admin-", "name", 20, 255, false},
	{"sk-or-", "name", 20, 255, false}, {"sk-", "name", 20, 255, true}, {"hf_", "alnum", 30, 64, false},
	{"api_org_", "alnum", 30, 64, false}, {"gsk_", "alnum", 40, 80, false}, {"r8_", "alnum", 37, 64, false},
	{"pplx-", "alnum", 40, 80, false}, {"xai-", "alnum", 60, 120, false}, {"lsv2_pt_", "word", 32, 80, false},
	{"lsv2_sk_", "word", 32, 80, false},
	// npm, PyPI, RubyGems, crates.io, Clojars, NuGet, Docker, Artifactory
	{"npm_", "alnum", 36, 36, false}, {"pypi-", "name", 50, 400, false}, {"rubygems_", "hex", 48, 48, false},
	{"cio", "alnum", 32, 32, true}, {"CLOJARS_", "alnum", 60, 60, false}, {"oy2", "alnum", 43, 43, true},
	{"dckr_pat_", "name", 20, 64, false}, {"dckr_oat_", "name", 20, 64, false}, {"AKCp", "alnum", 60, 100, false},
	// mail: SendGrid (special), Mailgun, Mailchimp's Mandrill, Brevo, Resend
	{"key-", "hex", 32, 32, false}, {"xkeysib-", "name", 60, 120, false}, {"xsmtpsib-", "name", 60, 120, false},
	{"re_", "word", 24, 64, true},
	// Twilio
	{"SK", "hex", 32, 32, false},
	// clouds and hosts
	{"dop_v1_", "hex", 64, 64, false}, {"doo_v1_", "hex", 64, 64, false}, {"dor_v1_", "hex", 64, 64, false},
	{"dapi", "hex", 32, 40, false}, {"HRKU-", "name", 36, 100, false}, {"FlyV1 fm2_", "base64", 40, 4000, false},
	{"fm2_", "base64", 100, 4000, false}, {"vcp_", "alnum", 24, 80, true}, {"nfp_", "alnum", 36, 64, false},
	{"SCW", "upper", 17, 17, true}, {"tskey-", "name", 20, 120, false}, {"LTAI", "alnum", 16, 26, true},
	{"AKID", "alnum", 32, 40, true}, {"v1.0-", "hex", 40, 200, true}, {"cfut_", "name", 40, 80, false},
	// databases
	{"pscale_tkn_", "dotted", 32, 80, false}, {"pscale_pw_", "dotted", 32, 80, false},
	{"pscale_oauth_", "dotted", 32, 80, false}, {"sb_secret_", "name", 24, 80, false},
	{"sbp_", "hex", 40, 40, false},
	// HashiCorp, Pulumi, Doppler, 1Password, age
	{"hvs.", "name", 20, 255, false}, {"hvb.", "name", 20, 400, false}, {"hvr.", "name", 20, 400, false},
	{"s.", "alnum", 24, 24, true}, {"pul-", "hex", 40, 40, false}, {"dp.pt.", "alnum", 40, 64, false},
	{"dp.st.", "dotted", 40, 100, false}, {"ops_eyJ", "base64", 100, 2000, false},
	{"AGE-SECRET-KEY-1", "upper", 50, 64, false},
	// monitoring: Grafana, New Relic, Sentry, Dynatrace, PostHog, Datadog has none
	{"glsa_", "word", 32, 64, false}, {"glc_", "base64", 32, 400, false}, {"NRAK-", "upper", 27, 27, false},
	{"NRII-", "name", 32, 32, false}, {"NRJS-", "hex", 19, 19, false}, {"sntrys_", "base64", 40, 400, false},
	{"sntryu_", "hex", 64, 64, false}, {"dt0c01.", "dotted", 80, 120, false}, {"phx_", "alnum", 40, 64, false},
	// tools of teams: Linear, Notion, Figma, Postman, Asana, Airtable, CircleCI, Contentful,
	// Dropbox, EasyPost
	{"lin_api_", "alnum", 32, 64, false}, {"lin_oauth_", "alnum", 32, 80, false}, {"ntn_", "alnum", 40, 64, false},
	{"secret_", "alnum", 43, 43, true}, {"figd_", "name", 40, 64, false}, {"PMAK-", "name", 59, 59, false},
	{"pat", "dotted", 79, 79, true}, {"CCIPAT_", "word", 60, 80, false}, {"CCIPRJ_", "word", 60, 80, false},
	{"CFPAT-", "name", 43, 43, false}, {"sl.", "name", 60, 2000, true}, {"EZAK", "alnum", 54, 54, false},
	{"EZTK", "alnum", 54, 54, false}, {"NGROK", "alnum", 40, 60, true},
	// PASETO: tokens that are encrypted
	{"v2.local.", "dotted", 40, 4000, false}, {"v3.local.", "dotted", 40, 4000, false},
	{"v4.local.", "dotted", 40, 4000, false}, {"v2.public.", "dotted", 40, 4000, false},
	{"v3.public.", "dotted", 40, 4000, false}, {"v4.public.", "dotted", 40, 4000, false},
}

// formsBy has the forms by their first byte.
var formsBy = func() (by [256][]*form) {
	for i := range forms {
		first := forms[i].prefix[0]
		by[first] = append(by[first], &forms[i])
	}
	return by
}()

// tokens finds tokens of known forms.
func (f *finder) tokens() {
	for i := 0; i < len(f.text); i++ {
		c := f.text[i]
		if i > 0 && isWord(f.text[i-1]) && !escaped(f.text, i) {
			if c == 'Q' || c == '.' {
				f.special(i)
			}
			continue
		}
		for _, form := range formsBy[c] {
			if n := form.match(f.text[i:]); n > 0 {
				f.add(i, i+n)
				i += n - 1
				break
			}
		}
		f.special(i)
	}
}

// escaped reports whether the character before a place is the letter of an escape such as \n.
func escaped(text string, at int) bool {
	return at >= 2 && text[at-2] == '\\' && strings.IndexByte("nrt", text[at-1]) >= 0
}

// match returns the length of the token at the beginning of a text, or 0.
func (f *form) match(text string) int {
	if !strings.HasPrefix(text, f.prefix) {
		return 0
	}
	n := run(text[len(f.prefix):], charsets[f.chars], f.max+1)
	if n < f.min || n > f.max {
		return 0
	}
	if f.random && !random(text[len(f.prefix):len(f.prefix)+n], 8) {
		return 0
	}
	return len(f.prefix) + n
}

// run returns how many bytes at the beginning of a text are in a set, at most most.
func run(text string, set *charset, most int) int {
	n := 0
	for n < len(text) && n < most && set[text[n]] {
		n++
	}
	return n
}

// special finds tokens that have no prefix of their own, by the sign in their middle.
func (f *finder) special(i int) {
	rest := f.text[i:]
	switch f.text[i] {
	case 'e': // signed tokens: JWTs, ours among them
		if !strings.HasPrefix(rest, "eyJ") {
			return
		}
		const most = 16 << 10
		n := run(rest, charsets["name"], most)
		if n < 10 || n >= len(rest) || rest[n] != '.' {
			return
		}
		second := run(rest[n+1:], charsets["name"], most)
		if end := n + 1 + second; second >= 8 && end < len(rest) && rest[end] == '.' &&
			strings.HasPrefix(rest[n+1:], "ey") {
			end++
			// JWE has five parts
			for end < len(rest) && (charsets["name"][rest[end]] || rest[end] == '.') {
				end++
			}
			f.add(i, i+end)
		} else if end < len(rest) && strings.HasPrefix(rest[end:], "..") { // a JWE without a key
			end += run(rest[end:], charsets["dotted"], most)
			f.add(i, i+end)
		}
	case 'S': // SendGrid
		if strings.HasPrefix(rest, "SG.") {
			n := 3 + run(rest[3:], charsets["name"], 64)
			if n < 3+16 || n >= len(rest) || rest[n] != '.' {
				return
			}
			if m := run(rest[n+1:], charsets["name"], 80); m >= 16 {
				f.add(i, i+n+1+m)
			}
		}
	case 'p': // Stripe: pi_…_secret_…
		if strings.HasPrefix(rest, "pi_") {
			n := run(rest, charsets["word"], 100)
			if at := strings.Index(rest[:n], "_secret_"); at > 0 {
				f.add(i, i+n)
			}
		}
	case 'Q': // Azure: three bytes, a digit, Q~
		if strings.HasPrefix(rest, "Q~") && i >= 4 && isDigit(f.text[i-1]) {
			if n := run(rest[2:], charsets["azure"], 40); n >= 31 {
				f.add(i-4, i+2+n)
			}
		}
	case '.': // Terraform Cloud: 14 letters and digits, .atlasv1.
		if strings.HasPrefix(rest, ".atlasv1.") && i >= 14 {
			if n := run(rest[9:], charsets["name"], 100); n >= 60 {
				f.add(i-14, i+9+n)
			}
		}
	case 'h': // webhooks of Slack, Discord and Teams hold their secret in the path
		for _, host := range []string{"hooks.slack.com/", "https://discord.com/api/webhooks/", "https://discordapp.com/api/webhooks/"} {
			if strings.HasPrefix(rest, host) {
				n := len(host)
				end := n + run(rest[n:], charsets["base64"], 255)
				if slash := strings.LastIndexByte(rest[:end], '/'); slash >= n && end-slash > 16 {
					f.add(i+slash+1, i+end)
				}
			}
		}
	case '$': // hashes of passwords: $6$salt$hash
		n := 1 + run(rest[1:], charsets["name"], 12)
		if n == 1 || n >= len(rest) || rest[n] != '$' {
			return
		}
		switch rest[1:n] {
		case "1", "5", "6", "2a", "2b", "2y", "y", "7", "gy", "apr1", "argon2id", "argon2i", "argon2d", "scrypt",
			"pbkdf2-sha256", "pbkdf2-sha512":
			end := n + 1 + run(rest[n+1:], charsets["crypt"], 255)
			if end-n > 22 {
				f.add(i+n+1, i+end)
			}
		}
	default:
		if !isDigit(f.text[i]) && f.text[i] != 'A' {
			return
		}
		// Telegram's bots and Firebase's legacy keys: an ID, a colon, a token
		n := run(rest, charsets["name"], 16)
		if n < 8 || n >= len(rest) || rest[n] != ':' {
			return
		}
		m := run(rest[n+1:], charsets["name"], 255)
		if isDigits(rest[:n]) && n <= 10 && m == 35 || n == 11 && strings.HasPrefix(rest, "AAAA") && m >= 120 {
			f.add(i, i+n+1+m)
		}
	}
}

// urls finds the credentials before the host of an address: user:password@, or a token alone.
func (f *finder) urls() {
	const most = 512
	for at := 0; ; {
		i := strings.Index(f.text[at:], "://")
		if i < 0 {
			return
		}
		start := at + i + len("://")
		at = start
		colon, end := -1, -1
		limit := min(len(f.text), start+most)
	scan:
		for j := start; j < limit; j++ {
			switch c := f.text[j]; c {
			case '@':
				end = j
				break scan
			case ':':
				if colon < 0 {
					colon = j
				}
			case '/', '?', '#', '"', '\'', '\\', ' ', '\t', '\n', '\r', '`', '|', ';', '<', '>':
				break scan
			}
		}
		if end < 0 {
			continue
		}
		// A password may hold an at sign that is not escaped: the host comes after the last one.
		for j := end + 1; j < limit && (charsets["dotted"][f.text[j]] ||
			strings.IndexByte("@!*+~^%=:", f.text[j]) >= 0); j++ {
			if f.text[j] == '@' && colon >= 0 {
				end = j
			}
		}
		switch {
		case colon >= 0 && !isURLPlaceholder(f.text[colon+1:end]):
			f.add(colon+1, end)
		case colon < 0 && end-start >= 16 && random(f.text[start:end], 16):
			f.add(start, end)
		}
		at = end
	}
}

// isURLPlaceholder reports whether the password of an address is a placeholder.
func isURLPlaceholder(v string) bool {
	return v == "" || v[0] == '$' && placeholder(v) || v[0] == '{' || v[0] == '<' || strings.Trim(v, "*x") == "" ||
		v == "..." || strings.HasPrefix(v, "[masked")
}
