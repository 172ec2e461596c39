package app_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"weir/console"
	"weir/internal/testkit/browser"
	"weir/internal/testkit/needs"
)

const askingGate = "capacity: {concurrent: 10}, throttles: [stamps]"

// given are the cookies that an answer sets, by name.
func (r *reply) given() map[string]string {
	all := map[string]string{}
	for _, c := range (&http.Response{Header: r.header}).Cookies() {
		all[c.Name] = c.Value
	}
	return all
}

// nobodyIsBanned checks the block list.
func (s *site) nobodyIsBanned() {
	s.t.Helper()
	page, err := console.BansCall.Ask(context.Background(), s.control, console.BanQuery{})
	if err != nil || page.Total != 0 {
		s.t.Errorf("banned: %+v, %v", page.Bans, err)
	}
}

// wrong gives a genuine challenge a solution that is none.
func wrong(challenge, solved string) string {
	_, solution, _ := strings.Cut(solved, ".")
	return challenge + "." + solution
}

// TestPlantedStampsAreIgnored: cookies that a host beside this one has put into a browser ban nobody, and do not keep
// it from paying, over TLS or not. What comes in a header is the client's own.
func TestPlantedStampsAreIgnored(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		t.Run(overWhat(secure), func(t *testing.T) {
			s := stamped(t, askingGate, always+", covers: 2")
			prefix, proto := "", "http"
			if secure {
				prefix, proto = "__Host-", "https"
			}
			look := func(p *person, cookies ...string) *reply {
				return p.do("GET", "/", "", "Accept", "text/html", "Sec-Fetch-Mode", "navigate",
					"X-Forwarded-Proto", proto, "Cookie", strings.Join(cookies, "; "))
			}
			attacker, victim := s.program("198.51.100.9"), s.program("192.0.2.1")
			theirs := look(attacker)
			id, challenge := theirs.given()[prefix+"weir-client"], theirs.header.Get("Stamp-Challenge")
			good := solve(t, challenge)
			used := solve(t, look(attacker, prefix+"weir-client="+id).header.Get("Stamp-Challenge"))
			for range 2 {
				look(attacker, prefix+"weir-client="+id, prefix+"weir-stamp="+used).want(200, "")
			}
			for what, bad := range map[string]string{"forged": turn(good, 40), "unsolved": wrong(challenge, used),
				"used up": used, "nonsense": "x", "empty": ""} {
				planted := []string{"weir-stamp=" + bad, "weir-ticket=" + bad}
				for range 5 { // for more and more of the path
					planted = append(planted, prefix+"weir-stamp="+bad, prefix+"weir-client="+bad)
				}
				planted = append(planted, prefix+"weir-client="+id) // with which some of them are genuine
				page := look(victim, planted...)
				if page.status != http.StatusServiceUnavailable || page.header.Get("Stamp-Challenge") == "" {
					t.Fatalf("%s: %d %s", what, page.status, page.body)
				}
				own := append(planted, prefix+"weir-stamp="+solve(t, page.header.Get("Stamp-Challenge")))
				look(victim, own...).want(200, "")
				look(victim, own...).want(200, "")
				if again := look(victim, own...); again.status != http.StatusServiceUnavailable {
					t.Errorf("%s: used up, its own: %d", what, again.status)
				}
			}
			s.nobodyIsBanned()

			look(victim, "weir-stamp="+turn(good, 40)) // and a forger is banned for the header all the same
			victim.get("/", "Cookie", prefix+"weir-client="+id, "X-Forwarded-Proto", proto, "Stamp",
				turn(good, 40)).want(403, "forged")
			victim.get("/", "Cookie", prefix+"weir-client="+id, "X-Forwarded-Proto", proto).want(403, "banned")
		})
	}
}

// TestAPlantedIdIsNotBanned: who gets an id, puts it into somebody's browser and has it banned, bans themselves.
func TestAPlantedIdIsNotBanned(t *testing.T) {
	t.Parallel()
	s := stamped(t, askingGate, always+", patience: 3")
	attacker, victim := s.person("198.51.100.9"), s.program("192.0.2.1")
	page := attacker.look("/")
	id := "weir-client=" + page.given()["weir-client"]
	for range 4 { // its patience is used up, too
		attacker.drops("weir-ticket")
		attacker.get("/")
	}
	attacker.get("/", "Stamp", turn(solve(t, page.header.Get("Stamp-Challenge")), 40)).want(403, "forged")
	attacker.get("/").want(403, "banned")
	stamp := solve(t, victim.get("/", "Cookie", id).want(503, "unpaid").header.Get("Stamp-Challenge"))
	victim.get("/", "Cookie", id+"; weir-stamp="+stamp).want(200, "")

	// Over TLS it does not count at all: the victim gets an id of its own.
	tls := victim.do("GET", "/", "", "Accept", "text/html", "X-Forwarded-Proto", "https", "Cookie", id)
	own := tls.given()["__Host-weir-client"]
	if own == "" || "weir-client="+own == id {
		t.Errorf("its id is %q", own)
	}
	for _, c := range tls.header.Values("Set-Cookie") {
		if !strings.HasPrefix(c, "__Host-weir-") || !strings.Contains(c, "; Path=/; ") ||
			!strings.Contains(c, "; Secure") || strings.Contains(c, "Domain") {
			t.Errorf("a browser does not take %q", c)
		}
	}
}

