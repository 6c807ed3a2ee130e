package preview

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/protection"
)

// secret are the request headers that do not go into a sandbox: our
// credentials, and what only the last proxy may say.
var secret = []string{"authorization", "x-api-key", "x-preview-token", "forwarded", "x-real-ip"}

// secretPrefixes are the beginnings of more of them.
var secretPrefixes = []string{"proxy-", "x-forwarded-"}

// isSecret also knows the spelling of programs that read headers as CGI does,
// for which _ and - are the same.
func isSecret(name string) bool {
	if protection.Off(protection.Credentials) {
		return false
	}
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	return slices.Contains(secret, name) ||
		slices.ContainsFunc(secretPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// cleanRequest takes out of a request's headers what does not go in.
func cleanRequest(header http.Header) {
	maps.DeleteFunc(header, func(name string, _ []string) bool { return isSecret(name) })
	if !protection.Off(protection.Credentials) {
		api.HideSocketKeys(header)
	}
	if from := header.Get("Referer"); from != "" && !protection.Off(protection.Credentials) {
		header.Set("Referer", refererWithoutToken(from))
	}
	cookies := header["Cookie"]
	header.Del("Cookie")
	for _, line := range cookies {
		if kept := withoutCookie(line); kept != "" {
			header.Add("Cookie", kept)
		}
	}
}

// isOurCookie reports whether a cookie opens a port of ours, or the API, or goes with one that does.
func isOurCookie(name, value string) bool {
	return name == tokenCookie || api.IsSessionCookie(name) || api.IsTokenCookie(name, value)
}

// refererWithoutToken takes our parameter out of the address of a page: what a
// page with a token in its address loads names that address.
func refererWithoutToken(from string) string {
	page, _, _ := strings.Cut(from, "#")
	page, query, has := strings.Cut(page, "?")
	if !has {
		return page
	}
	if query = withoutToken(query); query == "" {
		return page
	}
	return page + "?" + query
}

// withoutCookie takes ours out of a Cookie header and leaves the rest.
func withoutCookie(line string) string {
	var kept []string
	for pair := range strings.SplitSeq(line, ";") {
		pair = strings.TrimSpace(pair)
		name, value, _ := strings.Cut(pair, "=")
		if pair != "" && (!isOurCookie(strings.TrimSpace(name), strings.TrimSpace(value)) || protection.Off(protection.Credentials)) {
			kept = append(kept, pair)
		}
	}
	return strings.Join(kept, "; ")
}

// reaching are the answer headers that would act on more than the page they
// come with: on our whole host, or on hosts beside it.
var reaching = []string{
	"Accept-Ch", "Alt-Svc", "Clear-Site-Data", "Critical-Ch", "Expect-Ct", "Public-Key-Pins",
	"Nel", "Report-To", // a browser would report every address of ours that it visits
	"Secure-Session-Registration", "Sec-Session-Registration", "Service-Worker-Allowed", "Set-Login", "Strict-Transport-Security",
	"X-Request-Id", // the daemon's own stands
}

// sandboxPolicy makes a page that is served below a path of the API's origin a
// page of no origin: it may run scripts, and act on nothing that is ours.
const sandboxPolicy = "sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts"

// cleanAnswer takes out of an answer's headers what reaches too far. prefix is
// "" at a host of the target's own, and page what of the address is the server's.
func cleanAnswer(header http.Header, host, prefix string, page *url.URL) {
	if protection.Off(protection.ForeignReply) {
		return
	}
	for _, name := range reaching {
		header.Del(name)
	}
	if strings.TrimSpace(header.Get("Access-Control-Allow-Origin")) == "*" {
		header.Del("Access-Control-Allow-Credentials")
	}
	cookies := header["Set-Cookie"]
	header.Del("Set-Cookie")
	for _, line := range cookies {
		if kept := narrowCookie(line, prefix); kept != "" {
			header.Add("Set-Cookie", kept)
		}
	}
	if prefix == "" {
		return
	}
	header.Del("X-Content-Type-Options") // ours is set
	// Who may read what is at the API's origin, the daemon says. Beside its
	// answer another would also make browsers refuse both.
	maps.DeleteFunc(header, func(name string, _ []string) bool { return strings.HasPrefix(name, "Access-Control-") })
	header.Add("Content-Security-Policy", sandboxPolicy)
	if location := below(header.Get("Location"), host, prefix, page); location != "" {
		header.Set("Location", location)
	} else {
		header.Del("Location")
	}
}

// narrowCookie keeps a server's cookie at the host and below the prefix that
// it came from. It returns "" for one that must not be set at all: ours, or
// one without a name, whose value a browser could send as a name of ours.
func narrowCookie(line, prefix string) string {
	pair, attributes, _ := strings.Cut(line, ";")
	name, _, named := strings.Cut(pair, "=")
	name = strings.TrimSpace(name)
	if !named || name == "" || strings.EqualFold(name, tokenCookie) || isSetForUs(name) {
		return ""
	}
	kept := []string{pair}
	for attribute := range strings.SplitSeq(attributes, ";") {
		key, value, _ := strings.Cut(attribute, "=")
		switch value = strings.TrimSpace(value); strings.ToLower(strings.TrimSpace(key)) {
		case "", "domain":
			continue
		case "path":
			if strings.HasPrefix(value, "/") {
				attribute = " Path=" + pathBelow(value, prefix)
			}
		}
		kept = append(kept, attribute)
	}
	return strings.Join(kept, ";")
}

// isSetForUs is isOurCookie in any case of letters, which some servers do not tell
// apart.
func isSetForUs(name string) bool {
	return api.IsSessionCookie(strings.ToLower(name)) || api.IsSessionCookie("__Host-"+strings.TrimPrefix(strings.ToLower(name), "__host-"))
}

// dots is how browsers read a path, in which .. leads upwards.
var dots = strings.NewReplacer("%2e", ".", "%2E", ".")

// below moves a redirect at our own host below the prefix, where it leads to from
// page, the server's address that was asked for. Whoever follows it sends our key
// along, and would else ask of the API what the server likes. It returns "" for what
// is no address, or not the same one for all who read it. Another host's, to which
// nobody sends our key, stays as it is.
func below(location, host, prefix string, page *url.URL) string {
	u, err := url.Parse(location)
	switch {
	case err != nil:
		return ""
	case u.Scheme != "" && u.Scheme != "http" && u.Scheme != "https", u.Host != "" && !strings.EqualFold(withoutPort(u.Host), withoutPort(host)):
		return location
	case u.Opaque != "":
		return ""
	case u.Host == "" && u.Path == "":
		return location // the page itself
	}
	u.Scheme, u.Host, u.User = "", "", nil
	u.Path, u.RawPath = cmp.Or(u.Path, "/"), dots.Replace(u.EscapedPath())
	own := page.ResolveReference(u)
	own.RawPath = pathBelow(own.EscapedPath(), prefix)
	if own.Path, err = url.PathUnescape(own.RawPath); err != nil {
		return ""
	}
	return own.String()
}

// withoutPort leaves out a port that need not be said.
func withoutPort(host string) string {
	return strings.TrimSuffix(strings.TrimSuffix(host, ":443"), ":80")
}

// pathBelow puts a prefix before a path that does not have it: servers that
// know X-Forwarded-Prefix add it by themselves.
func pathBelow(path, prefix string) string {
	if path == prefix || strings.HasPrefix(path, prefix+"/") {
		return path
	}
	return prefix + path
}
