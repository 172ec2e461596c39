package pages

import (
	"net/http"
	"strings"
	"time"

	"weir/identify"
	"weir/internal/http1"
)

// What a client pays with, and what it is given. Cookies are for browsers, headers for everybody else.
const (
	StampHeader     = "Stamp"
	ChallengeHeader = "Stamp-Challenge"
	TicketHeader    = "Stamp-Ticket"
	ClientCookie    = "weir-client"
	StampCookie     = "weir-stamp"
	TicketCookie    = "weir-ticket"
	cookiePrefix    = "weir-"
	crossSuffix     = "-cross"  // of a cookie's twin: see Crosses
	hostPrefix      = "__Host-" // of cookies that only this host can set, over TLS
)

// CookieName is what a cookie of the gate's own is called for a client that came over TLS, or without it. Over TLS no
// other host can put one of that name into a browser.
func CookieName(name string, secure bool) string {
	if secure {
		return hostPrefix + name
	}
	return name
}

// MessageCookie is the cookie for a stamp that pays for one message only, so that two tabs do not overwrite each
// other's.
func MessageCookie(message string) string { return StampCookie + "-" + message[:12] }

// Give sets a cookie of the gate's own.
func Give(w http.ResponseWriter, r *http.Request, secure bool, name, value string, age time.Duration) {
	c := http.Cookie{Name: CookieName(name, secure), Value: value, Path: "/", MaxAge: int(age / time.Second),
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: secure}
	http.SetCookie(w, &c)
	if Crosses(r) {
		c.Name, c.SameSite, c.Secure, c.Partitioned = c.Name+crossSuffix, http.SameSiteNoneMode, true, true
		http.SetCookie(w, &c)
	}
}

// maxBrought is how many values of one name are looked at.
const maxBrought = 4

// Brought are the values of a cookie of the gate's own and of its twin, the likeliest first. Without TLS, a host beside
// this one may have put others of the same name into the browser, for a longer path or a wider domain. Browsers send
// those of longer paths first (RFC 6265, 5.4), and the gate's own are for "/": so the last few count, the last one
// first.
func Brought(r *http.Request, secure bool, name string) (values []string) {
	name = CookieName(name, secure)
	for _, name := range []string{name, name + crossSuffix} {
		all := r.CookiesNamed(name)
		for i := len(all) - 1; i >= max(0, len(all)-maxBrought); i-- {
			values = append(values, all[i].Value)
		}
	}
	return values
}

// FromElsewhere reports whether a page of another origin may have made a browser send the request, with headers of its
// choice: such pages may do so where the service behind the gate lets them (CORS). Browsers name them.
func FromElsewhere(r *http.Request, f identify.Fields) bool {
	if site := first(f, "Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
		return true
	}
	origin := first(f, "Origin")
	_, host, _ := strings.Cut(origin, "://")
	return origin != "" && !strings.EqualFold(host, r.Host)
}

// Crosses reports whether browsers may keep cookies that are SameSite=Lax from the request: in a frame, which another
// site may show, and with a form that another site sends. Then each cookie has a twin that is partitioned (CHIPS). The
// twin has a name of its own, as a browser that takes both would send two of the same name. Without TLS there are no
// such cookies, and browsers say nothing about frames and sites.
func Crosses(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Dest") {
	case "iframe", "frame", "embed", "object":
		return true
	}
	return r.Method == http.MethodPost && r.Header.Get("Sec-Fetch-Site") == "cross-site" && WantsPage(r.Header)
}

// Strip takes out of a request what concerns the gate alone.
func Strip(f *http1.Fields) {
	f.Del(StampHeader)
	f.Del(TicketHeader)
	lines := f.Values("Cookie")
	if len(lines) == 0 || !strings.Contains(strings.Join(lines, ";"), cookiePrefix) {
		return
	}
	var kept []string
	for _, line := range lines {
		for c := range strings.SplitSeq(line, ";") {
			if c = strings.Trim(c, " \t"); c != "" && !ours(c) {
				kept = append(kept, c)
			}
		}
	}
	if len(kept) == 0 {
		f.Del("Cookie")
		return
	}
	f.Set("Cookie", strings.Join(kept, "; "))
}

// ours reports whether a cookie is one that the gate gave.
func ours(c string) bool {
	name, _, _ := strings.Cut(c, "=")
	name = strings.TrimPrefix(strings.TrimSuffix(name, crossSuffix), hostPrefix)
	return name == ClientCookie || name == TicketCookie || name == StampCookie ||
		strings.HasPrefix(name, StampCookie+"-") || strings.HasPrefix(name, TicketCookie+"-")
}