// TestAPlantedStampOfOneRequest: a stamp for one request that is planted and used up does not turn its path away.
func TestAPlantedStampOfOneRequest(t *testing.T) {
	t.Parallel()
	s := stamped(t, askingGate, always+", covers: 1")
	victim := s.program("192.0.2.1")
	used := victim.pays("/a")
	victim.get("/a", "Stamp", used).want(403, "replayed")
	name := ""
	for _, field := range strings.Fields(victim.look("/a").body) {
		if text, found := strings.CutPrefix(field, `data-cookie="`); found {
			name = strings.TrimSuffix(text, `"`)
		}
	}
	if !strings.HasPrefix(name, "weir-stamp-") {
		t.Fatalf("the cookie is called %q", name)
	}
	planted := fmt.Sprintf("%[1]s=%[2]s; %[1]s=%[2]s", name, used)
	stamp := solve(t, victim.get("/a", "Cookie", planted).want(503, "unpaid").header.Get("Stamp-Challenge"))
	victim.get("/a", "Cookie", planted+"; "+name+"="+stamp).want(200, "")
	s.nobodyIsBanned()
}

// TestAPlantedTicketLosesNoPlace: the ticket that is good counts, wherever it stands.
func TestAPlantedTicketLosesNoPlace(t *testing.T) {
	t.Parallel()
	s := stamped(t, askingGate, "classic: true, schedule: [{load: 0%, work: 16}]")
	theirs := s.program("198.51.100.9").get("/").want(503, "unpaid").header.Get("Stamp-Ticket")
	for i, order := range []string{"weir-ticket=%[1]s; weir-ticket=%[2]s", "weir-ticket=%[2]s; weir-ticket=%[1]s"} {
		victim := s.program(fmt.Sprintf("192.0.2.%d", i+1))
		own := victim.get("/").want(503, "unpaid").header.Get("Stamp-Ticket")
		victim.get("/", "Cookie", fmt.Sprintf(order, theirs, own)).want(200, "") // there is room: it is its turn
	}
}

// TestAnotherSiteBansNobody: where the service lets them, pages of other sites may make a browser send a forged stamp
// in a header, and always that it comes again without paying. Who sits there is refused, and not banned.
func TestAnotherSiteBansNobody(t *testing.T) {
	t.Parallel()
	s := stamped(t, askingGate, "classic: true, schedule: [{load: 0%, work: 16}]")
	victim := s.program("192.0.2.1")
	forged := turn(solve(t, victim.get("/").want(503, "unpaid").header.Get("Stamp-Challenge")), 30)
	for _, header := range [][]string{{"Origin", "https://evil.example"}, {"Origin", "null"},
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}} {
		for range 3 {
			victim.get("/", append(header, "Stamp", forged)...).want(403, "forged")
			victim.get("/", header...).want(429, "not-paying")
		}
	}
	s.nobodyIsBanned()
	here := "http://" + s.app.Addr("http", 0).String()
	for range 3 {
		victim.get("/", "Stamp", forged, "Origin", here, "Sec-Fetch-Site", "same-origin").want(403, "forged")
	}
	victim.get("/").want(403, "banned")
}

// TestABrowserPaysBesidePlantedCookies: a real browser with cookies that a host beside this one has put into it.
func TestABrowserPaysBesidePlantedCookies(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	s, home := browsed(t, askingGate, `schedule: [{load: 0%, work: 12 bits}]`)
	p := browser.Open(t)
	p.Visit(home + "/.weir/room.js") // a page of this origin that loads nothing
	attacker := s.person("198.51.100.9").look("/")
	id, stamp := attacker.given()["weir-client"], solve(t, attacker.header.Get("Stamp-Challenge"))
	for _, path := range []string{"/shop", "/shop/", "/shop/basket"} {
		for name, value := range map[string]string{"weir-client": id, "weir-stamp": turn(stamp, 40), "weir-ticket": "x"} {
			browser.Eval[string](p, fmt.Sprintf(`document.cookie = "%s=%s; path=%s"`, name, value, path))
		}
	}
	for _, path := range []string{"/shop/basket", "/shop/list", "/elsewhere", "/shop/basket"} {
		p.Visit(home + path)
		p.Wait(atTheSite)
		p.Wait(styled)
		if h := p.Text("h1"); h != "GET "+path {
			t.Error(h)
		}
	}
	if got := s.stamps().Stamp; got.Forged+got.Replayed+got.NotPaying > 0 || got.Accepted < 4 || got.Issued > 6 {
		t.Errorf("%+v", got)
	}
	s.nobodyIsBanned()
}
