package app

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"weir/console"
)

// newcomers has the gates that share a monthly plan, in front of an upstream that knows some keys.
const newcomers = `
data: DATA
http:
- {listen: "127.0.0.1:0", upstream: UPSTREAM, trusted_proxies: [127.0.0.1/32], account: ["header:X-Account"], throttles: [plans]}
auth:
- {listen: "127.0.0.1:0", trusted_proxies: [127.0.0.1/32], account: ["header:X-Account"], throttles: [plans]}
api:
  listen: 127.0.0.1:0
  tokens: [sesame-sesame-sesame]
  policies: {asked: [plans]}
throttles:
  plans:
    quota:
      policies: [{name: monthly, limit: 3, period: month}]
      plans: {gold: {monthly: {limit: 5}}}
      members: {member: gold}
      max_accounts: 100
console: {listen: "127.0.0.1:0"}
`

// knowsKeys lets customers in, asks everybody else to log in, and fails for whoever wants it to.
func knowsKeys(w http.ResponseWriter, r *http.Request) {
	switch key := r.Header.Get("X-Account"); {
	case strings.HasPrefix(key, "broken"):
		w.WriteHeader(http.StatusServiceUnavailable)
	case !strings.HasPrefix(key, "customer"):
		w.WriteHeader(http.StatusUnauthorized)
	default:
		io.WriteString(w, "hello")
	}
}

