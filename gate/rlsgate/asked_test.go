package rlsgate

import (
	"testing"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
)

// FuzzAsked: a request is read as protobuf's own code reads it, whatever the request before it was. Fields that nobody
// knows are left out.
func FuzzAsked(f *testing.F) {
	message := func(req *rls.RateLimitRequest) []byte {
		b, err := proto.Marshal(req)
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	plain := message(&rls.RateLimitRequest{Domain: "edge", HitsAddend: 7,
		Descriptors: descriptors("user=ann,path=/x", "remote_address=192.0.2.1")})
	odd := message(&rls.RateLimitRequest{Domain: "other", Descriptors: descriptors("user=bob +3 limit=5/hour")})
	f.Add(plain, odd)
	f.Add(odd, plain)
	f.Add(plain, []byte{})
	f.Add(plain, []byte("\x0a\x01\xff"))
	f.Add(plain, append(message(&rls.RateLimitRequest{Domain: "a"}), plain...))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var a asked
		for _, b := range [][]byte{first, second} {
			got, err := a.read(b)
			var want rls.RateLimitRequest
			if wrong := proto.Unmarshal(b, &want); (err != nil) != (wrong != nil) {
				t.Fatalf("%x: %v, want %v", b, err, wrong)
			} else if err == nil && !proto.Equal(got, &want) {
				t.Fatalf("%x is read as %v, want %v", b, got, &want)
			}
		}
	})
}

// TestPlainRequestsLeaveNothing: what Envoy sends again and again is read without new memory.
func TestPlainRequestsLeaveNothing(t *testing.T) {
	b, err := proto.Marshal(&rls.RateLimitRequest{Domain: "edge", Descriptors: descriptors("user=ann,path=/x")})
	if err != nil {
		t.Fatal(err)
	}
	var a asked
	if n := testing.AllocsPerRun(100, func() {
		if _, err := a.read(b); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
