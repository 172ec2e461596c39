package rlsgate

import (
	"math"
	"testing"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	"weir/internal/testkit/needs"
)

// An answer is written as protobuf's own code writes it, after what was there before.
func TestWritten(t *testing.T) {
	needs.Unwatched(t)
	number := rapid.OneOf(rapid.Uint32Range(0, 2), rapid.Uint32Range(126, 129), rapid.Uint32())
	code := rapid.SampledFrom([]rls.RateLimitResponse_Code{rls.RateLimitResponse_OK, rls.RateLimitResponse_OVER_LIMIT})
	rapid.Check(t, func(t *rapid.T) {
		var r reply
		r.begin(rapid.IntRange(0, 3).Draw(t, "descriptors"))
		r.OverallCode = code.Draw(t, "overall")
		for i, st := range r.Statuses {
			st.Code, st.LimitRemaining = code.Draw(t, "code"), number.Draw(t, "remaining")
			if rapid.Bool().Draw(t, "limited") {
				l := &r.limits[i]
				l.RequestsPerUnit, st.CurrentLimit = number.Draw(t, "limit"), l
				l.Unit = rls.RateLimitResponse_RateLimit_Unit(rapid.Int32Range(0, 7).Draw(t, "unit"))
				l.Name = rapid.StringN(0, 200, 20_000).Draw(t, "name")
			}
			if rapid.Bool().Draw(t, "resets") {
				st.DurationUntilReset = &durationpb.Duration{Seconds: rapid.Int64Range(0, math.MaxInt64).Draw(t, "seconds")}
			}
		}
		if rapid.IntRange(0, 9).Draw(t, "headers") == 0 {
			h := Headers{Limit: "a", Remaining: "b", Reset: "c"}
			r.ResponseHeadersToAdd = h.about(&rls.RateLimitResponse_DescriptorStatus{
				CurrentLimit: &rls.RateLimitResponse_RateLimit{}}, noon)
		}
		got, err := r.write([]byte("head"))
		if err != nil {
			t.Fatal(err)
		}
		var read rls.RateLimitResponse
		if err := proto.Unmarshal(got[len("head"):], &read); err != nil {
			t.Fatal(err)
		}
		if string(got[:4]) != "head" || !proto.Equal(&read, &r.RateLimitResponse) {
			t.Fatalf("%v is written as %v", &r.RateLimitResponse, &read)
		}
	})
}

// A name that is not text is refused, as protobuf's own code does.
func TestWrittenNames(t *testing.T) {
	var r reply
	r.begin(1)
	r.limits[0].Name, r.Statuses[0].CurrentLimit = "\xff", &r.limits[0]
	if b, err := r.write(nil); err == nil {
		t.Errorf("it is written as %q", b)
	}
}

// BenchmarkWrite writes the usual answer, and has protobuf's own code do it.
func BenchmarkWrite(b *testing.B) {
	var r reply
	r.begin(1)
	l := &r.limits[0]
	l.Name, l.RequestsPerUnit, l.Unit = "per-minute", 1_000_000, rls.RateLimitResponse_RateLimit_MINUTE
	st := r.Statuses[0]
	st.CurrentLimit, st.LimitRemaining, st.DurationUntilReset = l, 999_999, &durationpb.Duration{Seconds: 42}
	for name, write := range map[string]func([]byte) ([]byte, error){
		"here": r.write,
		"protobuf": func(to []byte) ([]byte, error) {
			return proto.MarshalOptions{}.MarshalAppend(to, &r.RateLimitResponse)
		},
	} {
		b.Run(name, func(b *testing.B) {
			var to []byte
			for b.Loop() {
				to, _ = write(to[:0])
			}
		})
	}
}
