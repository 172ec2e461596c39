package app

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/console"
	"weir/internal/testkit/needs"
)

// everyGate has a gate of every kind that listens, and a Bloom limiter in each place that one can have.
const everyGate = `
data: DATA
http:
- {listen: "127.0.0.1:0", upstream: UPSTREAM, throttles: [each]}
tcp:
- {listen: "127.0.0.1:0", upstream: TCPUPSTREAM, accept: [edge]}
- {listen: "127.0.0.1:0", protocol: udp, upstream: TCPUPSTREAM, throttles: [packets]}
api:
  listen: 127.0.0.1:0
  tokens: [sesame-sesame-sesame]
  policies: {login: [each], network: [asked]}
throttles:
  each:    {bloom: {rate: 4/h, burst: 4, k: 2, v4: 32, attackers: 100}}
  edge:    {bloom: {rate: 2/h, burst: 2, k: 2, v4: 32, attackers: 100}}
  asked:   {bloom: {rate: 2/h, burst: 2, k: 2, attackers: 100}}
  packets: {bloom: {rate: 2/h, burst: 2, k: 2, attackers: 100}}
console: {listen: "127.0.0.1:0"}
`

func startEveryGate(t *testing.T) *bench {
	t.Helper()
	return start(t, strings.ReplaceAll(everyGate, "TCPUPSTREAM", echoServer(t)))
}

// decide asks the decision API and returns the verdict and the whole answer.
func (b *bench) decide(body string) (string, map[string]any) {
	b.t.Helper()
	req, _ := http.NewRequest("POST", "http://"+b.Addr("api", 0).String()+"/v1/decide", strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer sesame-sesame-sesame")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer := map[string]any{}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || resp.StatusCode != 200 {
		b.t.Fatalf("%d %v %v", resp.StatusCode, answer, err)
	}
	return fmt.Sprint(answer["verdict"]), answer
}

// echoes reports whether what is sent over the TCP gate comes back.
func (b *bench) echoes() bool {
	b.t.Helper()
	c, err := net.Dial("tcp", b.Addr("tcp", 0).String())
	if err != nil {
		return false // the reset came before the dial was over
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprint(c, "hello")
	got, err := io.ReadAll(io.LimitReader(c, 5))
	return err == nil && string(got) == "hello"
}

// TestEveryGate: a Bloom limiter judges requests, connections and questions; a throttle that several gates list is one.
func TestEveryGate(t *testing.T) {
	t.Parallel()
	b := startEveryGate(t)
	for i, want := range []int{200, 200, 200} {
		b.wants(fmt.Sprint("request ", i), b.get(0, "any"), want)
	}
	verdict, _ := b.decide(`{"policy":"login","source":"127.0.0.1"}`)
	b.wants("the fourth, over the API", verdict, "admit")
	b.wants("the fifth, over HTTP", b.get(0, "any"), 429)
	verdict, answer := b.decide(`{"policy":"login","source":"127.0.0.1"}`)
	b.wants("the sixth, over the API", verdict, "refuse")
	for key, want := range map[string]any{"by": "each", "rule": "v4/32", "reason": "over-limit", "limit": 4.0,
		"remaining": 0.0} {
		b.wants(key, answer[key], want)
	}
	if after, _ := answer["retry_after"].(float64); after <= 0 || after > 3600 {
		t.Errorf("retry after %v", answer["retry_after"])
	}
	verdict, _ = b.decide(`{"policy":"network","source":"2001:db8::1"}`)
	b.wants("another policy, another source", verdict, "admit")

	for i, want := range []bool{true, true, false, false} {
		b.wants(fmt.Sprint("connection ", i), b.echoes(), want)
	}

	why, err := console.WhyAskCall.Ask(t.Context(), b.client, console.Question{Gate: b.Addr("tcp", 0).String(), Source: "127.0.0.1"})
	if err != nil || why.Verdict != weir.Refuse || why.By != "edge" || len(why.Steps) != 2 {
		t.Errorf("%+v, %v", why, err)
	}
	why, err = console.WhyAskCall.Ask(t.Context(), b.client, console.Question{Gate: b.Addr("tcp", 0).String(), Source: "192.0.2.1"})
	// The key is drawn by chance: the two may share one of their limiters.
	if err != nil || why.Verdict != weir.Admit || why.Steps[0].Throttle != "edge" ||
		why.Steps[0].Rules[0].Remaining < 1 {
		t.Errorf("%+v, %v", why, err)
	}

	s, err := console.StatusCall.Ask(t.Context(), b.client, console.None{})
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, g := range s.Gates {
		kinds = append(kinds, g.Kind)
	}
	b.wants("kinds of gates", kinds, []string{"http", "tcp", "udp", "api"})
	for _, th := range s.Throttles {
		if th.Kind != "ban" && (th.Bloom == nil || th.Bloom.Bytes == 0) {
			t.Errorf("%s: %+v", th.Throttle, th.Bloom)
		}
	}
	_, body := b.page("/metrics")
	for _, want := range []string{
		`weir_throttle_verdicts_total{mode="enforce",policy="v4/32",throttle="edge",verdict="refuse"} 2`,
		`weir_throttle_verdicts_total{mode="enforce",policy="v4/32",throttle="each",verdict="refuse"} 2`,
		`weir_tcp_verdicts_total{gate="127.0.0.1:0",verdict="admit"} 2`,
		`weir_api_decisions_total{policy="login",verdict="refuse"} 1`,
		`weir_bloom_collateral_ratio{throttle="edge"} 0`,
		`weir_bound_reached_total{bound="tcp_connections"} 0`,
		`weir_bound_reached_total{bound="api_holds"} 0`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s", want)
		}
	}
}

