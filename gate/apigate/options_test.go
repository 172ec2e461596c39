package apigate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir"
)

func TestValidate(t *testing.T) {
	good := Options{Listen: "127.0.0.1:9100", Tokens: []string{token}, Policies: map[string][]string{"web": {"plans"}}}
	for _, o := range []Options{good, good.WithDefaults()} {
		if err := o.Validate(); err != nil {
			t.Error(err)
		}
	}
	bad := Options{
		Listen: "9100", Tokens: []string{"short", token, token, "sixteen characters", strings.Repeat("x", 1025),
			"sixteencharacterß"},
		Policies: map[string][]string{"": nil, "a b": nil, strings.Repeat("x", 65): nil, "web": nil},
		Holds:    Holds{Max: -1, TTL: 1, Expired: "gone"},
		Bounds:   Bounds{Connections: -1, Requests: 1e9, Body: 10, Batch: -1, Recipients: -1},
		Timeouts: Timeouts{Header: -1, Idle: -1, Wait: weir.Duration(2 * time.Hour)},
	}
	var paths []string
	for _, fe := range weir.FieldErrors(bad.Validate()) {
		paths = append(paths, fe.Path)
		if fe.Msg == "" || fe.Hint == "" {
			t.Errorf("%v has no hint", fe)
		}
		if strings.Contains(fe.Error(), "short") || strings.Contains(fe.Error(), token) {
			t.Errorf("%v tells a secret", fe)
		}
	}
	want := "listen tokens[0] tokens[2] tokens[3] tokens[4] tokens[5] policies. policies.a b policies." +
		strings.Repeat("x", 65) +
		" holds.max holds.ttl holds.expired bounds.connections bounds.requests bounds.body bounds.batch " +
		"bounds.recipients" +
		" timeouts.header timeouts.idle timeouts.wait"
	if got := strings.Join(paths, " "); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	if _, err := New(bad, nil, Env{}); err == nil {
		t.Error("a gate with mistakes")
	}
	for listen, ok := range map[string]bool{"": false, "a:b": false, ":70000": false, ":0": true, "[::1]:9100": true} {
		o := good
		o.Listen = listen
		if err := o.Validate(); (err == nil) != ok {
			t.Errorf("%q: %v", listen, err)
		}
	}
	if got := len(weir.FieldErrors(Options{Listen: ":1"}.Validate())); got != 2 {
		t.Errorf("%d mistakes in nothing, want 2: no tokens, no policies", got)
	}
	many := good
	many.Tokens, many.Policies = nil, map[string][]string{}
	for i := range maxTokens + 1 {
		many.Tokens = append(many.Tokens, fmt.Sprintf("%016d", i))
		many.Policies[fmt.Sprint(i)] = nil
	}
	if got := len(weir.FieldErrors(many.Validate())); got != 2 {
		t.Errorf("%d mistakes, want 2: too many tokens, too many policies", got)
	}
}