// at asks a gate with a key, as somebody behind the proxy.
func (b *bench) at(addr, key, from string) (int, map[string]any) {
	b.t.Helper()
	req, err := http.NewRequest("GET", "http://"+addr+"/", nil)
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("X-Account", key)
	for name, value := range map[string]string{"X-Forwarded-For": from, "X-Forwarded-Method": "GET",
		"X-Forwarded-Host": "shop.example",
		"X-Forwarded-Uri":  "/", "X-Forwarded-Proto": "https"} { // forward-auth wants to know
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	told := map[string]any{}
	if resp.StatusCode == http.StatusTooManyRequests {
		if err := json.Unmarshal(body, &told); err != nil {
			b.t.Fatalf("%s: %v", body, err)
		}
	}
	return resp.StatusCode, told
}

// table is how full the table of the plans is.
func (b *bench) table() *console.Table {
	b.t.Helper()
	s, err := console.StatusCall.Ask(b.t.Context(), b.client, console.None{})
	if err != nil {
		b.t.Fatal(err)
	}
	return s.Throttles[0].Table
}

// exactly wants a key to be let in so many times more, and then to be refused by its own limit.
func (b *bench) exactly(addr, key, from string, left int) {
	b.t.Helper()
	for range left {
		if code, told := b.at(addr, key, from); code != http.StatusOK {
			b.t.Fatalf("%s: %d %v", key, code, told)
		}
	}
	if code, told := b.at(addr, key, from); code != http.StatusTooManyRequests || told["reason"] != "over-limit" {
		b.t.Fatalf("%s: %d %v", key, code, told)
	}
}

// Twice as many invented keys as there is room for, and a new customer gets its month, whether the gate sees the answer
// or the options name the customer; also after a restart.
func TestANewCustomerAmongInventedKeys(t *testing.T) {
	t.Parallel()
	b := startBefore(t, newcomers, knowsKeys)
	web := b.Addr("http", 0).String()
	b.exactly(web, "customer-early", "192.0.2.1", 3)
	flood := func(name string, from int) {
		for i := range 200 {
			if code, told := b.at(web, fmt.Sprint(name, i),
				fmt.Sprintf("198.51.%d.%d", from, i)); code != http.StatusUnauthorized &&
				code != http.StatusServiceUnavailable {
				t.Fatalf("%d %v", code, told)
			}
		}
	}
	flood("invented-", 1)
	b.exactly(web, "customer-new", "192.0.2.2", 3)
	flood("broken-", 2)
	b.exactly(web, "customer-newer", "192.0.2.3", 3)
	b.exactly(b.Addr("auth", 0).String(), "member", "192.0.2.4", 5)
	b.exactly(b.Addr("auth", 0).String(), "customer-early", "192.0.2.1", 0)
	for _, key := range []string{"customer-new", "member"} {
		if verdict, told := b.decide(`{"policy": "asked", "account": "` + key + `"}`); verdict != "refuse" ||
			told["reason"] != "over-limit" {
			t.Errorf("%s: %s %v", key, verdict, told)
		}
	}
	table := b.table() // a member has a place beyond the bound
	if table.Accounts > 101 || table.Accounts-table.Probation != 4 || table.PushedOut < 300 || table.Strangers != 0 {
		t.Errorf("%+v", table)
	}
	b.again(nil)
	web = b.Addr("http", 0).String()
	if table := b.table(); table.Accounts-table.Probation != 4 {
		t.Errorf("after a restart: %+v", table)
	}
	flood("again-", 3)
	for _, key := range []string{"customer-early", "customer-new", "customer-newer", "member"} {
		b.exactly(web, key, "192.0.2.9", 0)
	}
}

// Where no gate sees an answer, a source has room for so many keys, and those beyond share: they are told so, and to
// try again soon.
func TestKeysBeyondTheBoundShare(t *testing.T) {
	t.Parallel()
	b := startBefore(t, strings.Replace(newcomers, "max_accounts: 100", "max_accounts: 20\n      new_accounts: 4/h", 1),
		knowsKeys)
	asked := b.Addr("auth", 0).String()
	for i := range 10 { // half of the table
		b.exactly(asked, fmt.Sprint("early-", i), "192.0.2.1", 3)
	}
	for i := range 4 {
		b.exactly(asked, fmt.Sprint("key-", i), "192.0.2.1", 3)
	}
	var code int
	told := map[string]any{}
	for range 4 { // the fifth is charged to what it shares
		code, told = b.at(asked, "key-4", "192.0.2.1")
	}
	wait, _ := told["retry_after"].(float64)
	if code != http.StatusTooManyRequests || told["reason"] != "shared-limit" || wait < 1 || wait > 60 ||
		!strings.Contains(fmt.Sprint(told["detail"]), "Accounts that are new to the server share it.") {
		t.Errorf("%d %v", code, told)
	}
	verdict, told := b.decide(`{"policy": "asked", "account": "key-4", "source": "192.0.2.1"}`)
	if wait, _ := told["retry_after"].(float64); verdict != "refuse" || told["reason"] != "shared-limit" || wait > 60 {
		t.Errorf("%s %v", verdict, told)
	}
	b.exactly(asked, "key-5", "192.0.2.2", 3) // another source has room
	b.exactly(asked, "member", "192.0.2.1", 5)
}

// Who settles with the status that a request got tells a quota as much as the HTTP gate does.
func TestASettlementTellsTheStatus(t *testing.T) {
	t.Parallel()
	b := startBefore(t, newcomers, knowsKeys)
	settle := func(hold any, status string) (int, string) {
		req, _ := http.NewRequest("POST", "http://"+b.Addr("api", 0).String()+"/v1/settle",
			strings.NewReader(fmt.Sprintf(`{"hold": %q%s}`, hold, status)))
		req.Header.Set("Authorization", "Bearer sesame-sesame-sesame")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body)
	}
	for i, c := range []struct {
		status   string
		accepted int
	}{{"", 0}, {`, "status": 401`, 0}, {`, "status": 503`, 0}, {`, "status": 599`, 0}, {`, "status": 200`, 1},
		{`, "status": 404`, 2}} {
		_, told := b.decide(fmt.Sprintf(`{"policy": "asked", "account": "key-%d", "hold": true}`, i))
		for _, wrong := range []string{`, "status": 99`, `, "status": 600`, `, "status": -1`} {
			if code, body := settle(told["hold"], wrong); code != http.StatusBadRequest ||
				!strings.Contains(body, "status") {
				t.Errorf("%s: %d %s", wrong, code, body)
			}
		}
		if code, body := settle(told["hold"], c.status); code != http.StatusOK {
			t.Fatalf("%d %s", code, body)
		}
		if table := b.table(); table.Accounts-table.Probation != c.accepted {
			t.Errorf("%s: %+v", c.status, table)
		}
	}
}