// TestEveryGateReloads: a reload keeps what was used, a changed limit takes effect, and gates that are gone are gone.
func TestEveryGateReloads(t *testing.T) {
	t.Parallel()
	b := startEveryGate(t)
	b.echoes()
	b.echoes()
	b.decide(`{"policy":"network","source":"192.0.2.1"}`)
	upstream := b.current.Load().cfg.TCP[0].Upstream
	text := strings.ReplaceAll(everyGate, "TCPUPSTREAM", upstream)
	api, tcp := b.Addr("api", 0).String(), b.Addr("tcp", 0).String()
	if err := b.Reload(b.config(strings.Replace(text, "asked:   {bloom: {rate: 2/h, burst: 2",
		"asked:   {bloom: {rate: 3/h, burst: 4", 1))); err != nil {
		t.Fatal(err)
	}
	b.wants("the API's address", b.Addr("api", 0).String(), api)
	b.wants("the TCP gate's address", b.Addr("tcp", 0).String(), tcp)
	b.wants("a third connection after the reload", b.echoes(), false)
	granted := 0
	for range 6 {
		if verdict, _ := b.decide(`{"policy":"network","source":"192.0.2.1"}`); verdict == "admit" {
			granted++
		}
	}
	b.wants("with the new limit", granted, 4)

	if err := b.Reload(b.config(`
data: DATA
http: [{listen: "127.0.0.1:0", upstream: UPSTREAM, throttles: [each]}]
throttles: {each: {bloom: {rate: 4/h, burst: 4, k: 2, v4: 32, attackers: 100}}}
console: {listen: "127.0.0.1:0"}
`)); err != nil {
		t.Fatal(err)
	}
	if b.Addr("api", 0) != nil || b.Addr("tcp", 0) != nil {
		t.Error("gates that are gone have an address")
	}
	b.background.Wait()
	for _, addr := range []string{api, tcp} {
		closed(t, addr)
	}
	_, body := b.page("/metrics")
	for _, gone := range []string{"weir_tcp_verdicts_total{", `throttle="edge"`, `policy="login"`} {
		if strings.Contains(body, gone) {
			t.Errorf("metrics still have %s", gone)
		}
	}
	b.wants("the gate that is left", b.get(0, "any"), 200)
}

// TestBloomIsSwept: the limiter is advanced while it is in use.
func TestBloomIsSwept(t *testing.T) {
	t.Parallel()
	b := startEveryGate(t)
	each := b.current.Load().throttle("each")
	before := each.view().Bloom.Rotations
	for range 15 * 60 { // 15 hours; a burst takes one to fill, and the key changes after ten times that
		ev := &weir.Event{Time: b.clock.Now(), Source: netip.MustParseAddr("192.0.2.1")}
		if err := each.judge.Judge(t.Context(), ev, new(weir.Answer)); err != nil {
			t.Fatal(err)
		}
		b.clock.Leap(time.Minute)
	}
	if got := each.view().Bloom.Rotations; got != before+1 {
		t.Errorf("%d changes of the key in 15 hours", got-before)
	}
}

// TestGatesWithPortZero: gates that take any free port have figures of their own, over reloads, too.
func TestGatesWithPortZero(t *testing.T) {
	t.Parallel()
	const two = `
data: DATA
http:
- {listen: "127.0.0.1:0", upstream: UPSTREAM}
- {listen: "127.0.0.1:0", upstream: UPSTREAM}
console: {listen: "127.0.0.1:0"}
`
	b := start(t, two)
	counts := func() (all []uint64) {
		for _, gt := range b.current.Load().gates {
			all = append(all, gt.seen.verdicts().Verdicts[weir.Admit])
		}
		return all
	}
	settled := func(want string) {
		t.Helper()
		needs.Wait(t, "counts of "+want, func() bool { return fmt.Sprint(counts()) == want })
	}
	for range 3 {
		b.get(0, "acme")
	}
	b.get(1, "acme")
	settled("[3 1]")
	if err := b.Reload(b.config(two + "log: {access: refused}\n")); err != nil {
		t.Fatal(err)
	}
	b.get(1, "acme")
	settled("[3 2]")
	if _, body := b.page("/metrics"); !strings.Contains(body,
		`weir_http_requests_total{code="2xx",gate="127.0.0.1:0 (2)",verdict="admit"} 2`) {
		t.Error(body)
	}
}
