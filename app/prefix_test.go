package app

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const behindAProxy = `
data: DATA
console: {listen: "127.0.0.1:0"}
http:
- {listen: "127.0.0.1:0", upstream: UPSTREAM, trusted_proxies: [127.0.0.1/32], throttles: [edge THEN]}
throttles:
  edge: {bloom: {rate: 6/m, burst: 15, attackers: 8, rotate: 26m}}
  later: {bloom: {rate: 1/h, v6: [16]}}
`

// TestOnePrefixKeepsNobodyOut: a /48 asks from random /64s. Its excess is refused, by the limiter itself or by another
// throttle after it. Other networks get through, before the key changes and after it.
func TestOnePrefixKeepsNobodyOut(t *testing.T) {
	for _, then := range []string{"", ", later"} {
		t.Run(then, func(t *testing.T) {
			t.Parallel()
			b := start(t, strings.ReplaceAll(behindAProxy, " THEN", then))
			refused, others, changed := 0, 0, 0
			for step := 60 * time.Second; changed < 3; others += 2 {
				b.clock.Advance(step)
				for i := range 2 {
					if code := b.from(fmt.Sprintf("198.51.%d.1", others+i)); code != 200 {
						t.Errorf("an innocent network gets %d, %d steps after the key has changed", code, changed)
					}
				}
				for i := range 120 {
					if b.from(fmt.Sprintf("2001:db8:0:%x::1", others*60+i)) == 429 {
						refused++
					}
				}
				bloom := b.current.Load().throttle("edge").view().Bloom
				if bloom.Rotations > 0 {
					changed++
				}
				if others == 2*24 { // a minute or so before
					step = 5 * time.Second
				}
				if others > 250 {
					t.Fatalf("the key does not change: %+v", bloom)
				}
			}
			if refused < 1000 {
				t.Errorf("hardly a flood: %d refused", refused)
			}
		})
	}
}
