package authgate

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"

	"weir"
	"weir/throttle/quota"
)

func benchGate(b *testing.B, limit int64) *Gate {
	q,
		err := quota.New(quota.Options{Policies: []quota.Policy{{Name: "per-hour", Limit: quota.Count(limit),
		Period: weir.Period{Length: 3600e9}}}})
	if err != nil {
		b.Fatal(err)
	}
	g, err := New(Options{Listen: "127.0.0.1:0", Account: []string{"header:X-Api-Key"}}, chainOf(b, q), Env{})
	if err != nil {
		b.Fatal(err)
	}
	return g
}

// One answer through the handler, without the socket.
func BenchmarkAnswer(b *testing.B) {
	for name, limit := range map[string]int64{"admit": 1 << 40, "refuse": 1} {
		b.Run(name, func(b *testing.B) {
			g := benchGate(b, limit)
			req := &http.Request{Method: "GET", RemoteAddr: netip.AddrPortFrom(loopback, 1).String(),
				Header: headersOf(byNginx("X-Api-Key", "acme")...)}
			w := &recorder{header: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				g.ServeHTTP(w, req)
			}
		})
	}
}

// Questions over connections that stay open, as a proxy asks them, beside a handler that always says yes.
func BenchmarkServe(b *testing.B) {
	b.Run("weir", func(b *testing.B) {
		g := benchGate(b, 1<<40)
		if err := g.Listen(); err != nil {
			b.Fatal(err)
		}
		g.Start()
		defer func() { _ = g.Stop(b.Context()) }()
		askAll(b, g.Addr().String())
	})
	b.Run("plain", func(b *testing.B) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter,
			_ *http.Request) {
			w.WriteHeader(http.StatusOK)
		})}
		go func() { _ = s.Serve(l) }()
		defer s.Close()
		askAll(b, l.Addr().String())
	})
}

// askAll asks on 16 connections for each processor.
func askAll(b *testing.B, address string) {
	question := []byte(wire(byNginx("X-Api-Key", "acme", "User-Agent", "curl/8"), ""))
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		c, err := net.Dial("tcp", address)
		if err != nil {
			b.Error(err)
			return
		}
		defer c.Close()
		br := bufio.NewReader(c)
		for pb.Next() {
			_, _ = c.Write(question)
			res, err := http.ReadResponse(br, nil)
			if err != nil || res.StatusCode != http.StatusOK {
				b.Error(res, err)
				return
			}
			_, _ = io.Copy(io.Discard, res.Body)
		}
	})
}
