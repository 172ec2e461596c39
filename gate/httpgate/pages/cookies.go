package pages

import (
	"net/http"
	"strings"
	"time"

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
	crossSuffix     = "-cross" // of a cookie's twin: see Crosses
)

// MessageCookie is the cookie for a stamp that pays for one message only, so that two tabs do not overwrite each
// other's.
func MessageCookie(message string) string { return StampCookie + "-" + message[:12] }

// Give sets a cookie of the gate's own.
func Give(w http.ResponseWriter, r *http.Request, secure bool, name, value string, age time.Duration) {
	c := http.Cookie{Name: name, Value: value, Path: "/", MaxAge: int(age / time.Second), HttpOnly: true,
		SameSite: http.SameSiteLaxMode, Secure: secure}
	http.SetCookie(w, &c)
	if Crosses(r) {
		c.Name, c.SameSite, c.Secure, c.Partitioned = name+crossSuffix, http.SameSiteNoneMode, true, true
		http.SetCookie(w, &c)
	}
}

// Brought is the value of a cookie of the gate's own, or empty.
func Brought(r *http.Request, name string) string {
	for _, name := range []string{name, name + crossSuffix} {
		if c, err := r.Cookie(name); err == nil {
			return c.Value
		}
	}
	return ""
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
			if c = strings.TrimSpace(c); c != "" && !ours(c) {
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
	name = strings.TrimSuffix(name, crossSuffix)
	return name == ClientCookie || name == TicketCookie || name == StampCookie ||
		strings.HasPrefix(name, StampCookie+"-")
}
