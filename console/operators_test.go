package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"weir/console/access"
)

// TestOwnAccount: operators see and end their own sessions, and nobody else's; a password of one's own needs the old
// one, whatever the role, and ends the session that changed it.
func TestOwnAccount(t *testing.T) {
	h := newHall(t, Options{})
	for name := range operators {
		v := h.as(name)
		other := "vera"
		if name == other {
			other = "ann"
		}
		admin := operators[name] == access.Admin
		for who, allowed := range map[string]bool{name: true, other: admin} {
			r := v.get(Prefix + "/operators/sessions?name=" + who)
			if (r.code == http.StatusOK) != allowed || !allowed && !strings.Contains(r.body, "needs the role admin") {
				t.Errorf("%s looks at the sessions of %s: %d %s", name, who, r.code, r.body)
			}
		}
		if r := v.get("/account"); r.code != http.StatusOK || !strings.Contains(r.body, "this one") {
			t.Errorf("%s: %d %s", name, r.code, r.body)
		}
		form := v.token("/account")
		change := func(old string) reply {
			return v.post("/do/operator-password", url.Values{"form": {form}, "back": {"account"}, "name": {name},
				"old": {old}, "password": {"another horse"}})
		}
		if r := change("wrong"); !strings.HasPrefix(r.header.Get("Location"), "../account?said=0") ||
			v.get("/account").code != http.StatusOK {
			t.Errorf("%s, with a wrong password: %d %v", name, r.code, r.header)
		}
		if r := change(testPassword); r.header.Get("Location") != "../login?ended=1" {
			t.Errorf("%s: %d %v", name, r.code, r.header)
		}
		if r := v.get("/login?ended=1"); !strings.Contains(r.body, "Your session has ended with it") {
			t.Errorf("%s: %s", name, r.body)
		}
		if r := v.get("/account"); r.code != http.StatusSeeOther {
			t.Errorf("%s is still in: %d", name, r.code)
		}
	}
	// Who has no password here has no page.
	if r := h.visitor().get("/account", h.bearer(access.Admin)...); r.code != http.StatusNotFound {
		t.Errorf("a token: %d %s", r.code, r.body)
	}
}

// TestOtherSessions: one ends the sessions elsewhere, by a form, and stays.
func TestOtherSessions(t *testing.T) {
	h := newHall(t, Options{})
	here, there := h.as("ann"), h.as("ann")
	r := here.post("/do/operator-logout", url.Values{"form": {here.token("/account")}, "back": {"account"},
		"name": {"ann"}, "others": {"true"}})
	if r.code != http.StatusSeeOther || !strings.HasPrefix(r.header.Get("Location"), "../account?said=1") {
		t.Errorf("%d %v", r.code, r.header)
	}
	if here.get("/account").code != http.StatusOK || there.get("/account").code != http.StatusSeeOther {
		t.Error("the wrong one has ended")
	}
	if r := here.post("/do/operator-logout", url.Values{"form": {here.token("/account")}, "back": {"account"},
		"name": {"vera"}}); !strings.HasPrefix(r.header.Get("Location"), "../account?said=0") {
		t.Errorf("somebody else's: %d %v", r.code, r.header)
	}
}

// TestTokenIsShownOnce: the secret of a token is in the answer to the form, and in no address.
func TestTokenIsShownOnce(t *testing.T) {
	h := newHall(t, Options{})
	v := h.as("root")
	values := url.Values{"form": {v.token("/operators")}, "back": {"operators"}, "name": {"ci"},
		"role": {"view"}, "for": {"1d"}}
	r := v.post("/do/token-add", values)
	if r.code != http.StatusOK || r.header.Get("Location") != "" || !strings.Contains(r.body, ">weir_") ||
		r.header.Get("Cache-Control") != "no-store" || !strings.Contains(r.body, `href="../operators"`) {
		t.Errorf("%d %v %s", r.code, r.header, r.body)
	}
	if again := v.post("/do/token-add", values); !strings.HasPrefix(again.header.Get("Location"), "../operators?said=0") {
		t.Errorf("a reload: %d %s", again.code, again.body)
	}
	if page := v.get("/operators"); strings.Contains(page.body, "weir_") || !strings.Contains(page.body, ">ci") {
		t.Errorf("%s", page.body)
	}
}
