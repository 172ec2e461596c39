package apigate

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"weir"
	"weir/throttle/quota"
)

// A sink is a response that nobody reads.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }
func (s *sink) WriteHeader(int)             {}

// One decision through the handler, without the socket.
func BenchmarkDecide(b *testing.B) {
	for name, body := range map[string]string{
		"small": `{"account":"acme"}`,
		"full":  `{"policy":"web","source":"192.0.2.1","account":"acme","plan":"gold","kind":"http","route":{"method":"GET","host":"example.com","path":"/v1/users"},"cost":1,"id":"q1"}`,
		"batch": "[" + strings.Repeat(`{"account":"acme"},`, 99) + `{"account":"acme"}]`,
	} {
		b.Run(name, func(b *testing.B) {
			q,
				err := quota.New(quota.Options{Policies: []quota.Policy{{Name: "per-second",
				Limit: quota.Count(1 << 40), Period: weir.Period{Length: 1e9}}}})
			if err != nil {
				b.Fatal(err)
			}
			chains := policies{"web": chainOf(b, q)}
			g, err := New(options(Options{}, chains), chains, Env{})
			if err != nil {
				b.Fatal(err)
			}
			req, err := http.NewRequest(http.MethodPost, "/v1/decide", nil)
			if err != nil {
				b.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+token)
			reader := strings.NewReader(body)
			req.Body = io.NopCloser(reader)
			w := &sink{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				reader.Reset(body)
				g.ServeHTTP(w, req)
			}
		})
	}
}
