package apigate

import (
	"fmt"
	"strings"
	"testing"

	"weir"
	"weir/gate/gatetest"
	"weir/identify"
	"weir/throttle/quota"
)

func TestParts(t *testing.T) {
	c := newClock()
	q := gatetest.Quota(t, c.Fake, quota.Options{Policies: []quota.Policy{perHour(1)},
		Key: []string{"account", "method", "header:X-Tenant", "jwt:org"}})
	r := start(t, Options{}, c, policies{"web": chainOf(t, q), "plain": chainOf(t, newQuota(t, c, perHour(1)))})
	for i, one := range []struct {
		question string
		want     weir.Verdict
	}{
		{`"parts":{"header:X-Tenant":"one","jwt:org":"7"}`, weir.Admit},
		{`"parts":{"header:x-tenant":"one","jwt:org":"7"}`, weir.Refuse},
		{`"parts":{"header:X-Tenant":"one"}`, weir.Admit},
		{`"parts":{"header:X-Tenant":"one","jwt:org":""}`, weir.Refuse},
		{`"parts":{"header:X-Tenant":"one,7"}`, weir.Admit},
		{`"parts":null`, weir.Admit},
		{`"parts":{}`, weir.Refuse},
		{`"route":"GET /","parts":{}`, weir.Admit},
	} {
		r.decide(`{"policy":"web","account":"acme",`+one.question+`}`, one.want)
		if t.Failed() {
			t.Fatalf("question %d", i)
		}
	}
	many := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`"header:X-%d":"v"`, i))
		}
		return "{" + strings.Join(all, ",") + "}"
	}
	long := strings.Repeat("x", identify.MaxKey)
	for question, field := range map[string]string{
		`{"policy":"web","parts":7}`:                                             "parts",
		`{"policy":"web","parts":{"header:X-Tenant":7}}`:                         "parts.header:X-Tenant",
		`{"policy":"web","parts":{"header:X-Tenent":"one"}}`:                     "parts.header:X-Tenent",
		`{"policy":"web","parts":{"tenant":"one"}}`:                              "parts.tenant",
		`{"policy":"web","parts":{"method":"GET"}}`:                              "parts.method",
		`{"policy":"web","parts":{"header:X-Tenant":"a","header:x-tenant":"b"}}`: "parts.header:x-tenant",
		`{"policy":"web","parts":{"header:X-Tenant":" one"}}`:                    "parts.header:X-Tenant",
		`{"policy":"web","parts":{"header:X-Tenant":"o\u0001ne"}}`:               "parts.header:X-Tenant",
		`{"policy":"web","parts":{"header:X-Tenant":"` + long + `x"}}`:           "parts.header:X-Tenant",
		`{"policy":"plain","parts":{"header:X-Tenant":"one"}}`:                   "parts.header:X-Tenant",
		`{"policy":"web","parts":` + many(maxParts+1) + `}`:                      "parts",
		`{"policy":"web","parts":` + many(maxParts) + `}`:                        "parts.header:X-0", // nobody counts by it
	} {
		if a := r.post("/v1/decide", question); a.status != 400 || a.Field != field {
			t.Errorf("%.80s: %d %s", question, a.status, a.body)
		}
	}
	// A part may be as long as a key, but then the key is longer.
	if a := r.decide(`{"policy":"web","account":"acme","parts":{"header:X-Tenant":"`+long+`"}}`, weir.Refuse); a.Reason !=
		weir.BadKey {
		t.Errorf("%s", a.body)
	}
}

func TestSettledCostIsChecked(t *testing.T) {
	r, _ := startQuota(t, Options{}, perHour(10))
	hold := r.decide(`{"account":"acme","hold":true}`, weir.Admit).Hold
	for _, cost := range []string{"-1", "9007199254740993", "1.5", `"3"`} {
		if a := r.settle(hold, `,"cost":`+cost, 400); a.Field != "cost" {
			t.Errorf("%s: %s", cost, a.body)
		}
	}
	r.settle(hold, `,"cost":9007199254740992`, 200)
}
